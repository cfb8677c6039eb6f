# SPDX-License-Identifier: Apache-2.0
"""Parsers: operations, transitions, value sets."""

from __future__ import annotations

import pytest

from nicemu.bmv2 import Bmv2Error
from nicemu.pipeline import Exact
from tests.unit.bmv2.program_json import (
    ERRORS,
    Node,
    action,
    assign,
    boolean,
    engine_of,
    expression,
    extract,
    field,
    frames,
    hexstr,
    load,
    masked,
    named,
    operation,
    outcome,
    primitive,
    program,
    send,
    state,
    transition,
    wrapped,
)

ITEM = operation("extract", named("stack", "s"))


def parser(*states: Node, **parts: object) -> Node:
    """Return a program with these states; the first is where it starts."""
    described = {"name": "parser", "id": 0, "init_state": states[0]["name"], "parse_states": list(states)}
    return program(parsers=[described], **parts)


def write(source: Node) -> Node:
    """Return an action that puts a value into the first byte that leaves."""
    return action(0, "C.w", assign(field("h", "kind"), source))


PARSER_ERROR = write(field("standard_metadata", "parser_error"))


def select(keys: list[Node], *transitions: Node) -> Node:
    """Return a program whose packets leave with 0x11 behind `g` where a transition leads there."""
    return parser(
        state(0, "start", extract("h"), keys=keys, transitions=list(transitions), following=None),
        state(1, "more", extract("g")),
        actions=[action(0, "C.a", assign(field("g", "kind"), hexstr(0x11)))],
    )


def took(document: Node, text: str) -> bool:
    return outcome(document, text + "aa bb cc dd")[0][1][8:10] == "11"


KIND, FIVE = field("h", "kind"), field("h", "five")


def test_a_transition_compares_a_key_with_a_value() -> None:
    document = select([KIND], transition("0x07", "more"))
    assert took(document, "07 00 00 00")
    assert not took(document, "08 00 00 00")


def test_a_transition_with_a_mask_compares_what_the_mask_selects() -> None:
    document = select([KIND], transition("0xf7", "more", "0x0f"))
    assert took(document, "37 00 00 00")
    assert not took(document, "38 00 00 00")


def test_keys_are_filled_up_to_whole_bytes_and_stand_one_behind_the_other() -> None:
    document = select([FIVE, KIND, field("h", "small")], transition("0x1f07ff", "more", "0x1fffff"))
    assert took(document, "07 00 ff f8")
    assert not took(document, "07 00 fe f8")
    assert not took(document, "07 00 ff f0")


def test_a_value_with_bits_outside_its_field_matches_nothing() -> None:
    assert not took(select([FIVE], transition("0x3f", "more")), "00 00 00 f8")
    assert took(select([FIVE], transition("0x3f", "more", "0x1f")), "00 00 00 f8")


def test_the_first_transition_that_matches_counts() -> None:
    document = select([KIND], transition("0x07", None), transition("0x00", "more", "0x00"))
    assert not took(document, "07 00 00 00")
    assert took(document, "06 00 00 00")


def test_a_select_without_a_default_that_matches_nothing_is_no_match() -> None:
    document = select([KIND], transition("0x07", None))
    del document["parsers"][0]["parse_states"][0]["transitions"][-1]
    document["actions"][0]["primitives"] = PARSER_ERROR["primitives"]
    assert outcome(document, "00 00 0000")[0][1][:2] == f"{ERRORS.index('NoMatch'):02x}"


def test_a_default_transition_may_say_so_in_its_value() -> None:
    """As compilers before 2021 wrote it."""
    document = select([])
    document["parsers"][0]["parse_states"][0]["transitions"] = [
        {"value": "default", "mask": None, "next_state": "more"}
    ]
    assert took(document, "00 00 00 00")


def test_a_transition_without_a_type_compares_its_value() -> None:
    """As compilers of the format's first years wrote it."""
    document = select([KIND], {"value": "0x07", "mask": None, "next_state": "more"})
    assert took(document, "07 00 00 00")
    assert not took(document, "08 00 00 00")


