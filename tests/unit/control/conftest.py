# SPDX-License-Identifier: Apache-2.0
"""A routing program with a table of every kind, made by hand, and an engine that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nicemu.control.schema import Schema
from nicemu.pipeline import NIC_METADATA, Engine, Program, ir, p4info_of

_IP = ir.HeaderType(
    "ip_t",
    (
        ir.Field("dst", ir.Bits(32)),
        ir.Field("src", ir.Bits(32)),
        ir.Field("proto", ir.Bits(8)),
        ir.Field("port", ir.Bits(16)),
        ir.Field("mac", ir.Bits(48)),
    ),
)


def _key(field: str, kind: ir.MatchKind) -> ir.Key:
    kinds = {item.name: item.type for item in _IP.fields}
    header = ir.Member(ir.Name("headers", ir.Named("headers_t")), "ip", ir.Named("ip_t"))
    return ir.Key(f"hdr.ip.{field}", ir.Member(header, field, kinds[field]), kind)


def _table(name: str, *keys: ir.Key, size: int = 4) -> ir.Table:
    references = (ir.ActionRef("R.send"), ir.ActionRef("R.drop"))
    return ir.Table(name, keys, references, ir.ActionCall("R.drop"), size)


def routing_program() -> Program:
    """Return a program with tables route (lpm), session (exact), acl (ternary, range), fixed and always."""
    port = ir.Parameter("port", "R.send.port", ir.Bits(9))
    fixed = replace(
        _table("R.fixed", _key("proto", ir.MatchKind.EXACT)),
        const_entries=True,
        const_default=True,
        entries=(ir.Entry((ir.KeyMask(6, 0xFF),), ir.ActionCall("R.send", (3,))),),
    )
    session = replace(
        _table("R.session", _key("mac", ir.MatchKind.EXACT), _key("proto", ir.MatchKind.EXACT), size=2),
        actions=(ir.ActionRef("R.send", table_only=True), ir.ActionRef("R.drop", default_only=True)),
    )
    tables = (
        _table("R.route", _key("dst", ir.MatchKind.LPM), size=100),
        session,
        _table("R.acl", _key("src", ir.MatchKind.TERNARY), _key("port", ir.MatchKind.RANGE), size=10),
        fixed,
        _table("R.always"),
    )
    send = ir.CallFunction("send_to_port", (ir.Cast(ir.Name("R.send.port", ir.Bits(9)), ir.Bits(16)),))
    return Program(
        name="routing",
        architecture="nicemu",
        headers=(_IP,),
        structs=(
            ir.StructType("headers_t", (ir.Field("ip", ir.Named("ip_t")),)),
            ir.StructType("meta_t", (ir.Field("mark", ir.Bits(8)),)),
            NIC_METADATA,
        ),
        errors=ir.CORE_ERRORS,
        variables=(
            ir.Variable("headers", ir.Named("headers_t")),
            ir.Variable("metadata", ir.Named("meta_t")),
            ir.Variable("nic", ir.Named("nic_metadata_t")),
            ir.Variable("R.send.port", ir.Bits(9)),
        ),
        externs=(),
        parser=ir.Parser(
            "P",
            (
                ir.State(
                    "start",
                    (
                        ir.Extract(
                            ir.Member(ir.Name("headers", ir.Named("headers_t")), "ip", ir.Named("ip_t"))
                        ),
                    ),
                    ir.Goto("accept"),
                ),
            ),
        ),
        controls=(
            ir.Control("control", "R", tuple(ir.ApplyTable(table.name) for table in tables)),
            ir.Control("deparser", "D", (ir.Emit(ir.Name("headers", ir.Named("headers_t"))),)),
        ),
        actions=(
            ir.Action("R.send", (port,), (send,)),
            ir.Action("R.drop", (), (ir.CallFunction("drop_packet"),)),
        ),
        tables=tables,
    )


@pytest.fixture(scope="session")
def routing() -> Program:
    return routing_program()


@pytest.fixture(scope="session")
def wider_routing(routing: Program) -> Program:
    """The routing program with a session table of 8 entries."""
    tables = tuple(replace(t, size=8) if t.name == "R.session" else t for t in routing.tables)
    return replace(routing, name="wider", tables=tables)


@pytest.fixture(scope="session")
def schema(routing: Program) -> Schema:
    return Schema(p4info_of(routing))


@pytest.fixture
def engine(routing: Program) -> Engine:
    engine = Engine()
    engine.load(routing)
    return engine


@pytest.fixture
def routing_engine_of(routing: Program) -> Callable[[Engine], Engine]:
    """Return a function that loads the routing program into an engine."""

    def make(engine: Engine) -> Engine:
        engine.load(routing)
        return engine

    return make
