# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, RECONCILE_AND_COMMIT and COMMIT: what a controller wrote outlives a change of program."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from nicemu.control import pipeline_state
from nicemu.control.info_message import info_message
from nicemu.control.messages import Message, messages
from nicemu.control.pipeline_state import take_over
from nicemu.control.stream import uint128
from nicemu.errors import ControlError
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import (
    UNCOUNTED,
    ActionSet,
    Engine,
    Exact,
    Lpm,
    Member,
    Program,
    TableEntry,
    extern,
    ir,
    p4info_of,
)

SAVE, COMMIT, RECONCILE = 2, 4, 5
Controller: TypeAlias = Any
"""The class of that name in conftest.py."""


def set_config(controller: Controller, action: int, program: Program | None = None) -> None:
    config = {} if program is None else {"config": {"p4_device_config": program.to_json().encode()}}
    message: Message = messages().SetForwardingPipelineConfigRequest(action=action, **config)
    message.election_id.CopyFrom(uint128(9))
    controller.device.set_config(message)


def without_instance(program: Program, name: str) -> Program:
    """Return the program without the array of this name, and without what uses it."""

    def kept(body: tuple[ir.Statement, ...]) -> tuple[ir.Statement, ...]:
        found: list[ir.Statement] = []
        for statement in body:
            match statement:
                case ir.CallMethod(instance) if instance == name:
                    continue
                case ir.If(condition, then, otherwise):
                    found.append(ir.If(condition, kept(then), kept(otherwise)))
                case _:
                    found.append(statement)
        return tuple(found)

    controls = tuple(replace(control, body=kept(control.body)) for control in program.controls)
    externs = tuple(item for item in program.externs if item.name != name)
    return replace(program, controls=controls, externs=externs)


@pytest.fixture(params=["interpreter", "kernel"])
def controller(request: pytest.FixtureRequest, controller: Controller, switch: Program) -> Controller:
    """A controller of an interpreter, and one of a program in machine code."""
    if request.param == "interpreter":
        return controller
    engine = CompiledEngine(optimised=False)
    made: Controller = type(controller)(switch, engine)
    assert engine.kernel is not None, engine.interpreted_because
    return made


@pytest.fixture
def filled(controller: Controller) -> Controller:
    """A controller that has written something of every kind."""
    for flow in (2, 3):
        controller.write(1, "table_entry", controller.port(flow, "send", flow, idle_timeout_ns=5))
        controller.frame(flow)
    outcomes = controller.write_all(*controller.every_kind()[:-1])
    assert outcomes == [None] * len(outcomes)
    return controller


def test_reconciling_with_the_same_program_keeps_everything(filled: Controller, switch: Program) -> None:
    before = filled.state()
    set_config(filled, RECONCILE, replace(switch, name="again"))
    assert filled.engine.program.name == "again"
    assert filled.state() == before


def test_what_is_written_to_a_saved_program_is_there_when_it_is_committed(
    controller: Controller, switch: Program
) -> None:
    set_config(controller, SAVE, replace(switch, name="again"))
    for flow in (2, 3):
        controller.write(1, "table_entry", controller.port(flow, "send", flow))
    outcomes = controller.write_all(*controller.every_kind())
    assert outcomes == [None] * len(outcomes)
    before = controller.state()
    assert controller.engine.table("I.port").rows() == []
    set_config(controller, COMMIT)
    assert controller.engine.program.name == "again"
    assert controller.state() == before
    assert controller.frame(2).port == 9


def test_entries_of_a_saved_program_are_idle_from_its_commit_on(
    controller: Controller, switch: Program
) -> None:
    controller.engine.tick(5_000)
    set_config(controller, SAVE, switch)
    controller.write(1, "table_entry", controller.port(2, "send", 2, idle_timeout_ns=100))
    controller.engine.tick(9_000)
    set_config(controller, COMMIT)
    (entry,) = controller.read("table_entry", {"time_since_last_hit": {}})
    assert entry.time_since_last_hit.elapsed_ns == 0
    assert [len(controller.engine.idle(now_ns)) for now_ns in (9_099, 9_100)] == [0, 1]


