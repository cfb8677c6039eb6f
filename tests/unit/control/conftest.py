# SPDX-License-Identifier: Apache-2.0
"""A routing program with a table of every kind, made by hand, a switch, and an engine that runs the first."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nicemu.control.byte_string import encode_bytes
from nicemu.control.device import Device
from nicemu.control.messages import Message, messages
from nicemu.control.schema import Schema
from nicemu.control.stream import Session, uint128
from nicemu.errors import ControlError
from nicemu.p4 import compile_program
from nicemu.pipeline import NIC_METADATA, Engine, Program, Verdict, ir, p4info_of

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
def switch() -> Program:
    """The program of switch.p4, which has an object of every kind."""
    return compile_program(Path(__file__).parent / "switch.p4").program


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


INSERT, MODIFY, DELETE = 1, 2, 3
_DIRECT: dict[str, object] = {"counter_data": {}, "meter_config": {}, "meter_counter_data": {}}


class Controller:
    """A device that runs switch.p4, with its primary's stream, spoken to by the names of the program."""

    def __init__(self, program: Program, engine: Engine | None = None) -> None:
        self.engine = Engine() if engine is None else engine
        self.engine.load(program)
        self.schema = Schema(p4info_of(program))
        self.device = Device(1, self.engine)
        self.session = self.join(9)

    def join(self, election_id: int, role: str = "") -> Session:
        """Return a new session of this election id."""
        session = Session()
        update = {"election_id": {"low": election_id}, "role": {"name": role}}
        self.device.announce(session, messages().StreamMessageRequest(arbitration=update).arbitration)
        return session

    def received(self, session: Session | None = None) -> list[Message]:
        """Return what waits on a stream, but for arbitration."""
        session = session or self.session
        found = []
        while session._waiting.qsize():
            message = session._waiting.get()
            if message is not None and not message.HasField("arbitration"):
                found.append(message)
        return found

    def id(self, noun: str, name: str) -> int:
        """Return the id of a table, an action, or another object."""
        if noun == "table":
            return self.schema.table(name).id
        return self.schema.action(name).id if noun == "action" else int(self.schema.named(noun, name).id)

    def action(self, name: str, *values: int) -> dict[str, object]:
        """Return an Action."""
        params = [{"param_id": place, "value": encode_bytes(value)} for place, value in enumerate(values, 1)]
        return {"action_id": self.id("action", name), "params": params}

    def port(self, flow: int | None, action: str | None = "send", *values: int, **rest: object) -> Message:
        """Return an entry of table port."""
        match = [] if flow is None else [{"field_id": 1, "optional": {"value": bytes([flow])}}]
        chosen = {} if action is None else {"action": {"action": self.action(action, *values)}}
        table = self.id("table", "port")
        return messages().TableEntry(table_id=table, match=match, priority=1, **chosen, **rest)

    def write(self, kind: int, form: str, message: object) -> ControlError | None:
        """Do one update; return its error."""
        (error,) = self.write_all((kind, form, message))
        return error

    def write_all(self, *updates: tuple[int, str, object], atomicity: int = 0) -> list[ControlError | None]:
        """Do updates in one request; return their errors."""
        request = messages().WriteRequest(election_id=uint128(9), atomicity=atomicity)
        for kind, form, message in updates:
            request.updates.append(messages().Update(type=kind, entity={form: message}))
        return self.device.write(request)

    def read(self, form: str, message: object) -> list[Message]:
        """Return the entities of one query."""
        request = messages().ReadRequest()
        request.entities.append(messages().Entity(**{form: message}))
        entities, (error,) = self.device.read(request)
        if error is not None:
            raise error
        return [getattr(entity, form) for entity in entities]

    def frame(self, flow: int, hashed: int = 0, port: int = 1, now_ns: int = 0) -> Verdict:
        """Have a frame come in."""
        return self.engine.process(bytes([flow, hashed]) + b"rest", port, now_ns=now_ns)

    def report(self, now_ns: int = 0) -> None:
        """Do what the server's thread does, until nothing waits."""
        for _ in range(self.device.reports._waiting.qsize()):
            report = self.device.reports.wait(0)
            if report is not None:
                self.device.reports.on_report(report, now_ns)
        self.device.reports.on_timer(now_ns)

    def state(self) -> list[object]:
        """Return everything that can be read, with counts."""
        forms: dict[str, object] = {
            "table_entry": _DIRECT,
            "action_profile_member": {},
            "action_profile_group": {},
            "counter_entry": {},
            "meter_entry": {"counter_data": {}},
            "register_entry": {},
            "value_set_entry": {},
            "digest_entry": {},
        }
        found: list[object] = [self.read(form, message) for form, message in forms.items()]
        found.append(self.read("table_entry", {"is_default_action": True} | _DIRECT))
        for kind in ("multicast_group_entry", "clone_session_entry"):
            found.append(self.read("packet_replication_engine_entry", {kind: {}}))
        return copy.deepcopy(found)

    def every_kind(self) -> list[tuple[int, str, object]]:
        """Return updates of every kind that can be done one after another."""
        ways = self.id("action profile", "ways")
        table = self.id("table", "port")
        counter, meter = self.id("counter", "flows"), self.id("meter", "rates")
        register, ignored = self.id("register", "last"), self.id("value set", "ignored")
        member = {"action_profile_id": ways, "member_id": 1, "action": self.action("send", 1)}
        group = {"action_profile_id": ways, "group_id": 1, "members": [{"member_id": 1, "weight": 1}]}
        match = [{"field_id": 1, "exact": {"value": b"\1"}}]
        way = {
            "table_id": self.id("table", "way"),
            "match": match,
            "action": {"action_profile_group_id": 1},
        }
        default = {
            "table_id": table,
            "is_default_action": True,
            "action": {"action": self.action("send", 9)},
        }
        rates = {"cir": 1, "pir": 1}
        place = {"index": {"index": 1}}
        replicas = [{"port": b"\1"}]
        digest = {"digest_id": self.id("digest", "learn_t"), "config": {"max_list_size": 1}}
        engine = "packet_replication_engine_entry"
        return [
            (INSERT, "table_entry", self.port(1, "send", 1)),
            (MODIFY, "table_entry", self.port(2, "send", 9)),
            (DELETE, "table_entry", self.port(3, None)),
            (MODIFY, "table_entry", default),
            (
                MODIFY,
                "direct_counter_entry",
                {"table_entry": self.port(2, None), "data": {"byte_count": 4}},
            ),
            (MODIFY, "direct_meter_entry", {"table_entry": self.port(2, None), "config": rates}),
            (INSERT, "action_profile_member", member),
            (MODIFY, "action_profile_member", member | {"action": self.action("send", 2)}),
            (INSERT, "action_profile_group", group),
            (MODIFY, "action_profile_group", group | {"members": []}),
            (INSERT, "table_entry", way),
            (MODIFY, "counter_entry", {"counter_id": counter, "data": {"packet_count": 3}, **place}),
            (MODIFY, "counter_entry", {"counter_id": counter, "data": {"packet_count": 5}}),
            (MODIFY, "meter_entry", {"meter_id": meter, "config": rates, **place}),
            (MODIFY, "meter_entry", {"meter_id": meter, "config": rates}),
            (MODIFY, "register_entry", {"register_id": register, "data": {"bitstring": b"\1"}, **place}),
            (MODIFY, "register_entry", {"register_id": register, "data": {"bitstring": b"\2"}}),
            (MODIFY, "value_set_entry", {"value_set_id": ignored, "members": [{"match": match}]}),
            (INSERT, engine, {"multicast_group_entry": {"multicast_group_id": 1, "metadata": b"m"}}),
            (MODIFY, engine, {"multicast_group_entry": {"multicast_group_id": 1, "replicas": replicas}}),
            (INSERT, engine, {"clone_session_entry": {"session_id": 1, "replicas": replicas}}),
            (DELETE, engine, {"clone_session_entry": {"session_id": 1}}),
            (INSERT, "digest_entry", digest),
            (DELETE, "digest_entry", digest),
        ]


@pytest.fixture
def controller(switch: Program) -> Controller:
    return Controller(switch)
