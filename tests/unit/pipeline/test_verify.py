# SPDX-License-Identifier: Apache-2.0
"""A program that does not mean anything is refused before it runs."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from nicemu.errors import ControlError
from nicemu.pipeline import ir, program_of_json, verify

U16, U8 = ir.Bits(16), ir.Bits(8)
TAG = ir.Member(ir.Name("headers", ir.Named("headers_t")), "tag", ir.Named("tag_t"))
NUMBER = ir.Member(TAG, "number", U16)


@pytest.mark.parametrize(
    "fields",
    [
        (ir.Field("0", U8), ir.Field("1", U16)),
        (ir.Field("0", U8), ir.Field("2", U8)),
        (ir.Field("1", U8), ir.Field("0", U8)),
        (ir.Field("0", U8), ir.Field("a", U8)),
    ],
)
def test_fields_called_by_numbers_are_elements_of_an_array(
    hand: SimpleNamespace, fields: tuple[ir.Field, ...]
) -> None:
    program = hand.program()
    with pytest.raises(ControlError, match="has fields called by numbers, and is no array"):
        verify(replace(program, structs=(ir.StructType("array.1", fields), *program.structs)))


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (ir.Assign(NUMBER, ir.Constant(1, U8)), "type bit<8> where bit<16> was expected"),
        (ir.Assign(NUMBER, ir.Constant(1 << 16, U16)), r"65536 is not a bit<16>"),
        (ir.Assign(ir.Constant(1, U16), NUMBER), "stores into a Constant"),
        (ir.Assign(ir.Name("lost", U16), NUMBER), "lost is unknown"),
        (ir.Assign(ir.Name("m", U16, "a b"), NUMBER), "shown is 'a b', which is no name"),
        (ir.Assign(ir.Member(TAG, "lost", U16), NUMBER), "lost is not one of tag_t"),
        (ir.Assign(ir.Member(TAG, "number", U8), ir.Constant(1, U8)), "is given as bit<8>; it is bit<16>"),
        (ir.Assign(NUMBER, ir.Binary("+", NUMBER, ir.Constant(1, U8), U16)), r"\+ does not apply to bit<16>"),
        (ir.Assign(NUMBER, ir.Binary("<<", NUMBER, ir.Constant(1, ir.Bits(8, True)), U16)), "does not apply"),
        (ir.Assign(NUMBER, ir.Unary("!", NUMBER, U16)), "! does not apply to bit<16>"),
        (ir.Assign(NUMBER, ir.Slice(NUMBER, 16, 1, U16)), r"slices \[16:1\] of bit<16>"),
        (ir.Assign(NUMBER, ir.Lookahead(U16)), "has a Lookahead in a control"),
        (ir.If(NUMBER, ()), "where bool was expected"),
        (ir.SetValid(NUMBER, True), "where a header was expected"),
        (ir.Reset("lost"), "lost is unknown"),
        (ir.Extract(TAG), "is Extract, which cannot stand in a control"),
        (ir.Emit(TAG), "is Emit, which cannot stand in a control"),
        (ir.Loop(ir.Constant(1, ir.BOOL), (), (ir.Return(),)), "leaves the loop"),
        (ir.CallAction("C.lost"), "C.lost is unknown"),
        (ir.CallAction("C.send"), "takes 1 argument; 0 are given"),
        (ir.CallFunction("send_to_port"), "takes 1; 0 are given"),
        (ir.CallMethod("C.lost", "add"), "C.lost is unknown"),
        (ir.SwitchAction("C.forward", (ir.SwitchCase(("C.lost",), ()),)), "are not all actions of C.forward"),
    ],
)
def test_a_statement_that_means_nothing_is_refused(
    hand: SimpleNamespace, statement: object, words: str
) -> None:
    with pytest.raises(ControlError, match=words):
        verify(hand.program(statement))


def test_an_action_cannot_call_itself_through_another(hand: SimpleNamespace) -> None:
    loop = (
        ir.Action("C.a", (), (ir.CallAction("C.b"),)),
        ir.Action("C.b", (), (ir.If(ir.Constant(1, ir.BOOL), (ir.CallAction("C.a"),)),)),
    )
    with pytest.raises(ControlError, match="calls itself; P4 has no recursion"):
        verify(hand.program(actions=loop))


@pytest.mark.parametrize("name", ["/cursor", "headers/tag", "s[]", "a]"])
def test_names_are_such_that_engines_can_make_others_of_their_own(hand: SimpleNamespace, name: str) -> None:
    with pytest.raises(ControlError, match=f"variables has {re.escape(repr(name))}, which is no name"):
        verify(hand.program(variables=(ir.Variable(name, U16),)))
    whole = hand.program()
    other = ir.StructType("other_t", (ir.Field(name, U16),))
    with pytest.raises(ControlError, match="which is no name"):
        verify(replace(whole, structs=(*whole.structs, other)))


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("is_control", [False, True])
def test_only_a_deparser_calls_what_emits(hand: SimpleNamespace, is_control: bool, is_nested: bool) -> None:
    """A kernel would write to memory that only a deparser has."""
    emit = ir.Emit(ir.Name("headers", ir.Named("headers_t")))
    functions = (
        ir.Function("D.outer", (), (ir.CallRoutine("D.inner", ()),), is_control=is_control),
        ir.Function("D.inner", (), (emit,), is_control=is_control),
    )
    call = ir.CallRoutine("D.outer" if is_nested else "D.inner", ())
    whole = replace(hand.program(), functions=functions)
    verify(replace(whole, controls=(whole.controls[0], replace(whole.controls[1], body=(call,)))))
    with pytest.raises(ControlError, match=r"control\.body calls D\.inner, which emits; this is a control"):
        verify(replace(hand.program(call), functions=functions))


@pytest.mark.parametrize("way", ["called", "in a table", "its default"])
def test_an_action_that_emits_is_a_deparsers_alone(hand: SimpleNamespace, way: str) -> None:
    action = ir.Action("D.f", (), (ir.Emit(ir.Name("headers", ir.Named("headers_t"))),))
    key = ir.Key("a", ir.Constant(0, U16), ir.MatchKind.EXACT)
    refs = (ir.ActionRef("D.f"), ir.ActionRef("D.g"))
    default = ir.ActionCall("D.f" if way == "its default" else "D.g")
    table = ir.Table("D.t", (key,), refs, default, 8)
    body = (ir.CallAction("D.f") if way == "called" else ir.ApplyTable("D.t"),)
    whole = hand.program()
    others = (action, ir.Action("D.g", (), ()))
    whole = replace(whole, actions=(*whole.actions, *others), tables=(*whole.tables, table))
    verify(replace(whole, controls=(whole.controls[0], replace(whole.controls[1], body=body))))
    with pytest.raises(ControlError, match=r"control\.body calls D\.f, which emits; this is a control"):
        verify(replace(whole, controls=(replace(whole.controls[0], body=body), whole.controls[1])))


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_control_that_an_action_calls_does_what_actions_may(hand: SimpleNamespace, is_nested: bool) -> None:
    """A compiler makes such controls, to have arguments be evaluated in an order."""
    table = ir.Table("C.t", (), (ir.ActionRef("C.g"),), ir.ActionCall("C.g"), 8)
    name = "C.outer" if is_nested else "C.inner"
    actions = (ir.Action("C.f", (), (ir.CallRoutine(name),)), ir.Action("C.g", (), ()))

    def program(*body: ir.Statement) -> ir.Program:
        functions = (
            ir.Function("C.outer", (), (ir.CallRoutine("C.inner"),), is_control=True),
            ir.Function("C.inner", (), body, is_control=True),
        )
        whole: ir.Program = hand.program(ir.CallAction("C.f"))
        return replace(whole, functions=functions, actions=actions, tables=(table,))

    verify(program(ir.CallAction("C.g"), ir.Exit()))
    with pytest.raises(
        ControlError, match=r"actions\.C\.f\.\[0\] is ApplyTable, which cannot stand in a action"
    ):
        verify(program(ir.ApplyTable("C.t")))


def test_only_a_parser_calls_what_takes_from_packets(hand: SimpleNamespace) -> None:
    ahead = ir.Function("ahead", (), (ir.Assign(ir.Name("n", U16), ir.Lookahead(U16)),))
    call = (ir.CallRoutine("ahead", ()),)
    whole = hand.program(variables=(ir.Variable("n", U16),))
    whole = replace(whole, functions=(ahead,))
    verify(replace(whole, parser=ir.Parser("P", (ir.State("start", call, ir.Goto("accept")),))))
    for place in (0, 1):
        controls = list(whole.controls)
        controls[place] = replace(controls[place], body=call)
        with pytest.raises(ControlError, match=r"body calls ahead, which takes from packets; this is a "):
            verify(replace(whole, controls=tuple(controls)))


def _doubling(levels: int, times: int) -> tuple[ir.StructType, ...]:
    """Return structs of which each holds the one before `times` times."""
    structs = [ir.StructType("s0", (ir.Field("a", ir.Bits(1)),))]
    for level in range(levels):
        inner = ir.Named(f"s{level}")
        structs.append(ir.StructType(f"s{level + 1}", tuple(ir.Field(f"f{n}", inner) for n in range(times))))
    return tuple(structs)


def test_a_type_that_doubles_at_each_level_is_refused_before_it_is_walked_through(
    hand: SimpleNamespace,
) -> None:
    """It would keep the NIC's control thread for ever."""
    whole = ir.Named("s60")
    program = hand.program(parse=(ir.Assign(ir.Lookahead(whole), ir.Zero(whole)),))
    with pytest.raises(ControlError, match="holds more than 262144 values"):
        verify(replace(program, structs=(*program.structs, *_doubling(60, 2))))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (ir.Stack("none", 2), "which the program does not have"),
        (ir.Stack("tag_t", 1 << 30), "has more than 1024 elements"),
    ],
)
def test_a_stack_that_is_looked_ahead_for_is_one_of_the_program(
    hand: SimpleNamespace, kind: ir.Type, words: str
) -> None:
    program = hand.program(parse=(ir.Assign(ir.Lookahead(kind), ir.Zero(kind)),))
    with pytest.raises(ControlError, match=words):
        verify(program)