def test_a_transition_without_a_type_and_a_value_is_refused() -> None:
    with pytest.raises(Bmv2Error, match=r"transitions\[0\] has no value"):
        load(select([KIND], {"next_state": "more"}))


def test_keys_can_be_looked_ahead_for() -> None:
    document = select([{"type": "lookahead", "value": [8, 12]}], transition("0x0bbc", "more"))
    assert took(document, "00 00 00 00")
    document = select([{"type": "lookahead", "value": [0, 8]}], transition("0xab", "more"))
    assert not took(document, "00 00 00 00")


def stacked(count: int) -> Node:
    """Return a program that extracts items until one has its top bit set."""
    return parser(
        state(0, "start", extract("h"), following="items"),
        state(
            1,
            "items",
            ITEM,
            keys=[{"type": "stack_field", "value": ["s", "value"]}],
            transitions=[transition("0x00", "items", "0x80")],
        ),
        actions=[PARSER_ERROR] * count,
    )


def test_stacks_are_extracted_and_their_last_header_is_a_key() -> None:
    assert outcome(stacked(0), "00 00 00 00 01 02 83 04") == [(0, "00000000010283" + "04")]


def test_a_full_stack_is_an_error_that_the_program_sees() -> None:
    assert (
        outcome(stacked(1), "00 00 00 00 01 02 03 84")[0][1][:2] == f"{ERRORS.index('StackOutOfBounds'):02x}"
    )


def test_a_packet_that_is_too_short_goes_on_with_the_error_and_what_it_has() -> None:
    document = parser(
        state(0, "start", extract("h"), extract("g")),
        actions=[PARSER_ERROR],
    )
    assert outcome(document, "77 00 00 00 aa") == [(0, "01000000aa")]


def last_index() -> Node:
    return expression("last_stack_index", None, named("header_stack", "s"))


def test_fields_are_set_from_fields_constants_lookaheads_and_expressions() -> None:
    ahead = {"type": "lookahead", "value": [0, 16]}
    last = {"type": "stack_field", "value": ["s", "value"]}
    document = parser(
        state(
            0,
            "start",
            extract("h"),
            operation("set", field("h", "value"), hexstr(0x1FF)),
            operation("set", field("scalars", "tmp"), ahead),
            ITEM,
            ITEM,
            operation("set", field("h", "kind"), wrapped(masked(expression("+", last, last_index()), 8))),
            operation("set", field("h", "small"), field("scalars", "tmp")),
            operation("set", last, hexstr(0x66)),
        )
    )
    assert outcome(document, "00 00 00 00 12 34") == [(0, "35ff34001266")]


def test_verify_rejects_with_its_error() -> None:
    holds = expression("==", KIND, hexstr(1))
    for error in (hexstr(7), field("h", "value")):
        document = parser(
            state(0, "start", extract("h"), operation("verify", holds, error), extract("g")),
            errors=[*([name, number] for number, name in enumerate(ERRORS)), ["Mine", 7]],
            actions=[PARSER_ERROR],
        )
        assert outcome(document, "02 07 00 00 aa bb cc dd") == [(0, "07070000aabbccdd")]
        assert outcome(document, "01 07 00 00 aa bb cc dd") == [(0, "00070000aabbccdd")]


def test_errors_have_the_numbers_that_the_file_gives_them() -> None:
    numbers = {"NoError": 0, "PacketTooShort": 40, "Mine": 3}
    test = expression("==", field("standard_metadata", "parser_error"), hexstr(40))
    document = parser(
        state(0, "start", extract("h"), extract("g")),
        errors=[[name, number] for name, number in numbers.items()],
        actions=[
            PARSER_ERROR,
            action(1, "C.b", assign(field("h", "value"), wrapped(expression("b2d", None, test)))),
            action(2, "C.c", assign(field("standard_metadata", "parser_error"), hexstr(3))),
            action(3, "C.d", assign(field("h", "small"), field("standard_metadata", "parser_error"))),
            action(4, "C.e", assign(field("standard_metadata", "parser_error"), field("h", "kind"))),
            action(5, "C.f", assign(field("scalars", "tmp"), field("standard_metadata", "parser_error"))),
            action(6, "C.g", assign(field("h", "five"), field("scalars", "tmp"))),
        ],
    )
    assert outcome(document, "00 00 00 00") == [(0, "280103" + f"{(40 & 31) << 3:02x}")]
    assert load(document).program.errors[-1] == "Mine"