def test_idle_timeouts_go_on_where_a_program_is_reconciled(controller: Controller, switch: Program) -> None:
    """Source: P4Runtime Specification 1.4, "Idle-timeout": not hit for as long as the TTL."""
    controller.engine.tick(1_000)
    controller.write(1, "table_entry", controller.port(2, "send", 2, idle_timeout_ns=100))
    controller.engine.tick(1_090)
    set_config(controller, RECONCILE, replace(switch, name="again"))
    assert [len(controller.engine.idle(now_ns)) for now_ns in (1_099, 1_100, 1_199)] == [0, 1, 0]
    controller.engine.tick(1_190)
    set_config(controller, RECONCILE, switch)
    assert [len(controller.engine.idle(now_ns)) for now_ns in (1_199, 1_200)] == [0, 1]


def test_a_register_that_is_gone_may_go_but_a_meter_that_is_configured_may_not(
    filled: Controller, switch: Program
) -> None:
    set_config(filled, RECONCILE, without_instance(switch, "I.last"))
    assert len(filled.read("table_entry", {})) == 3
    with pytest.raises(ControlError, match=r"meter I\.rates, which is configured, has no place there"):
        set_config(filled, RECONCILE, without_instance(switch, "I.rates"))
    assert "I.rates" in filled.engine.objects.states


def test_zeros_that_were_written_after_everything_else_stay_zeros(
    controller: Controller, switch: Program
) -> None:
    register, counter = controller.id("register", "last"), controller.id("counter", "flows")
    for place in ({}, {"index": {"index": 1}}):
        value = 0 if place else 7
        stored, counted = {"bitstring": bytes([value])}, {"packet_count": value}
        update = {"register_id": register, "data": stored, **place}
        assert controller.write(2, "register_entry", update) is None
        update = {"counter_id": counter, "data": counted, **place}
        assert controller.write(2, "counter_entry", update) is None
    before = controller.state()
    assert [item.data.packet_count for item in controller.read("counter_entry", {})][:3] == [7, 0, 7]
    set_config(controller, RECONCILE, replace(switch, name="again"))
    assert controller.state() == before


RATES = {"cir": 1, "cburst": 1, "pir": 1, "pburst": 1}


