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


NAMES = sorted(WIDTHS)
ARITHMETIC = ("+", "-", "*", "&", "|", "^", "/", "%")
COMPARED = ("==", "!=", "<", "<=", ">", ">=")


@st.composite
def numbers(draw: st.DrawFn, depth: int) -> Node:
    """Return an expression with so many operators inside one another."""
    if depth == 0:
        if draw(st.booleans()):
            return field("h", draw(st.sampled_from(NAMES)))
        return hexstr(draw(st.sampled_from((-129, -1, 0, 1, 3, 127, 128, 255, 256, 0xFF00, 70000))))
    left = draw(numbers(depth - 1))
    match draw(st.integers(0, 8)):
        case 0 | 1 | 2:
            right = draw(numbers(draw(st.integers(0, depth - 1))))
            sides = (left, right) if draw(st.booleans()) else (right, left)
            return expression(draw(st.sampled_from(ARITHMETIC)), *sides)
        case 3:
            amount = draw(st.sampled_from((hexstr(0), hexstr(3), hexstr(20), field("h", "five"))))
            return expression(draw(st.sampled_from(("<<", ">>"))), left, amount)
        case 4:
            op = draw(st.sampled_from(("two_comp_mod", "sat_cast", "usat_cast")))
            return expression(op, left, hexstr(draw(st.sampled_from((1, 4, 8, 9, 32)))))
        case 5:
            return masked(left, draw(st.sampled_from((1, 4, 8, 9, 32))))
        case 6:
            return expression(draw(st.sampled_from(("~", "-"))), None, left)
        case 7:
            return expression("b2d", None, draw(truths(left, depth)))
    test = draw(truths(draw(numbers(0)), depth))
    return expression("?", left, draw(numbers(draw(st.integers(0, depth - 1)))), cond=test)


@st.composite
def truths(draw: st.DrawFn, left: Node, depth: int) -> Node:
    """Return a bool that depends on a number."""
    match draw(st.integers(0, 4)):
        case 0 | 1:
            right = draw(numbers(draw(st.integers(0, depth - 1))))
            return expression(draw(st.sampled_from(COMPARED)), left, right)
        case 2:
            return expression("d2b", None, left)
        case 3:
            return expression("not", None, expression("d2b", None, left))
    other = draw(st.one_of(st.booleans().map(boolean), truths(field("h", "kind"), depth)))
    return expression(draw(st.sampled_from(("and", "or"))), expression("d2b", None, left), other)


TARGETS = {"value": (8, False), "wide": (40, False), "signed": (40, True)}
BYTES = st.sampled_from((0, 1, 3, 0x7F, 0x80, 0xFF, 0x55))


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(st.integers(0, 3).flatmap(numbers), min_size=3, max_size=3),
    arrivals=st.lists(st.tuples(BYTES, BYTES, BYTES, BYTES).map(bytes), min_size=4, max_size=4),
)
def test_an_expression_is_what_unbounded_integers_make_of_it(
    values: list[Node], arrivals: list[bytes]
) -> None:
    """Three expressions are stored in fields of 8, 40 and 40 signed bits, and the fields sent out."""
    document = program(
        actions=[
            action(
                0,
                "C.a",
                primitive("add_header", named("header", "out")),
                *(
                    assign(field("out", name), wrapped(value))
                    for name, value in zip(TARGETS, values, strict=True)
                ),
            )
        ]
    )
    columns = [[name, width, signed] for name, (width, signed) in TARGETS.items()]
    document["header_types"].append({"name": "out_t", "id": 9, "fields": columns})
    document["headers"].append({"name": "out", "id": 70, "header_type": "out_t", "metadata": False})
    document["deparsers"][0]["order"] = ["out"]
    engine = engine_of(document)
    for frame in arrivals:
        held = {
            "kind": frame[0],
            "value": frame[1],
            "small": frame[2] - 256 * (frame[2] > 127),
            "five": frame[3] >> 3,
            "three": frame[3] & 7,
        }
        wanted = 0
        for value, (width, _) in zip(values, TARGETS.values(), strict=True):
            wanted = wanted << width | bits(value, held) & ((1 << width) - 1)
        assert send(engine, frame.hex()).frame == wanted.to_bytes(11, "big")


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (expression("two_comp_mod", hexstr(257), hexstr(8)), 1),
        (expression("two_comp_mod", hexstr(-129), hexstr(8)), 127),
        (expression("two_comp_mod", expression("-", None, field("h", "value")), hexstr(4)), 0xF8),
        (
            expression(
                "b2d", None, expression(">", expression("/", field("h", "small"), hexstr(-1)), hexstr(0))
            ),
            1,
        ),
        (expression(">>", expression("-", field("h", "small"), hexstr(128)), field("h", "three")), 0xF0),
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


@pytest.mark.parametrize("op", ["dereference_header_stack", "dereference_stack"])
def test_header_stacks_are_indexed_by_numbers_that_a_packet_brings(op: str) -> None:
    item = expression(op, named("header_stack", "s"), field("h", "five"))
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
        ({"type": "hexstr", "value": "1g"}, 'a hexadecimal text such as "0x0a"'),
        ({"type": "hexstr", "value": "-"}, 'a hexadecimal text such as "0x0a"'),
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
