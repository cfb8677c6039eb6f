# SPDX-License-Identifier: Apache-2.0
"""Sentences of the P4-16 Language Specification, "Packet parsing", "Control blocks", "Deparsing"."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.pipeline import CounterAdd, Disposition, Engine, EventPosted, Exact, TableEntry, Verdict, ir

U16, U8, U4, INT8 = ir.Bits(16), ir.Bits(8), ir.Bits(4), ir.Bits(8, signed=True)
FRAME = bytes.fromhex("35123480") + b"payload"


def run(hand: SimpleNamespace, *body: ir.Statement, frame: bytes = FRAME, **changes: object) -> Verdict:
    engine: Engine = hand.engine(*body, **changes)
    return engine.process(frame, 1)


def number_after(hand: SimpleNamespace, *body: ir.Statement, **changes: Any) -> int:  # noqa: ANN401
    """Return headers.tag.number as it leaves the pipeline."""
    return int.from_bytes(run(hand, *body, **changes).frame[1:3], "big")


def test_extract_reads_fields_from_the_most_significant_bit_on(hand: SimpleNamespace) -> None:
    event = ir.ExternInstance("C.e", "FirmwareEvent", ("seen",), (ir.Named("event_t"),))
    body = ir.CallMethod(
        "C.e", "post", (ir.StructValue((hand.part("number"), hand.part("kind")), ir.Named("event_t")),)
    )
    verdict = run(hand, body, externs=(event,))
    assert verdict.effects == (EventPosted("seen", {"number": 0x1234, "kind": 3}),)


def test_unparsed_bytes_follow_the_emitted_headers(hand: SimpleNamespace) -> None:
    change = ir.Assign(hand.part("number"), hand.number(0xBEEF))
    assert run(hand, change).frame == bytes.fromhex("35beef80") + b"payload"


def test_an_invalid_header_is_not_emitted(hand: SimpleNamespace) -> None:
    assert run(hand, ir.SetValid(hand.header(), False)).frame == b"payload"


def test_a_header_made_valid_is_emitted_in_the_order_of_the_struct(hand: SimpleNamespace) -> None:
    body = (ir.SetValid(hand.header("inner"), True), ir.Assign(hand.part("number", "inner"), hand.number(1)))
    assert run(hand, *body).frame == bytes.fromhex("35123480 00000100") + b"payload"


def test_without_a_call_of_the_architecture_the_frame_goes_to_the_host(hand: SimpleNamespace) -> None:
    assert run(hand, ir.Return()).disposition is Disposition.HOST


@pytest.mark.parametrize(
    ("function", "disposition"),
    [
        ("send_to_host", Disposition.HOST),
        ("drop_packet", Disposition.DROP),
        ("hold_packet", Disposition.FIRMWARE),
    ],
)
def test_the_last_call_says_where_the_frame_goes(
    hand: SimpleNamespace, function: str, disposition: Disposition
) -> None:
    verdict = run(hand, ir.CallFunction("send_to_port", (hand.number(4),)), ir.CallFunction(function))
    assert (verdict.disposition, verdict.port) == (disposition, 0)


def test_a_packet_that_ends_inside_a_header_is_dropped_as_too_short(hand: SimpleNamespace) -> None:
    verdict = run(hand, frame=FRAME[:3])
    assert (verdict.disposition, verdict.drop_reason) == (Disposition.DROP, "parser.too_short")
    assert verdict.frame == FRAME[:3]


def test_a_select_without_a_matching_case_rejects_with_no_match(hand: SimpleNamespace) -> None:
    select = ir.Select((hand.part("kind"),), (ir.SelectCase((ir.KeyMask(4, 15),), "accept"),))
    assert run(hand, transition=select).drop_reason == "parser.no_transition"


def test_the_first_matching_case_of_a_select_is_taken(hand: SimpleNamespace) -> None:
    cases = (
        ir.SelectCase((ir.KeyRange(4, 9), ir.KeyAny()), "reject"),
        ir.SelectCase((ir.KeyMask(1, 1), ir.KeyMask(0x1200, 0xFF00)), "accept"),
        ir.SelectCase((ir.KeyAny(), ir.KeyAny()), "reject"),
    )
    select = ir.Select((hand.part("kind"), hand.part("number")), cases)
    assert run(hand, ir.Return(), transition=select).disposition is Disposition.HOST


def test_verify_rejects_with_the_error_that_it_names(hand: SimpleNamespace) -> None:
    error = ir.Constant(len(ir.CORE_ERRORS), ir.ERROR)
    check = ir.Verify(ir.Binary("==", hand.part("kind"), hand.number(9, 4), ir.BOOL), error)
    verdict = run(hand, parse=(ir.Extract(hand.header()), check), errors=("BadTagKind",))
    assert verdict.drop_reason == "parser.bad_tag_kind"


def test_a_parser_that_loops_without_end_rejects(hand: SimpleNamespace) -> None:
    assert run(hand, transition=ir.Goto("start"), parse=()).drop_reason == "parser.too_many_states"


def test_advance_steps_over_whole_bytes_within_the_packet(hand: SimpleNamespace) -> None:
    def advanced(bits: int) -> Verdict:
        return run(hand, ir.Return(), parse=(ir.Advance(ir.Constant(bits, ir.Bits(32))),))

    assert advanced(16).frame == FRAME[2:]
    assert advanced(8 * len(FRAME) + 8).drop_reason == "parser.too_short"
    assert advanced(7).drop_reason == "parser.parser_invalid_argument"


def test_lookahead_reads_and_does_not_step(hand: SimpleNamespace) -> None:
    peek = ir.Assign(ir.Name("v", U4), ir.Lookahead(U4))
    copy = ir.Assign(hand.part("number"), ir.Cast(ir.Name("v", U4), U16))
    place = (ir.Variable("v", U4),)
    assert number_after(hand, copy, parse=(peek, ir.Extract(hand.header())), variables=place) == 3


def test_arithmetic_wraps_around_at_the_width_of_the_field(hand: SimpleNamespace) -> None:
    total = ir.Binary("+", hand.part("number"), hand.number(0xFFFF), U16)
    assert number_after(hand, ir.Assign(hand.part("number"), total)) == 0x1233


def test_a_slice_on_the_left_changes_its_bits_alone(hand: SimpleNamespace) -> None:
    low = ir.Slice(hand.part("number"), 11, 4, U8)
    assert number_after(hand, ir.Assign(low, hand.number(0xFF, 8))) == 0x1FF4


def test_a_negative_int_leaves_as_twos_complement(hand: SimpleNamespace) -> None:
    change = ir.Assign(hand.part("signed"), ir.Constant(-2, INT8))
    assert run(hand, change).frame[3] == 0xFE


def test_and_does_not_evaluate_its_right_side_in_vain(hand: SimpleNamespace) -> None:
    both = ir.Binary("&&", ir.Constant(0, ir.BOOL), ir.TableApply("C.forward"), ir.BOOL)
    engine: Engine = hand.engine(ir.If(both, (), ()))
    engine.process(FRAME, 1)
    assert engine.tables()[0].misses == 0


def action(
    name: str, directions: list[ir.Direction], *body: ir.Statement
) -> tuple[ir.Action, list[ir.Variable]]:
    parameters = tuple(
        ir.Parameter(f"p{place}", f"C.{name}.p{place}", U16, direction)
        for place, direction in enumerate(directions)
    )
    places = [ir.Variable(item.variable, U16) for item in parameters]
    return ir.Action(f"C.{name}", parameters, body), places


def place(name: str) -> ir.Name:
    return ir.Name(name, U16)


def test_arguments_are_copied_in_before_and_out_after_the_call(hand: SimpleNamespace) -> None:
    """`twice(x, x)`: both parameters hold the old value, and the last one copied out wins."""
    twice, places = action(
        "twice",
        [ir.Direction.INOUT, ir.Direction.INOUT],
        ir.Assign(place("C.twice.p0"), hand.number(1)),
        ir.Assign(place("C.twice.p1"), ir.Binary("+", place("C.twice.p1"), hand.number(1), U16)),
    )
    call = ir.CallAction("C.twice", (hand.part("number"), hand.part("number")))
    assert number_after(hand, call, actions=(twice,), variables=tuple(places)) == 0x1235


def test_an_out_parameter_starts_at_zero(hand: SimpleNamespace) -> None:
    nothing, places = action("nothing", [ir.Direction.OUT])
    call = ir.CallAction("C.nothing", (hand.part("number"),))
    assert number_after(hand, call, actions=(nothing,), variables=tuple(places)) == 0


def test_exit_in_an_action_copies_out_and_ends_the_control(hand: SimpleNamespace) -> None:
    leave, places = action(
        "leave", [ir.Direction.INOUT], ir.Assign(place("C.leave.p0"), hand.number(7)), ir.Exit()
    )
    body = (ir.CallAction("C.leave", (hand.part("number"),)), ir.Assign(hand.part("number"), hand.number(9)))
    assert number_after(hand, *body, actions=(leave,), variables=tuple(places)) == 7


def test_return_in_an_action_ends_the_action_alone(hand: SimpleNamespace) -> None:
    early, _ = action("early", [], ir.Return(), ir.Assign(hand.part("number"), hand.number(9)))
    after = ir.Assign(hand.part("kind"), hand.number(0xF, 4))
    assert run(hand, ir.CallAction("C.early"), after, actions=(early,)).frame[:3] == bytes.fromhex("f51234")


def test_return_inside_a_branch_ends_the_whole_block(hand: SimpleNamespace) -> None:
    branch = ir.If(ir.Constant(1, ir.BOOL), (ir.Return(),))
    assert number_after(hand, branch, ir.Assign(hand.part("number"), hand.number(9))) == 0x1234


def test_switch_runs_the_body_of_the_action_that_ran(hand: SimpleNamespace) -> None:
    cases = (
        ir.SwitchCase(("C.send",), (ir.Assign(hand.part("number"), hand.number(1)),)),
        ir.SwitchCase((), (ir.Assign(hand.part("number"), hand.number(2)),)),
    )
    engine: Engine = hand.engine(ir.SwitchAction("C.forward", cases), ir.CallFunction("send_to_host"))
    missed = engine.process(FRAME, 1).frame[1:3]
    engine.insert("forward", TableEntry((Exact(0x1234),), "send", (1,)))
    assert (missed, engine.process(FRAME, 1).frame[1:3]) == (b"\x00\x02", b"\x00\x01")


def test_apply_hit_says_whether_an_entry_matched(hand: SimpleNamespace) -> None:
    body = ir.If(ir.TableApply("C.forward", hit=False), (ir.CallFunction("send_to_port", (hand.number(9),)),))
    engine: Engine = hand.engine(body)
    assert engine.process(FRAME, 1).port == 9
    engine.insert("forward", TableEntry((Exact(0x1234),), "send", (4,)))
    assert engine.process(FRAME, 1).port == 4


def test_an_assigned_header_is_a_copy_with_its_validity(hand: SimpleNamespace) -> None:
    body = (ir.Assign(hand.header("inner"), hand.header()), ir.Assign(hand.part("number"), hand.number(0)))
    assert run(hand, *body).frame == bytes.fromhex("35000080 35123480") + b"payload"


def test_two_invalid_headers_are_equal_and_a_valid_one_differs(hand: SimpleNamespace) -> None:
    equal = ir.Binary("==", hand.header(), hand.header("inner"), ir.BOOL)
    body = ir.If(equal, (ir.CallFunction("drop_packet"),))
    assert run(hand, body).disposition is Disposition.HOST
    assert run(hand, ir.SetValid(hand.header(), False), body).disposition is Disposition.DROP


def test_effects_stand_in_the_order_in_which_they_were_asked_for(hand: SimpleNamespace) -> None:
    counter = ir.ExternInstance("C.n", "TriggerCounter")
    adds = [
        ir.CallMethod("C.n", "add", (ir.Constant(index, ir.Bits(32)), ir.Constant(1 << 63, ir.Bits(64))))
        for index in (5, 2)
    ]
    assert run(hand, *adds, externs=(counter,)).effects == (CounterAdd(5, 1 << 63), CounterAdd(2, 1 << 63))


def test_the_nic_tells_port_and_length_of_the_frame(hand: SimpleNamespace) -> None:
    nic = ir.Member(ir.Name("nic", ir.Named("nic_metadata_t")), "ingress_port", U16)
    assert number_after(hand, ir.Assign(hand.part("number"), nic)) == 1
    length = ir.Member(ir.Name("nic", ir.Named("nic_metadata_t")), "packet_length", ir.Bits(32))
    low = ir.Slice(length, 15, 0, U16)
    assert number_after(hand, ir.Assign(hand.part("number"), low)) == len(FRAME)


def test_nothing_of_one_packet_is_left_for_the_next(hand: SimpleNamespace) -> None:
    mark = ir.Member(ir.Name("metadata", ir.Named("meta_t")), "mark", U8)
    copy = ir.Assign(hand.part("number"), ir.Cast(mark, U16))
    engine: Engine = hand.engine(copy, ir.Assign(mark, hand.number(9, 8)))
    assert [engine.process(FRAME, 1).frame[1:3] for _ in range(2)] == [b"\0\0", b"\0\0"]


@given(st.binary(max_size=64))
def test_headers_parsed_and_emitted_unchanged_give_the_same_frame(frame: bytes) -> None:
    from nicemu.pipeline import NIC_METADATA, Program

    layout = ir.HeaderType(
        "h", tuple(ir.Field(f"f{width}", ir.Bits(width)) for width in (3, 13, 5, 11, 1, 15))
    )
    headers = ir.Name("headers", ir.Named("hs"))
    program = Program(
        "roundtrip",
        "nicemu",
        (layout,),
        (ir.StructType("hs", (ir.Field("h", ir.Named("h")),)), ir.StructType("m", ()), NIC_METADATA),
        ir.CORE_ERRORS,
        (
            ir.Variable("headers", ir.Named("hs")),
            ir.Variable("metadata", ir.Named("m")),
            ir.Variable("nic", ir.Named("nic_metadata_t")),
        ),
        (),
        ir.Parser(
            "P",
            (ir.State("start", (ir.Extract(ir.Member(headers, "h", ir.Named("h"))),), ir.Goto("accept")),),
        ),
        (ir.Control("control", "C", ()), ir.Control("deparser", "D", (ir.Emit(headers),))),
    )
    engine = Engine()
    engine.load(program)
    assert engine.process(frame, 0).frame == frame