def resized(program: Program, size: int) -> Program:
    """Return the program with another size of its arrays, "I.last", "I.flows" and "I.rates"."""
    externs = tuple(
        replace(item, arguments=(size, *item.arguments[1:]))
        if item.name in ("I.last", "I.flows", "I.rates")
        else item
        for item in program.externs
    )
    return replace(program, externs=externs)


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize(("size", "placed"), [(5, 99), (6, 99), (40, 99), (40, 20)])
def test_arrays_go_on_as_far_as_they_have_places(
    controller: Controller,
    switch: Program,
    size: int,
    placed: int,
    everywhere: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where all places were given something before, those that come have nothing of it."""
    monkeypatch.setattr(pipeline_state, "MAX_PLACED", placed)
    register, counter = controller.id("register", "last"), controller.id("counter", "flows")
    meter = controller.id("meter", "rates")
    for index in ([None] if everywhere else []) + [3, 4]:
        place = {} if index is None else {"index": {"index": index}}
        value = 9 if index is None else index
        stored, counted = {"bitstring": bytes([value])}, {"packet_count": value}
        for form, message in (
            ("register_entry", {"register_id": register, "data": stored, **place}),
            ("counter_entry", {"counter_id": counter, "data": counted, **place}),
            ("meter_entry", {"meter_id": meter, "config": RATES, **place}),
        ):
            assert controller.write(2, form, message) is None
    if everywhere and size < 8:
        with pytest.raises(ControlError, match=r"meter I\.rates, which is configured, has no place"):
            set_config(controller, RECONCILE, resized(switch, size))
        for index in range(8):
            assert controller.write(2, "meter_entry", {"meter_id": meter, "index": {"index": index}}) is None
        assert controller.write(2, "meter_entry", {"meter_id": meter}) is None
    set_config(controller, RECONCILE, resized(switch, size))
    numbers = [
        item.data.bitstring[0] for item in controller.read("register_entry", {"register_id": register})
    ]
    counts = [item.data.packet_count for item in controller.read("counter_entry", {})]
    rest = 9 if everywhere else 0
    begun = [rest] * 3 + [3, 4]
    for found, before in ((numbers, 16), (counts, 8)):
        assert found == (begun + [rest] * (before - 5) + [0] * 40)[:size]
    configured = [item.HasField("config") for item in controller.read("meter_entry", {"meter_id": meter})]
    if not everywhere:
        assert configured == ([False] * 3 + [True] * 2 + [False] * 40)[:size]
    elif size == 40:
        assert configured == [True] * 8 + [False] * 32


def test_what_fills_an_array_is_not_written_into_too_many_places(
    controller: Controller, switch: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_state, "MAX_PLACED", 7)
    counter = {"counter_id": controller.id("counter", "flows"), "data": {"packet_count": 9}}
    assert controller.write(2, "counter_entry", counter) is None
    with pytest.raises(
        ControlError, match=r"what fills all 8 places of I\.flows, which gets 40, has no place"
    ):
        set_config(controller, RECONCILE, resized(switch, 40))
    set_config(controller, RECONCILE, resized(switch, 9))


def test_a_meter_s_array_that_has_grown_can_shrink_again(controller: Controller, switch: Program) -> None:
    meter = {"meter_id": controller.id("meter", "rates"), "config": RATES}
    assert controller.write(2, "meter_entry", meter) is None
    for size in (9, 8):
        set_config(controller, RECONCILE, resized(switch, size))
    assert [item.HasField("config") for item in controller.read("meter_entry", {})] == [True] * 8


def test_a_meter_that_is_configured_behind_the_new_end_keeps_the_old_program(
    controller: Controller, switch: Program
) -> None:
    meter = {"meter_id": controller.id("meter", "rates"), "index": {"index": 5}, "config": RATES}
    assert controller.write(2, "meter_entry", meter) is None
    before = controller.state()
    with pytest.raises(ControlError, match=r"meter I\.rates, which is configured, has no place"):
        set_config(controller, RECONCILE, resized(switch, 5))
    assert controller.state() == before


def marked(controller: Controller, entry: Message) -> list[int]:
    """Return how many packets an entry's meter has marked green, yellow and red."""
    (found,) = controller.read("direct_meter_entry", {"table_entry": entry, "counter_data": {}})
    told = found.counter_data
    return [part.packet_count for part in (told.green, told.yellow, told.red)]


@pytest.mark.parametrize("is_default", [False, True])
def test_direct_meters_go_on_marking_in_the_program_that_takes_over(
    controller: Controller, switch: Program, is_default: bool
) -> None:
    entry = controller.port(2, None)
    if is_default:
        entry = messages().TableEntry(table_id=controller.id("table", "port"), is_default_action=True)
    else:
        controller.write(1, "table_entry", controller.port(2, "send", 2))
    assert controller.write(2, "direct_meter_entry", {"table_entry": entry, "config": RATES}) is None
    for _ in range(3):
        controller.frame(2)
    assert marked(controller, entry) == [1, 0, 2]
    set_config(controller, RECONCILE, replace(switch, name="again"))
    for _ in range(4):
        controller.frame(2)
    assert marked(controller, entry) == [1, 0, 6]


def without_direct_meter(program: Program) -> Program:
    return replace(program, tables=tuple(replace(table, meter="") for table in program.tables))


def test_a_direct_meter_may_go_with_its_table_s_unless_it_is_configured(
    controller: Controller, switch: Program
) -> None:
    controller.write(1, "table_entry", controller.port(2, "send", 2))
    for flow in (2, 3):
        controller.frame(flow)
    set_config(controller, RECONCILE, without_direct_meter(switch))
    table = controller.engine.table("I.port")
    rows = [*table.rows(), table.default_row()]
    assert [(row.hits, row.colours, row.meter_config) for row in rows] == [(1, UNCOUNTED, None)] * 2


@pytest.mark.parametrize("is_default", [False, True])
def test_a_direct_meter_that_is_configured_may_not_go(
    controller: Controller, switch: Program, is_default: bool
) -> None:
    entry = controller.port(2, "send", 2, meter_config=RATES)
    if is_default:
        table = controller.id("table", "port")
        entry = messages().TableEntry(table_id=table, is_default_action=True, meter_config=RATES)
    assert controller.write(2 if is_default else 1, "table_entry", entry) is None
    before = controller.state()
    with pytest.raises(ControlError, match=r"meter of table I\.port, which is configured, has no place"):
        set_config(controller, RECONCILE, without_direct_meter(switch))
    assert controller.state() == before


def test_what_takes_long_is_done_before_the_change_over(
    controller: Controller, switch: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No packet waits for a compiler, and none for entries to be written once more."""
    if not isinstance(controller.engine, CompiledEngine):
        pytest.skip("an interpreter has nothing to compile")
    run, held = type(controller.engine).run, []

    def without_compiler(engine: CompiledEngine, work: Callable[[Engine], object]) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.delattr("nicemu.kernels.loaded.generate")
            held.append(engine.kernel)
            return run(engine, work)

    monkeypatch.setattr(CompiledEngine, "run", without_compiler)
    for action in (3, RECONCILE):
        before = controller.engine.kernel
        set_config(controller, action, replace(switch, name=f"again{action}"))
        kernel = controller.engine.kernel
        assert kernel is not None
        assert kernel is not before
        assert kernel.program is controller.engine.program
        assert kernel.program.name == f"again{action}"
    assert held


COUNTS = """
#include <core.p4>
#include <v1model.p4>
extern Tally {{ Tally(bit<8> first); bit<8> next(); bit<8> last(); }}
header byte_t {{ bit<8> value; }}
struct headers_t {{ byte_t h; }}
struct metadata_t {{ }}
parser P(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    state start {{ packet.extract(h.h); transition accept; }}
}}
control Sums(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    Tally({first}) tally;
    apply {{ h.h.value = tally.{method}(); }}
}}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out packet, in headers_t h) {{ apply {{ packet.emit(h); }} }}
V1Switch(P(), Sums(), I(), E(), Sums(), D()) main;
"""


@extern("Tally(bit<8> first)")
class Tally:
    def __init__(self, first: int) -> None:
        self.count = first

    @extern("bit<8> next()")
    def next(self) -> int:
        self.count += 1
        return self.count

    @extern("bit<8> last()")
    def last(self) -> int:
        return self.count


@pytest.mark.parametrize(("first", "then"), [(5, 6), (7, 7)])
def test_an_object_that_python_keeps_goes_on_where_it_is_constructed_alike(first: int, then: int) -> None:
    engine = Engine(externs=[Tally])
    engine.load(compile_text(COUNTS.format(first=5, method="next")).program)
    assert engine.process(b"\0", 0).frame == b"\x06"
    staged = engine.staged(compile_text(COUNTS.format(first=first, method="last")).program)
    take_over(engine, staged)
    engine.adopt(staged)
    assert engine.process(b"\0", 0).frame == bytes([then])


NAMED = """
#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<32> a; bit<32> b; }}
struct H {{ h_t h; }} struct M {{ bit<8> x; bit<8> y; }} struct set_t {{ {fields} }}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {{
    value_set<set_t>(4) known;
    state start {{ p.extract(h.h); transition select({selected}) {{ known: accept; _: accept; }} }} }}