def test_a_header_of_a_wide_and_deep_struct_is_refused_before_it_is_walked_through(
    hand: SimpleNamespace,
) -> None:
    program = hand.program()
    header = ir.HeaderType("big", (ir.Field("x", ir.Named("s9")),))
    wide = replace(program, headers=(*program.headers, header), structs=(*_doubling(9, 60), *program.structs))
    with pytest.raises(ControlError, match="holds more than 262144 values"):
        verify(wide)


def test_a_table_cannot_be_applied_inside_its_own_key(hand: SimpleNamespace) -> None:
    key = ir.Key("again", ir.TableApply("C.forward"), ir.MatchKind.EXACT)
    with pytest.raises(ControlError, match=r"table C\.forward calls itself"):
        verify(hand.program(tables=(hand.table(keys=(key,)),)))


def test_more_prefixes_in_a_key_than_can_be_put_in_order_are_refused(hand: SimpleNamespace) -> None:
    (key,) = hand.table(("number", ir.MatchKind.LPM)).keys
    keys = tuple(replace(key, name=f"k{number}") for number in range(5))
    verify(hand.program(tables=(hand.table(keys=keys[:4]),)))
    with pytest.raises(ControlError, match="more than 4 lpm keys"):
        verify(hand.program(tables=(hand.table(keys=keys),)))