@pytest.mark.parametrize(("number", "written"), [(8, "8"), (12, "12"), (0x12, "0x12")])
def test_errors_may_be_written_without_0x(number: int, written: str) -> None:
    """p4c wrote the number of an error in decimal digits until 2018."""
    error = {"type": "hexstr", "value": written}
    test = expression("==", field("standard_metadata", "parser_error"), error)
    document = parser(
        state(0, "start", extract("h"), operation("verify", boolean(False), error)),
        errors=[["NoError", 1], ["Mine", number]],
        actions=[
            PARSER_ERROR,
            action(1, "C.b", assign(field("h", "value"), wrapped(expression("b2d", None, test)))),
        ],
    )
    assert outcome(document, "00 00 00 00") == [(0, f"{number:02x}010000")]


def test_a_number_that_no_error_has_cannot_be_verified() -> None:
    error = {"type": "hexstr", "value": "0x4d"}
    document = parser(state(0, "start", extract("h"), operation("verify", boolean(False), error)))
    with pytest.raises(
        Bmv2Error, match=r"parser_ops\[1\]\.parameters\[1\] is 77, which is the number of none"
    ):
        load(document)


def test_the_number_of_an_error_may_stand_there_bare() -> None:
    document = parser(
        state(0, "start", extract("h"), operation("verify", boolean(False), 5)),
        errors=[["NoError", 1], ["Mine", 5]],
        actions=[PARSER_ERROR],
    )
    assert outcome(document, "00 00 00 00") == [(0, "05000000")]


def test_a_parser_that_sets_whether_a_header_is_valid_changes_nothing() -> None:
    """Hidden fields are read-only; p4c wrote such a `set` behind an `add_header` until 2019."""
    document = parser(
        state(
            0,
            "start",
            extract("h"),
            operation("primitive", primitive("add_header", named("header", "g"))),
            operation("set", field("g", "$valid$"), wrapped(expression("&", field("h", "kind"), hexstr(1)))),
            operation("set", field("g", "kind"), hexstr(0x77)),
        )
    )
    assert outcome(document, "00 00 00 00")[0][1][:10] == "0000000077"


def test_the_cursor_moves_by_bytes_or_by_bits() -> None:
    for move in (
        operation("shift", 2),
        operation("advance", hexstr(16)),
        operation("advance", field("h", "kind")),
    ):
        document = parser(state(0, "start", extract("h"), move, extract("g")))
        assert outcome(document, "10 00 00 00 aa bb 01 02 03 04") == [(0, "1000000001020304")]


def test_primitives_run_in_a_parser() -> None:
    document = parser(
        state(
            0,
            "start",
            extract("h"),
            operation("primitive", primitive("add_header", named("header", "g"))),
            operation("primitive", primitive("assign_header", named("header", "g"), named("header", "h"))),
            operation("primitive", primitive("remove_header", named("header", "h"))),
        )
    )
    assert outcome(document, "01 02 03 04 05") == [(0, "0102030405")]
    assert load(document).program.parser.name == "parser"


# Headers of variable length, unions


VARIABLE = [["count", 8, False], ["rest", "*"]]


def variable(**parts: object) -> Node:
    document = program(**parts)
    document["header_types"].append({"name": "var_t", "id": 9, "fields": VARIABLE, "max_length": 5})
    document["headers"] += [
        {"name": name, "id": 20 + place, "header_type": "var_t", "metadata": False}
        for place, name in enumerate(("v", "w"))
    ]
    document["deparsers"][0]["order"] = ["v", "w"]
    bits = expression("*", {"type": "lookahead", "value": [0, 8]}, hexstr(8))
    extracted = operation("extract_VL", named("regular", "v"), wrapped(bits))
    document["parsers"][0]["parse_states"] = [state(0, "start", extracted)]
    return document