control V(inout H h, inout M m) {{ apply {{}} }}
control I(inout H h, inout M m, inout standard_metadata_t s) {{
    action_selector(HashAlgorithm.crc16, 16, 8) sets;
    action_profile(16) profile;
    action fwd({data}) {{ s.egress_spec = port; h.h.a[8:0] = {reason}; }}
    table t {{ key = {{ {keys} }} actions = {{ fwd; NoAction; }} }}
    table u {{
        key = {{ h.h.a: exact; h.h.b: selector; }}
        actions = {{ fwd; NoAction; }}
        implementation = sets;
    }}
    table w {{ key = {{ h.h.a: exact; }} actions = {{ fwd; NoAction; }} implementation = profile; }}
    apply {{ s.egress_spec = 9; if (u.apply().miss) {{ if (w.apply().miss) {{ t.apply(); }} }} }} }}
control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{}} }}
control D(packet_out p, in H h) {{ apply {{ p.emit(h); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
NAMES = {
    "data": "bit<9> port, bit<9> why",
    "keys": "h.h.a: exact; h.h.b: lpm;",
    "fields": "bit<8> one; bit<8> two;",
    "selected": "h.h.a[7:0], h.h.b[7:0]",
    "reason": "why",
}


def engine_of(**changes: str) -> Engine:
    engine = Engine()
    engine.load(compile_text(NAMED.format(**(NAMES | changes))).program)
    return engine


@pytest.fixture
def named() -> Engine:
    """An engine with an entry, a member and an entry with actions of its own, whose data are 3 and 4."""
    engine, call = engine_of(), ir.ActionCall("I.fwd", (3, 4))
    engine.insert("t", TableEntry((Exact(1), Lpm(2 << 24, 8)), "I.fwd", (3, 4)))
    engine.table("t").set_default("I.fwd", (5, 6))
    engine.objects.profile("profile").insert_member(7, call)
    engine.insert("u", TableEntry((Exact(8),), "", choice=ActionSet(((call, 1),))))
    engine.insert("w", TableEntry((Exact(9),), "", choice=Member(7)))
    return engine


def ports(engine: Engine) -> list[tuple[int, str]]:
    frames = ("00000001 02000005", "00000005 00000001", "00000008 00000000", "00000009 00000000")
    verdicts = [engine.process(bytes.fromhex(frame), 0) for frame in frames]
    return [(verdict.port, verdict.frame.hex()) for verdict in verdicts]


@pytest.mark.parametrize(
    "changes",
    [{"data": "bit<9> why, bit<9> port"}, {"keys": "h.h.b: lpm; h.h.a: exact;"}],
    ids=["data", "keys"],
)
def test_what_has_another_place_in_the_new_program_goes_by_its_name(
    named: Engine, changes: dict[str, str]
) -> None:
    before, new = ports(named), engine_of(**changes)
    assert [port for port, _ in before] == [3, 5, 3, 3]
    take_over(named, new)
    assert ports(new) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data": "bit<9> port, bit<9> reason", "reason": "reason"},
            "the data of action I.fwd, whose names are port, why, has no place",
        ),
        ({"keys": "h.h.b: exact; h.h.a: lpm;"}, "was expected|the match given is"),
        (
            {"keys": "h.h.a: exact; m.x: lpm;"},
            "an entry of table I.t, whose keys are h.h.a, h.h.b, has no place",
        ),
    ],
)
def test_what_has_other_names_in_the_new_program_is_not_taken_for_it(
    named: Engine, changes: dict[str, str], message: str
) -> None:
    with pytest.raises(ControlError, match=message):
        take_over(named, engine_of(**changes))


def test_members_of_a_value_set_with_other_fields_are_not_taken_over(named: Engine) -> None:
    named.objects.value_sets["P.known"].replace([(Exact(1), Exact(2))])
    swapped = engine_of(fields="bit<8> two; bit<8> one;")
    with pytest.raises(ControlError, match=r"value set P\.known with 1 members has no place"):
        take_over(named, swapped)


OWN = """
#include <core.p4>
#include <nicemu.p4>
extern Either { Either(bit<8> a); Either(bool b); }
struct headers_t { } struct m_t { }
parser P(packet_in p, out headers_t h, inout m_t m, inout nic_metadata_t n) {
    state start { transition accept; }
}
control C(inout headers_t h, inout m_t m, inout nic_metadata_t n) { PARTS apply { } }
control D(packet_out p, in headers_t h, in m_t m, in nic_metadata_t n) { apply { } }
SmartNic(P(), C(), D()) main;
"""


@extern("Either(bit<8> a)")
class OfNumber:
    def __init__(self, a: int) -> None:
        self.held = a


@extern("Either(bool b)")
class OfTruth:
    def __init__(self, b: int) -> None:
        self.held = -b


@pytest.mark.parametrize(
    ("before", "after", "is_kept"),
    [
        ("Either(a = 1) e;", "Either(b = true) z; Either(a = 1) e;", True),
        ("Either(b = true) e;", "Either(a = 1) e;", False),
        ("Either(a = 1) e;", "Either(a = 2) e;", False),
    ],
)
def test_an_object_of_an_own_extern_goes_on_where_the_same_constructor_makes_it(
    before: str, after: str, is_kept: bool
) -> None:
    engines = []
    for parts in (before, after):
        engine = Engine(externs=[OfNumber, OfTruth])
        engine.load(compile_text(OWN.replace("PARTS", parts)).program)
        engines.append(engine)
    old, new = engines
    old.objects.states["C.e"].held = 77
    take_over(old, new)
    assert (new.objects.states["C.e"].held == 77) is is_kept


def test_an_object_of_an_ir_that_does_not_say_its_constructor_is_made_by_its_arguments() -> None:
    program = compile_text(OWN.replace("PARTS", "Either(a = 5) e;")).program
    older = replace(program, externs=tuple(replace(item, constructor="") for item in program.externs))
    engine = Engine(externs=[OfNumber, OfTruth])
    engine.load(older)
    assert engine.objects.states["C.e"].held == 5
    wrong = replace(program, externs=tuple(replace(item, constructor="None") for item in program.externs))
    with pytest.raises(ControlError, match=r"C\.e is made by None, which does not take what it is given"):
        engine.load(wrong)


def _of(items: Iterable[Any], alias: str) -> Any:  # noqa: ANN401 - a message
    return next(item for item in items if item.preamble.alias == alias)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda info: setattr(_of(info.registers, "last"), "size", 99), "register I.last has size 99"),
        (
            lambda info: setattr(_of(info.registers, "last").type_spec.bitstring.bit, "bitwidth", 16),
            "register I.last has type bit<16>",
        ),
        (lambda info: setattr(_of(info.counters, "flows"), "size", 9), "counter I.flows has size 9"),
        (lambda info: setattr(_of(info.counters, "flows").spec, "unit", 1), "counter I.flows has unit bytes"),
        (lambda info: setattr(_of(info.meters, "rates").spec, "unit", 2), "meter I.rates has unit packets"),
        (lambda info: setattr(_of(info.meters, "rates").spec, "type", 1), "meter I.rates has type"),
        (lambda info: setattr(_of(info.tables, "port"), "is_const_table", True), "I.port has const entries"),
        (
            lambda info: setattr(_of(info.tables, "port"), "idle_timeout_behavior", 0),
            "table I.port has idle timeouts False",
        ),
        (lambda info: info.ClearField("digests"), "digest learn_t is in the program only"),
        (
            lambda info: setattr(info.controller_packet_metadata[0].metadata[0], "id", 9),
            "has fields .id, bits. ..9, ",
        ),
    ],
)
def test_a_p4info_that_contradicts_what_requests_meet_is_refused(
    controller: Controller, switch: Program, change: Callable[[Any], object], told: str
) -> None:
    request = messages().SetForwardingPipelineConfigRequest(action=1, election_id=uint128(9))
    request.config.p4_device_config = switch.to_json().encode()
    request.config.p4info.CopyFrom(info_message(p4info_of(switch)))
    controller.device.set_config(request)
    change(request.config.p4info)
    with pytest.raises(ControlError, match=f"p4info does not belong to this program: .*{told}"):
        controller.device.set_config(request)