@pytest.mark.parametrize(
    ("keyset", "words"),
    [
        (ir.KeyMask(1, 0xFF), "cannot stand in a key of match kind exact"),
        (ir.KeyAny(), "cannot stand in a key of match kind exact"),
        (ir.KeyRange(1, 2), "cannot stand in a key of match kind exact"),
        (ir.KeyMask(1 << 16, 0xFFFF), "does not fit"),
    ],
)
def test_an_entry_that_its_key_cannot_mean_is_refused(
    hand: SimpleNamespace, keyset: ir.Keyset, words: str
) -> None:
    entry = ir.Entry((keyset,), ir.ActionCall("C.drop"))
    with pytest.raises(ControlError, match=words):
        verify(hand.program(tables=(hand.table(entries=(entry,)),)))


@pytest.mark.parametrize(
    ("instance", "words"),
    [
        (ir.ExternInstance("x", "Teleporter"), "nicemu has TriggerCounter, FirmwareEvent"),
        (ir.ExternInstance("x", "FirmwareEvent", (), (ir.Named("event_t"),)), "expected: str"),
        (ir.ExternInstance("x", "FirmwareEvent", ("e",), ()), "0 type arguments; 1 expected"),
        (ir.ExternInstance("x", "FirmwareEvent", ("e",), (ir.Named("headers_t"),)), "a struct of numbers"),
    ],
)
def test_an_extern_that_the_nic_does_not_have_is_refused(
    hand: SimpleNamespace, instance: ir.ExternInstance, words: str
) -> None:
    with pytest.raises(ControlError, match=words):
        verify(hand.program(externs=(instance,)))