def test_headers_of_variable_length_take_as_many_bits_as_they_are_told() -> None:
    assert outcome(variable(), "02 aa bb cc") == [(0, "02aabbcc")]
    document = variable(actions=[action(0, "C.a", primitive("remove_header", named("header", "v")))])
    assert outcome(document, "02 aa bb cc") == [(0, "cc")]
    assert outcome(variable(actions=[]), "05 aa bb cc dd ee") == [(0, "05aabbccddee")], "too long: rejected"


def test_fields_of_variable_length_are_assigned() -> None:
    document = variable(
        actions=[
            action(
                0,
                "C.a",
                primitive("add_header", named("header", "w")),
                primitive("assign_VL", field("w", "rest"), field("v", "rest")),
            )
        ]
    )
    assert outcome(document, "02 aa bb cc") == [(0, "02aabb" + "00aabb" + "cc")]


def union_stack(**parts: object) -> Node:
    document = program(**parts)
    document["headers"] += [
        {"name": f"us[{place}].{name}", "id": 30 + 2 * place + part, "header_type": kind, "metadata": False}
        for place in range(2)
        for part, (name, kind) in enumerate((("a", "item_t"), ("b", "tag_t")))
    ]
    document["header_unions"] += [
        {
            "name": f"us[{place}]",
            "id": 1 + place,
            "union_type": "u_t",
            "header_ids": [30 + 2 * place, 31 + 2 * place],
        }
        for place in range(2)
    ]
    document["header_union_stacks"] = [
        {"name": "us", "id": 0, "union_type": "u_t", "size": 2, "header_union_ids": [1, 2]}
    ]
    document["deparsers"][0]["order"] = ["us[0].a", "us[0].b", "us[1].a", "us[1].b"]
    return document


def test_stacks_of_unions_are_extracted_member_by_member() -> None:
    document = union_stack()
    document["parsers"][0]["parse_states"] = [
        state(
            0,
            "start",
            operation("extract", {"type": "union_stack", "value": ["us", "a"]}),
            following="second",
        ),
        state(
            1,
            "second",
            operation("extract", {"type": "union_stack", "value": ["us", "b"]}),
            keys=[{"type": "union_stack_field", "value": ["us", "b", "kind"]}],
            transitions=[transition("0x05", "third")],
        ),
        state(2, "third", operation("primitive", primitive("remove_header", named("header", "us[0].a")))),
    ]
    assert outcome(document, "01 02 03 04 05 06") == [(0, "010203040506")]
    assert outcome(document, "01 05 03 04 05 06") == [(0, "0503040506")]


def test_a_header_of_a_union_that_becomes_valid_makes_the_others_invalid() -> None:
    document = program(
        actions=[
            action(
                0,
                "C.a",
                primitive("add_header", named("header", "u.b")),
                primitive("add_header", named("header", "u.a")),
                assign(field("u.a", "value"), hexstr(0x99)),
                primitive("remove_header", named("header", "h")),
            )
        ]
    )
    assert outcome(document, "00 00 00 00 ee") == [(0, "99ee")]


# Value sets


def compared(*keys: Node, width: int) -> Node:
    document = select(
        list(keys), {"type": "parse_vset", "value": "P.known", "mask": None, "next_state": "more"}
    )
    document["parse_vsets"] = [{"name": "P.known", "id": 0, "compressed_bitwidth": width}]
    return document


def test_value_sets_are_compared_with_all_keys() -> None:
    engine = engine_of(compared(KIND, FIVE, width=13))
    frame = "07 00 00 18 aa bb cc dd"
    assert frames(send(engine, frame))[0][1][8:10] == "aa"
    engine.objects.value_set("known").replace([(Exact(7), Exact(3))])
    assert frames(send(engine, frame))[0][1][8:10] == "11"


