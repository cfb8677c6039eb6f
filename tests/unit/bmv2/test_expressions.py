# SPDX-License-Identifier: Apache-2.0
"""Expressions: BMv2 computes with unbounded integers, and cuts off where it stores."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.bmv2 import Bmv2Error
from tests.unit.bmv2.program_json import (
    Node,
    action,
    assign,
    boolean,
    engine_of,
    expression,
    field,
    hexstr,
    load,
    masked,
    named,
    outcome,
    primitive,
    program,
    send,
    valid,
    wrapped,
)

WIDTHS = {
    "kind": (8, False),
    "value": (8, False),
    "small": (8, True),
    "five": (5, False),
    "three": (3, False),
}


def computed(value: Node, frame: str = "07 c8 80 0c", target: str = "value") -> int:
    """Return what is in a field of `h` behind an assignment, of kind 7, value 200, small -128 and five 1."""
    document = program(actions=[action(0, "C.a", assign(field("h", target), wrapped(value)))])
    packet = send(engine_of(document), frame).frame
    fields = {"kind": packet[0], "value": packet[1], "small": packet[2], "five": packet[3] >> 3}
    return fields[target]


def bits(node: Node, fields: dict[str, int]) -> int:
    """Return the value of an expression as BMv2's document defines it, with unbounded integers."""
    if node["type"] == "field":
        return fields[node["value"][1]]
    if node["type"] == "hexstr":
        return int(node["value"], 16)
    operator = node["value"]
    op = operator["op"]
    if op == "?":
        chosen = "left" if truth(operator["cond"], fields) else "right"
        return bits(operator[chosen], fields)
    if op == "b2d":
        return int(truth(operator["right"], fields))
    right = bits(operator["right"], fields)
    if op == "~":
        return ~right
    left = 0 if operator["left"] is None else bits(operator["left"], fields)
    match op:
        case "two_comp_mod":
            return (left + (1 << right - 1)) % (1 << right) - (1 << right - 1)
        case "sat_cast":
            return min(max(left, -(1 << right - 1)), (1 << right - 1) - 1)
        case "usat_cast":
            return min(max(left, 0), (1 << right) - 1)
        case "/":
            return 0 if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        case "%":
            return 0 if right == 0 else abs(left) % abs(right) * (1 if left >= 0 else -1)
    return int(
        {
            "+": left + right,
            "-": left - right,
            "*": left * right,
            "&": left & right,
            "|": left | right,
            "^": left ^ right,
            "<<": left << max(right, 0) if op == "<<" else 0,
            ">>": left >> max(right, 0) if op == ">>" else 0,
        }[op]
    )


