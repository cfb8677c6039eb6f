# SPDX-License-Identifier: Apache-2.0
"""A program made by hand, without the compiler: one header, one table, and tools to vary it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nicemu.pipeline import NIC_METADATA, Engine, Program, ir

TAG = ir.HeaderType(
    "tag_t",
    (
        ir.Field("kind", ir.Bits(4)),
        ir.Field("flags", ir.Bits(4)),
        ir.Field("number", ir.Bits(16)),
        ir.Field("signed", ir.Bits(8, signed=True)),
    ),
)
HEADERS = ir.StructType(
    "headers_t", (ir.Field("tag", ir.Named("tag_t")), ir.Field("inner", ir.Named("tag_t")))
)
EVENT = ir.StructType("event_t", (ir.Field("number", ir.Bits(16)), ir.Field("kind", ir.Bits(4))))
BYTE = ir.Bits(8)


def header(name: str = "tag") -> ir.Member:
    return ir.Member(ir.Name("headers", ir.Named("headers_t")), name, ir.Named("tag_t"))


def part(name: str, of: str = "tag") -> ir.Member:
    kinds = {item.name: item.type for item in TAG.fields}
    return ir.Member(header(of), name, kinds[name])


def number(value: int, width: int = 16) -> ir.Constant:
    return ir.Constant(value, ir.Bits(width))


def table(*keys: tuple[str, ir.MatchKind], **changes: Any) -> ir.Table:  # noqa: ANN401
    given = [ir.Key(name, part(name), kind) for name, kind in keys or [("number", ir.MatchKind.EXACT)]]
    plain = ir.Table(
        "C.forward",
        tuple(given),
        (ir.ActionRef("C.send"), ir.ActionRef("C.drop")),
        ir.ActionCall("C.drop"),
        4,
    )
    return replace(plain, **changes)


SEND = ir.Action(
    "C.send",
    (ir.Parameter("port", "C.send.port", ir.Bits(16)),),
    (ir.CallFunction("send_to_port", (ir.Name("C.send.port", ir.Bits(16)),)),),
)
DROP = ir.Action("C.drop", (), (ir.CallFunction("drop_packet"),))


def program(
    *body: ir.Statement,
    parse: tuple[ir.Statement, ...] = (ir.Extract(header()),),
    transition: ir.Transition = ir.Goto("accept"),  # noqa: B008
    states: tuple[ir.State, ...] = (),
    tables: tuple[ir.Table, ...] = (table(),),
    actions: tuple[ir.Action, ...] = (),
    variables: tuple[ir.Variable, ...] = (),
    errors: tuple[str, ...] = (),
    externs: tuple[ir.ExternInstance, ...] = (),
) -> Program:
    return Program(
        name="hand_made",
        architecture="nicemu",
        headers=(TAG,),
        structs=(HEADERS, EVENT, ir.StructType("meta_t", (ir.Field("mark", BYTE),)), NIC_METADATA),
        errors=ir.CORE_ERRORS + errors,
        variables=(
            ir.Variable("headers", ir.Named("headers_t")),
            ir.Variable("metadata", ir.Named("meta_t")),
            ir.Variable("nic", ir.Named("nic_metadata_t")),
            ir.Variable("C.send.port", ir.Bits(16)),
            *variables,
        ),
        externs=externs,
        parser=ir.Parser("P", (ir.State("start", parse, transition), *states)),
        controls=(
            ir.Control("control", "C", body or (ir.ApplyTable("C.forward"),)),
            ir.Control("deparser", "D", (ir.Emit(ir.Name("headers", ir.Named("headers_t"))),)),
        ),
        actions=(SEND, DROP, *actions),
        tables=tables,
    )


@pytest.fixture(scope="module")
def hand_made() -> SimpleNamespace:
    """Return the builders; `engine(*body, **changes)` is an engine that runs `program(*body, **changes)`."""

    def engine(*body: ir.Statement, **changes: Any) -> Engine:  # noqa: ANN401
        made = Engine()
        made.load(program(*body, **changes))
        return made

    return SimpleNamespace(
        engine=engine, header=header, number=number, part=part, program=program, table=table
    )


@pytest.fixture
def hand(hand_made: SimpleNamespace) -> SimpleNamespace:
    """Return the builders again, for tests that are no property tests."""
    return hand_made