@pytest.mark.parametrize("mask", [0, "0x00", "0x0000"])
def test_a_value_set_with_a_mask_of_no_bits_is_compared_without_a_mask(mask: object) -> None:
    """p4c wrote that until 2020 where the program has no mask."""
    document = compared(KIND, FIVE, width=13)
    document["parsers"][0]["parse_states"][0]["transitions"][0]["mask"] = mask
    engine = engine_of(document)
    engine.objects.value_set("known").replace([(Exact(7), Exact(3))])
    assert frames(send(engine, "07 00 00 18 aa bb cc dd"))[0][1][8:10] == "11"
    assert frames(send(engine, "06 00 00 18 aa bb cc dd"))[0][1][8:10] == "aa"


@pytest.mark.parametrize("used", [True, False])
def test_a_value_set_has_room_for_as_many_members_as_the_file_says(used: bool) -> None:
    document = compared(KIND, width=8) if used else program()
    document["parse_vsets"] = [{"name": "P.known", "id": 0, "compressed_bitwidth": 8, "max_size": 3}]
    assert [item.size for item in load(document).program.value_sets] == [3]
    del document["parse_vsets"][0]["max_size"]
    assert [item.size for item in load(document).program.value_sets] == [1024]


def test_a_value_set_that_no_state_uses_is_there_all_the_same() -> None:
    document = program(parse_vsets=[{"name": "P.idle", "id": 0, "compressed_bitwidth": 9}])
    [value_set] = load(document).program.value_sets
    assert (value_set.name, [str(part.type) for part in value_set.fields]) == ("P.idle", ["bit<9>"])


def test_a_union_of_a_stack_may_be_called_a_header() -> None:
    """p4c does so where its index is known."""
    document = union_stack()
    first, second = named("header", "us[0]"), named("header", "us[1]")
    whether = expression("b2d", None, expression("valid_union", None, first))
    document["parsers"][0]["parse_states"] = [
        state(
            0,
            "start",
            operation("extract", {"type": "union_stack", "value": ["us", "a"]}),
            operation("primitive", primitive("assign_union", second, first)),
            operation("set", field("us[1].a", "value"), wrapped(whether)),
        )
    ]
    assert outcome(document, "07") == [(0, "0701")]


# Refusals


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (state(0, "start", following="none"), "transitions[0].next_state is none, which is no state"),
        (state(0, "start", operation("frob")), "not supported by nicemu yet: parser operation frob"),
        (state(0, "start", operation("extract")), "has 0 items; 1 were expected"),
        (state(0, "start", extract("scalars")), "names metadata; a header was expected"),
        (state(0, "start", extract("none")), "is none, which is no header of the program"),
        (state(0, "start", operation("extract_VL", named("regular", "h"), hexstr(8))), "which takes extract"),
        (state(0, "start", operation("primitive", primitive("exit"))), "yet: exit in a parser"),
        (state(0, "start", keys=[KIND], transitions=[transition("0x1ff", None)]), "more than the 8 bits"),
        (state(0, "start", keys=[KIND], transitions=[transition("-0x01", None)]), "BMv2 takes no sign here"),
        (
            state(0, "start", keys=[KIND], transitions=[transition("0x01", None, "-0x01")]),
            "mask is -0x01; BMv2",
        ),
        (state(0, "start", transitions=[transition("0x1", None)]), "the state has no transition_key"),
    ],
)
def test_what_is_not_taken_is_refused_with_its_path(broken: Node, message: str) -> None:
    with pytest.raises(Bmv2Error) as caught:
        load(parser(broken))
    assert message in str(caught.value)
    assert caught.value.path.startswith("$.parsers[0].parse_states[0]")


def test_a_mask_with_a_value_set_is_refused() -> None:
    document = compared(KIND, width=8)
    document["parsers"][0]["parse_states"][0]["transitions"][0]["mask"] = "0x0f"
    with pytest.raises(Bmv2Error, match="not supported by nicemu yet: a mask with a value set"):
        load(document)