def truth(node: Node, fields: dict[str, int]) -> bool:
    operator = node["value"]
    if node["type"] == "bool":
        return bool(operator)
    op = operator["op"]
    if op == "d2b":
        return bits(operator["right"], fields) != 0
    if op == "not":
        return not truth(operator["right"], fields)
    if op == "and":
        return truth(operator["left"], fields) and truth(operator["right"], fields)
    if op == "or":
        return truth(operator["left"], fields) or truth(operator["right"], fields)
    left, right = bits(operator["left"], fields), bits(operator["right"], fields)
    return {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[op]


LEAVES = st.one_of(
    st.sampled_from(sorted(WIDTHS)).map(lambda name: field("h", name)),
    st.integers(-300, 70000).map(hexstr),
)
AMOUNTS = st.one_of(
    st.integers(0, 20).map(hexstr), st.sampled_from(("five", "three")).map(lambda name: field("h", name))
)


def grown(numbers: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Return expressions with one operator more."""
    tests = st.one_of(
        st.builds(expression, st.sampled_from(("==", "!=", "<", "<=", ">", ">=")), numbers, numbers),
        numbers.map(lambda item: expression("d2b", None, item)),
        st.booleans().map(boolean),
    )
    tests = st.one_of(
        tests,
        st.builds(expression, st.sampled_from(("and", "or")), tests, tests),
        tests.map(lambda item: expression("not", None, item)),
    )
    return st.one_of(
        st.builds(expression, st.sampled_from(("+", "-", "*", "&", "|", "^", "/", "%")), numbers, numbers),
        st.builds(expression, st.sampled_from(("<<", ">>")), numbers, AMOUNTS),
        st.builds(
            lambda op, item, width: expression(op, item, hexstr(width)),
            st.sampled_from(("two_comp_mod", "sat_cast", "usat_cast")),
            numbers,
            st.integers(1, 40),
        ),
        st.builds(masked, numbers, st.integers(1, 40)),
        st.builds(lambda left, mask: expression("&", left, hexstr(mask)), numbers, st.integers(0, 1 << 20)),
        numbers.map(lambda item: expression("~", None, item)),
        numbers.map(lambda item: expression("-", None, item)),
        tests.map(lambda item: expression("b2d", None, item)),
        st.builds(lambda test, yes, no: expression("?", yes, no, cond=test), tests, numbers, numbers),
    )


@settings(max_examples=150, deadline=None)
@given(
    value=st.recursive(LEAVES, grown, max_leaves=12),
    frame=st.binary(min_size=4, max_size=4),
    target=st.sampled_from(sorted(WIDTHS)),
)
def test_an_expression_is_what_unbounded_integers_make_of_it(value: Node, frame: bytes, target: str) -> None:
    held = {
        "kind": frame[0],
        "value": frame[1],
        "small": frame[2] - 256 * (frame[2] > 127),
        "five": frame[3] >> 3,
        "three": frame[3] & 7,
    }
    document = program(actions=[action(0, "C.a", assign(field("h", target), wrapped(value)))])
    packet = send(engine_of(document), frame.hex()).frame
    found = {
        "kind": packet[0],
        "value": packet[1],
        "small": packet[2],
        "five": packet[3] >> 3,
        "three": packet[3] & 7,
    }
    width = WIDTHS[target][0]
    assert found[target] == bits(value, held) & ((1 << width) - 1)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (expression("two_comp_mod", hexstr(257), hexstr(8)), 1),
        (expression("two_comp_mod", hexstr(-129), hexstr(8)), 127),
        (expression("sat_cast", hexstr(200), hexstr(8)), 127),
        (expression("sat_cast", hexstr(-200), hexstr(8)), 0x80),
        (expression("usat_cast", expression("-", field("h", "kind"), hexstr(9)), hexstr(8)), 0),
        (expression("?", hexstr(3), hexstr(4), cond=expression("==", field("h", "kind"), hexstr(7))), 3),
        (expression("?", hexstr(3), hexstr(4), cond=boolean(False)), 4),
        (expression("+", None, field("h", "kind")), 7),
        (expression("-", None, field("h", "kind")), 249),
        (expression("b2d", None, valid("h")), 1),
        (expression("b2d", None, valid("g")), 0),
        (expression("b2d", None, expression("valid", None, named("header", "h"))), 1),
        (expression("b2d", None, expression("valid_union", None, named("header_union", "u"))), 0),
        (expression("b2d", None, expression("==", named("header", "h"), named("header", "g"))), 0),
        (expression("b2d", None, expression("==", boolean(True), valid("h"))), 1),
        (expression("size_stack", None, named("header_stack", "s")), 0),
        (expression("access_field", named("header", "h"), 0), 7),
        (field("h", "$valid$"), 1),
    ],
)
def test_what_the_document_says_of_an_operator_holds(value: Node, result: int) -> None:
    assert computed(value) == result


def test_a_shifted_number_keeps_the_bits_that_a_field_would_cut_off() -> None:
    both = expression(">>", expression("<<", field("h", "value"), hexstr(12)), hexstr(12))
    assert computed(both) == 200
    assert (
        computed(expression(">>", masked(expression("<<", field("h", "value"), hexstr(4)), 8), hexstr(4)))
        == 8
    )


def test_numbers_of_different_width_and_sign_are_compared_as_they_are() -> None:
    less = expression("b2d", None, expression("<", field("h", "small"), field("h", "five")))
    assert computed(less) == 1
    assert computed(expression("b2d", None, expression("<", hexstr(-1), field("h", "five")))) == 1


def test_an_expression_that_p4c_has_masked_needs_no_more_bits_than_its_type() -> None:
    sum_ = masked(expression("+", field("h", "kind"), field("h", "value")), 8)
    document = program(actions=[action(0, "C.a", assign(field("h", "value"), wrapped(sum_)))])
    [assigned] = load(document).program.actions[0].body
    assert str(assigned.value.type) == "bit<8>"  # type: ignore[union-attr]
    assert assigned.value.op == "+"  # type: ignore[union-attr]


def test_header_stacks_are_indexed_by_numbers_that_a_packet_brings() -> None:
    item = expression("dereference_header_stack", named("header_stack", "s"), field("h", "five"))
    document = program(
        actions=[
            action(
                0,
                "C.a",
                *(primitive("add_header", named("header", f"s[{place}]")) for place in range(3)),
                assign(wrapped(expression("access_field", item, 0)), hexstr(0x55)),
                assign(field("h", "kind"), wrapped(expression("access_field", item, 0))),
            )
        ]
    )
    assert outcome(document, "01 02 03 0c") == [(0, "5502030c005500")]
    assert outcome(document, "01 02 03 fc") == [(0, "000203fc000000")], "outside the stack"


def test_a_union_gives_its_headers_by_number() -> None:
    member = expression("access_union_header", named("header_union", "u"), 1)
    document = program(
        actions=[
            action(
                0,
                "C.a",
                primitive("add_header", named("header", "u.b")),
                assign(field("u.b", "kind"), hexstr(9)),
                assign(field("h", "kind"), wrapped(expression("access_field", member, 0))),
            )
        ]
    )
    assert outcome(document, "01 02 03 04") == [(0, "0902030409000000")]


def nested(depth: int) -> Node:
    value = field("h", "kind")
    for _ in range(depth):
        value = expression("+", value, hexstr(1))
    return value


def refusal(value: object, target: str = "value") -> str:
    document = program(actions=[action(0, "C.a", assign(field("h", target), value))])
    with pytest.raises(Bmv2Error) as caught:
        load(document)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (expression("frob", hexstr(1), hexstr(2)), "value.op is not supported by nicemu yet: operator frob"),
        (field("h", "none"), "parameters[1].value[1] is none, which is no field of tag_t"),
        (field("none", "kind"), "value[0] is none, which is no header of the program"),
        ({"type": "lookahead", "value": [0, 8]}, "not supported by nicemu yet: lookahead outside the parser"),
        ({"type": "register", "value": ["r", hexstr(0)]}, "a value of type register in an expression"),
        ({"type": "local", "value": 0}, "stands where there is no action data"),
        ({"type": "hexstr", "value": "12"}, 'a hexadecimal text such as "0x0a"'),
        ({"type": "hexstr", "value": "0x" + "f" * 9999}, "of 4096 bits at most"),
        (expression("<<", hexstr(1), field("h", "small")), "shifts by what can be a negative number"),
        (
            expression(
                ">>",
                expression("<<", hexstr(1), expression("*", field("h", "kind"), hexstr(99))),
                field("h", "kind"),
            ),
            "can be wider than 4096 bits",
        ),
        (nested(200), "lies deeper than 90 operators"),
        (expression("two_comp_mod", hexstr(1), field("h", "kind")), "a width was expected"),
        (expression("+", named("header", "h"), hexstr(1)), "applies + to what are no numbers"),
        (expression("==", named("header", "h"), named("header", "s[0]")), "compares a tag_t with a item_t"),
        (expression("access_field", named("header", "h"), 5), "is 5; a number from 0 to 4 was expected"),
        (named("header", "h"), "is a tag_t; a number was expected"),
        ({"value": 3}, "has no type"),
        (7, "is 7; an object was expected"),
    ],
)
def test_what_is_not_taken_is_refused_with_its_path(value: object, message: str) -> None:
    text = refusal(value)
    assert message in text
    assert text.startswith("test.json: $.actions[0].primitives[0]")