WIDE = ir.Annotation("wide", structured=True, values=(ir.AnnotationValue(1 << 63),))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"actions": (ir.Action("C.a", (), (), 1 << 32),)}, "C.a has the id 0x100000000; 32 bits"),
        ({"package": (ir.Annotation("colour", "red"),)}, "says colour = red, which is unknown"),
        ({"package": (ir.Annotation("multicast_group_table_size", "-1"),)}, "which is unknown"),
        ({"annotations": (WIDE,)}, "annotations hold 0x8000000000000000; 64 bits are allowed"),
    ],
)
def test_what_no_controller_can_be_told_is_refused(
    hand: SimpleNamespace, changed: dict[str, object], words: str
) -> None:
    with pytest.raises(ControlError, match=words):
        verify(replace(hand.program(), **changed))


def test_types_hold_one_another_64_deep_at_most(hand: SimpleNamespace) -> None:
    def chain(depth: int) -> ir.Program:
        program: ir.Program = hand.program()
        first = ir.StructType("s1", (ir.Field("x", U8),))
        more = (
            ir.StructType(f"s{at}", (ir.Field("x", ir.Named(f"s{at - 1}")),)) for at in range(2, depth + 1)
        )
        return replace(program, structs=(*program.structs, first, *more))

    verify(chain(ir.MAX_TYPE_DEPTH))
    with pytest.raises(ControlError, match="s65 is more than 64 types deep"):
        verify(chain(ir.MAX_TYPE_DEPTH + 1))


@pytest.mark.parametrize("keyset", [ir.KeyRange(0, 300), ir.KeyMask(-1, 1), ir.KeyMask(0, 256)])
def test_a_select_compares_with_what_its_key_can_be(hand: SimpleNamespace, keyset: ir.Keyset) -> None:
    whole = hand.program(variables=(ir.Variable("n", U8),))
    select = ir.Select((ir.Name("n", U8),), (ir.SelectCase((keyset,), "accept"),))
    with pytest.raises(ControlError, match=r"states\.start\.transition compares .* with a bit<8>"):
        verify(replace(whole, parser=ir.Parser("P", (ir.State("start", (), select),))))


def test_a_result_that_there_is_not_is_told_also_where_its_function_is_called_before(
    hand: SimpleNamespace,
) -> None:
    call = ir.Assign(ir.Name("n", U8), ir.Call("later", (), U8))
    functions = (ir.Function("first", (), (call,)), ir.Function("later", (), (), "lost"))
    whole = replace(hand.program(variables=(ir.Variable("n", U8),)), functions=functions)
    with pytest.raises(ControlError, match=r"functions\.later\.result has no variable lost"):
        verify(whole)


@pytest.mark.parametrize("text", ['{"name": "\\ud800"}', b'{"name": "\\ud800"}', '{"name": "\ud800"}'])
def test_text_that_nothing_can_write_is_refused(text: str | bytes) -> None:
    with pytest.raises(ControlError, match="is not JSON"):
        program_of_json(text)
