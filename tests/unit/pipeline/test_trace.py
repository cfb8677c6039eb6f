# SPDX-License-Identifier: Apache-2.0
"""What a trace tells: events of every kind, and the text and JSON that are made of them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.p4 import compile_text
from nicemu.pipeline import (
    CloneSession,
    Engine,
    Exact,
    Lpm,
    Range,
    Replica,
    TableEntry,
    Ternary,
    ir,
    trace_json,
    trace_lines,
    value_text,
)

FRAME = bytes.fromhex("12 1234 ff 00")
MISS = [
    "parser P",
    "  state start",
    "    extract headers.tag, 4 bytes at 0",
    "      kind = 0x1, flags = 0x2, number = 0x1234, signed = -1",
    "control C",
    "    table C.forward (number=0x1234): miss",
    "    action C.drop()",
    "    drop_packet()",
    "deparser D",
    "    emit headers.tag, as it came",
    "dropped: pipeline.dropped",
]
SWITCH = """
#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> kind; bit<8> value; }
struct headers_t { byte_t h; byte_t[2] stack; }
struct metadata_t { bit<8> count; bool known; }
parser P(packet_in b, out headers_t headers, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        b.extract(headers.h);
        transition select(headers.h.kind, headers.h.value) {
            (1, _): accept;
            (2 .. 3, 4 &&& 6): more;
            (9, _): strict;
        }
    }
    state more { b.extract(headers.stack.next); b.advance(8); transition accept; }
    state strict { verify(headers.h.value == 0, error.HeaderTooShort); transition accept; }
}
control V(inout headers_t headers, inout metadata_t m) { apply { } }
control I(inout headers_t headers, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<8>>(16) seen;
    action count(inout bit<8> value, bit<8> by) { value = value + by; }
    action send(bit<9> port) { s.egress_spec = port; }
    table t {
        key = { headers.h.kind: exact; headers.h.value: ternary; }
        actions = { send; NoAction; }
    }
    apply {
        t.apply();
        seen.read(m.count, 3);
        count(m.count, 5);
        seen.write(3, m.count);
        if (headers.h.value == 7) { clone(CloneType.I2E, 1); mark_to_drop(s); exit; }
        switch (headers.h.value) { 8: { headers.h.setInvalid(); } default: { } }
        if (headers.h.value == 9) { s.mcast_grp = 1; }
        headers.stack.push_front(1);
        headers.h.value[3:0] = 2;
    }
}
control E(inout headers_t headers, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t headers, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t headers) { apply { b.emit(headers); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
PROGRAM = compile_text(SWITCH).program


@pytest.fixture
def switch() -> Engine:
    engine = Engine()
    engine.load(PROGRAM)
    return engine


def told(engine: Engine, frame: str) -> list[str]:
    return [line.strip() for line in trace_lines(engine.process(bytes.fromhex(frame), 3, trace=True).trace)]


def test_a_trace_tells_blocks_states_headers_tables_and_actions(hand: SimpleNamespace) -> None:
    engine: Engine = hand.engine()
    assert trace_lines(engine.process(FRAME, 1, trace=True).trace) == MISS


def test_without_being_asked_for_there_is_no_trace(hand: SimpleNamespace) -> None:
    assert hand.engine().process(FRAME, 1).trace == ()


def test_what_is_told_of_what_leaves_is_not_evaluated_again(switch: Engine) -> None:
    emits = """bit<8> n = 5; apply { b.emit(made(n)); b.emit(made(n)); b.emit(headers.h); }"""
    made = "byte_t made(inout bit<8> n) { n = n + 1; byte_t r = { n, 0 }; return r; }"
    text = SWITCH.replace("apply { b.emit(headers); }", emits).replace("control V(", made + " control V(")
    switch.load(compile_text(text).program)
    verdict = switch.process(bytes.fromhex("0105"), 3, trace=True)
    assert verdict.frame == switch.process(bytes.fromhex("0105"), 3).frame
    assert verdict.frame is not None
    assert verdict.frame.hex().startswith("06000700")


def test_an_element_that_a_stack_does_not_have_is_extracted_without_fields(switch: Engine) -> None:
    text = SWITCH.replace(
        "b.extract(headers.h);", "b.extract(headers.h); b.extract(headers.stack[headers.h.value]);"
    )
    assert text != SWITCH
    switch.load(compile_text(text).program)
    lines = told(switch, "0107 0203")
    assert lines[lines.index("extract headers.stack[7], 2 bytes at 2") + 1].startswith("select")
    assert "kind = 0x2, value = 0x3" in told(switch, "0101 0203")


def test_a_frame_that_is_too_long_says_so(hand: SimpleNamespace) -> None:
    assert trace_lines(hand.engine().process(bytes(9217), 1, trace=True).trace) == [
        "dropped: pipeline.oversized"
    ]


def test_a_select_tells_its_keys_and_the_case_that_fits(switch: Engine) -> None:
    keys = "select headers.h.kind={:#x}, headers.h.value={:#x}: "
    assert keys.format(1, 5) + "case (0x1, _), to accept" in told(switch, "0105")
    assert keys.format(2, 5) + "case (0x2 .. 0x3, 0x4 &&& 0x6), to more" in told(switch, "0205 0102 00")
    lines = told(switch, "0505")
    assert lines[lines.index(keys.format(5, 5) + "no case fits") + 1] == "reject: NoMatch at byte 2"


def test_a_parser_tells_what_it_extracts_steps_over_and_verifies(switch: Engine) -> None:
    lines = told(switch, "0205 0102 00")
    at = lines.index("extract headers.stack[0], 2 bytes at 2")
    assert lines[at : at + 3] == [
        "extract headers.stack[0], 2 bytes at 2",
        "kind = 0x1, value = 0x2",
        "advance 1 bytes to byte 5",
    ]
    assert "verify headers.h.value == 0: holds" in told(switch, "0900")
    lines = told(switch, "0901")
    assert lines[lines.index("verify headers.h.value == 0: HeaderTooShort") + 1] == (
        "reject: HeaderTooShort at byte 2"
    )


def test_a_hit_tells_its_entry_and_a_miss_what_the_nearest_entries_missed(switch: Engine) -> None:
    switch.insert("t", TableEntry((Exact(1), Ternary(0x10, 0xF0)), "send", (4,), 10))
    switch.insert("t", TableEntry((Exact(3), Ternary(0x20, 0xF0)), "send", (5,), 9))
    lines = told(switch, "0115")
    at = lines.index(
        "table I.t (headers.h.kind=0x1, headers.h.value=0x15): hit, entry 0x1, 0x10&&&0xf0 priority 10"
    )
    assert lines[at + 1 : at + 3] == ["action I.send(port=0x4)", "s.egress_spec = 0x0 -> 0x4"]
    lines = told(switch, "0125")
    at = lines.index("table I.t (headers.h.kind=0x1, headers.h.value=0x25): miss")
    assert lines[at + 1 : at + 4] == [
        "near: entry 0x3, 0x20&&&0xf0 priority 9, I.send(port=0x5): headers.h.kind is 0x1, not 0x3",
        "near: entry 0x1, 0x10&&&0xf0 priority 10, I.send(port=0x4): "
        "headers.h.value is 0x25, not 0x10&&&0xf0",
        "action NoAction()",
    ]


def test_assignments_tell_the_old_value_and_the_new_one(switch: Engine) -> None:
    lines = told(switch, "0105")
    at = lines.index("I.seen.read(_, 0x3)")
    assert lines[at + 1 : at + 7] == [
        "m.count = 0x0 -> 0x0",
        "action I.count(value=0x0, by=0x5)",
        "I.count.value = 0x0 -> 0x5",
        "m.count = 0x0 -> 0x5",
        "I.seen.write(0x3, 0x5)",
        "if headers.h.value == 7: false",
    ]
    assert "headers.h.value = 0x5 -> 0x2" in lines


def test_keys_of_headers_that_are_not_valid_are_told_as_such() -> None:
    keys = "headers.h.kind: exact; headers.h.value[3:0]: exact; "
    keys += 'headers.h.value & 0xf0: ternary @name("v"); m.known: exact;'
    program = SWITCH.replace("headers.h.kind: exact; headers.h.value: ternary;", keys)
    assert keys in program
    engine = Engine()
    engine.load(compile_text(program.replace("t.apply();", "headers.h.setInvalid(); t.apply();")).program)
    found = [line.strip() for line in trace_lines(engine.process(b"\1\2", 0, trace=True).trace)]
    absent = " of an invalid header"
    told = f"headers.h.kind=0x0{absent}, headers.h.value[3:0]=0x0{absent}, v=0x0{absent}, m.known=false"
    assert f"table I.t ({told}): miss" in found
    engine.load(compile_text(program).program)
    assert not any(absent in line for line in trace_lines(engine.process(b"\1\2", 0, trace=True).trace))


def test_members_of_enums_have_their_names_and_booleans_their_words() -> None:
    program = SWITCH.replace("bit<8> kind;", "kind_t kind;").replace(
        "bool known;", "bool known; side_t side;"
    )
    program = program.replace(
        "header byte_t", "enum bit<8> kind_t { A = 1, B = 7 } enum side_t { L, R } header byte_t"
    )
    program = program.replace("(1, _)", "(kind_t.A, _)").replace("(2 .. 3, 4 &&& 6)", "(kind_t.B, 4 &&& 6)")
    program = program.replace("(9, _): strict;", "")
    i, j = program.index("control I("), program.index("control E(")
    program = (
        program[:i]
        + """control I(inout headers_t headers, inout metadata_t m, inout standard_metadata_t s) {
            action turn(side_t to, bool known) { m.side = to; m.known = known; }
            table t {
                key = { headers.h.kind: exact; m.side: exact; m.known: exact; }
                actions = { turn; NoAction; }
                const entries = { (kind_t.A, side_t.L, false): turn(side_t.R, true); }
            }
            apply { m.side = side_t.L; t.apply(); headers.h.kind = kind_t.B; headers.h.kind = (kind_t) 9; }
        }
        """
        + program[j:]
    )
    engine = Engine()
    engine.load(compile_text(program).program)
    found = [line.strip() for line in trace_lines(engine.process(b"\1\2", 0, trace=True).trace)]
    assert "kind = 0x1 A, value = 0x2" in found
    hit = "hit, entry 0x1, L, false"
    assert f"table I.t (headers.h.kind=0x1 A, m.side=L, m.known=false): {hit}" in found
    assert "action I.turn(to=R, known=true)" in found
    assert [line for line in found if " -> " in line] == [
        "m.side = L -> L",
        "m.side = L -> R",
        "m.known = false -> true",
        "headers.h.kind = 0x1 A -> 0x7 B",
        "headers.h.kind = 0x7 B -> 0x9",
    ]
    assert "kind = 0x9, value = 0x2" in found


def test_errors_and_members_of_enums_have_their_names_in_conditions_too() -> None:
    program = SWITCH.replace("bool known;", "bool known; side_t side; op_t op; error problem;")
    program = program.replace(
        "header byte_t", "enum side_t { L, R } enum bit<8> op_t { GET = 1 } error { Mine } header byte_t"
    )
    i, j = program.index("control I("), program.index("control E(")
    body = """m.problem = error.Mine;
        if (m.problem == error.Mine) { m.side = side_t.R; }
        if (m.side != side_t.L && op_t.GET == m.op) { }
        if (m.problem == error.NoMatch) { }
        switch (m.side) { side_t.R: { } default: { } }"""
    head = "control I(inout headers_t headers, inout metadata_t m, inout standard_metadata_t s)"
    engine = Engine()
    engine.load(compile_text(f"{program[:i]}{head} {{ apply {{ {body} }} }} {program[j:]}").program)
    found = [line.strip() for line in trace_lines(engine.process(b"\1\2", 0, trace=True).trace)]
    assert [line for line in found if line.startswith(("if", "switch"))] == [
        "if m.problem == error.Mine: true",
        "if (m.side != side_t.L) && (op_t.GET == m.op): false",
        "if m.problem == error.NoMatch: false",
        "switch m.side: R",
    ]


def test_each_turn_of_a_loop_over_a_range_is_told() -> None:
    i, j = SWITCH.index("control I("), SWITCH.index("control E(")
    body = "for (bit<8> i in 3 .. 4) { headers.h.value = i; }"
    head = "control I(inout headers_t headers, inout metadata_t m, inout standard_metadata_t s)"
    engine = Engine()
    engine.load(compile_text(f"{SWITCH[:i]}{head} {{ apply {{ {body} }} }} {SWITCH[j:]}").program)
    found = [line.strip() for line in trace_lines(engine.process(b"\1\2", 0, trace=True).trace)]
    assert [line for line in found if " -> " in line] == [
        "I.i = 0x0 -> 0x3",
        "headers.h.value = 0x2 -> 0x3",
        "I.i = 0x3 -> 0x4",
        "headers.h.value = 0x3 -> 0x4",
    ]


def test_of_a_struct_that_an_extern_writes_the_fields_that_change_are_told(switch: Engine) -> None:
    lines = told(switch, "0107")
    at = next(place for place, line in enumerate(lines) if line.startswith("mark_to_drop("))
    assert lines[at + 1 : at + 3] == ["s.egress_spec = 0x0 -> 0x1ff", "exit"]


def test_validity_and_stacks_are_told(switch: Engine) -> None:
    lines = told(switch, "0108")
    at = lines.index("switch headers.h.value: 0x8")
    assert lines[at + 1] == "headers.h = valid -> invalid"
    assert "headers.stack.push_front(1)" in lines


def test_clones_and_groups_and_drops_are_told(switch: Engine) -> None:
    assert told(switch, "0107")[-2:] == ["clone: there is no session 1", "dropped: pipeline.dropped"]
    switch.objects.clone_sessions[1] = CloneSession((Replica(port=8, rid=2),))
    lines = told(switch, "0107")
    at = lines.index("dropped: pipeline.dropped")
    assert "clone session 1: ports 8" in lines[:at]
    assert lines[at + 1] == "egress, port 8, rid 2"
    assert lines[-1] == "leaves by port 8, 2 bytes"
    switch.objects.multicast_groups[1] = (Replica(5), Replica(6))
    lines = told(switch, "0109")
    assert "multicast group 1: ports 5, 6" in lines
    assert lines[-1] == "leaves by port 6, 2 bytes"


def test_the_json_of_a_trace_has_the_events_in_order_with_plain_values(hand: SimpleNamespace) -> None:
    engine: Engine = hand.engine()
    events = json.loads(json.dumps(trace_json(engine.process(FRAME, 1, trace=True).trace)))
    assert [event["event"] for event in events] == [
        "block_entered",
        "state_entered",
        "header_extracted",
        "block_entered",
        "table_applied",
        "called",
        "extern_called",
        "block_entered",
        "header_emitted",
        "dropped",
    ]
    assert events[2]["fields"] == {"kind": 1, "flags": 2, "number": 0x1234, "signed": -1}
    assert events[4]["keys"] == {"number": 0x1234}
    assert events[4]["entry"] is None


def test_a_trace_changes_nothing_that_comes_of_a_packet() -> None:
    plain, traced = Engine(seed=1), Engine(seed=1)
    for engine in (plain, traced):
        engine.load(PROGRAM)
        engine.insert("t", TableEntry((Exact(1), Ternary(0x10, 0xF0)), "send", (4,), 10))
        engine.objects.clone_sessions[1] = CloneSession((Replica(port=8, rid=2),))
        engine.objects.multicast_groups[1] = (Replica(5), Replica(6))

    @given(st.integers(0, 10), st.integers(0, 40), st.binary(max_size=4))
    def check(kind: int, value: int, rest: bytes) -> None:
        frame = bytes([kind, value]) + rest
        expected, told = plain.process(frame, 1), traced.process(frame, 1, trace=True)
        assert told.trace
        assert (told.port, told.frame, told.drop_reason) == (
            expected.port,
            expected.frame,
            expected.drop_reason,
        )
        assert (told.effects, told.copies) == (expected.effects, expected.copies)
        assert traced.objects.register("seen").values == plain.objects.register("seen").values

    check()


def test_the_next_header_of_a_full_stack_is_an_error_for_an_out_argument_too() -> None:
    text = SWITCH.replace(
        "b.advance(8);", "b.extract(headers.stack.next); fill(headers.stack.next);"
    ).replace("parser P", "void fill(out byte_t h) { h = { 1, 2 }; } parser P")
    engine = Engine()
    engine.load(compile_text(text).program)
    frame = bytes.fromhex("0205 0102 0304")
    assert "reject: StackOutOfBounds at byte 6" in [
        line.strip() for line in trace_lines(engine.process(frame, 0, trace=True).trace)
    ]


@pytest.mark.parametrize(
    ("match", "value", "missed"),
    [(Lpm(0x1200, 8), 0x1300, True), (Lpm(0x1200, 8), 0x12FF, False), (Range(5, 9), 0x20, True)],
)
def test_the_nearest_entries_know_every_kind_of_match(
    hand: SimpleNamespace, match: Lpm | Range, value: int, missed: bool
) -> None:
    from nicemu.pipeline.tables import Table

    kind = ir.MatchKind.LPM if isinstance(match, Lpm) else ir.MatchKind.RANGE
    table = Table(hand.table(("number", kind)), {"C.drop": ()}, {"C.drop": ()})
    entry = TableEntry((match,), "C.drop", (), int(isinstance(match, Range)))
    table.insert(entry)
    assert table.nearest((value,), 3) == [(entry, (0,) if missed else ())]


def test_values_read_as_people_write_them() -> None:
    value = {"a": 255, "b": -3, "c": True, "d": None, "e": ["NoError", 0]}
    assert value_text(value) == "{a=0xff, b=-3, c=true, d=invalid, e=[NoError, 0x0]}"
