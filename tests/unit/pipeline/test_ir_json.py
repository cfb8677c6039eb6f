# SPDX-License-Identifier: Apache-2.0
"""A program survives the way to JSON and back; whatever else arrives is refused with the path to its
fault.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Program, ir, program_of_json


def test_a_program_comes_back_equal(hand: SimpleNamespace) -> None:
    program = hand.program(ir.If(ir.IsValid(hand.header()), (ir.ApplyTable("C.forward"),), (ir.Exit(),)))
    assert program_of_json(program.to_json()) == program
    assert program_of_json(program.to_json(indent=2).encode()) == program


def change(document: Any, path: str, value: Any) -> None:  # noqa: ANN401
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        document = document[step]
    document[last] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("name", 7, r"\$\.name is 7; str was expected"),
        ("headers", {}, r"\$\.headers is dict; a list was expected"),
        (
            "headers.0.fields.0.type",
            "int<0>",
            r"headers\[0\]\.fields\[0\]\.type is \"int<0>\"; a type was expected",
        ),
        ("headers.0.fields.0.type", "bit<4097>", "N up to 4096"),
        ("headers.0.fields.0.type", "bit<5>", "tag_t is 33 bits; whole bytes"),
        ("tables.0.size", True, r"tables\[0\]\.size is true; int was expected"),
        ("tables.0.size", 0, r"\$\.tables\.C\.forward\.size is 0; 1 to"),
        ("tables.0.keys.0.match_kind", "fuzzy", "one of 'exact', 'lpm', 'ternary', 'range'"),
        ("tables.0.sise", 4, r"tables\[0\]\.sise is unknown; table has name, keys"),
        ("tables.0.default_action.action", "C.none", "C.none is not among the table's actions"),
        (
            "controls.0.body.0.kind",
            "jump",
            r"controls\[0\]\.body\[0\]\.kind is \"jump\"; one of assign, reset",
        ),
        (
            "controls.0.body.0.table",
            "C.other",
            r"\$\.control\.body\.\[0\]\.table C.other cannot be applied here",
        ),
        ("actions.0.body.0.function", "format_disk", "nicemu has send_to_port"),
        ("parser.states.0.transition.state", "nowhere", "goes to nowhere, which is no state"),
        ("parser.start", "begin", "is begin, which is no state"),
        ("errors", ["NoError"], "must begin with NoError, PacketTooShort"),
        ("variables.0.type", "lost_t", "is lost_t, which the program does not have"),
        ("structs.0.fields.0.type", "event_t", "may name only types before it"),
    ],
)
def test_a_fault_is_refused_with_its_path(
    hand: SimpleNamespace, path: str, value: object, words: str
) -> None:
    document = json.loads(hand.program().to_json())
    change(document, path, value)
    with pytest.raises(ControlError, match=words) as caught:
        program_of_json(json.dumps(document))
    assert caught.value.code is P4RuntimeCode.INVALID_ARGUMENT


def test_a_missing_field_is_named(hand: SimpleNamespace) -> None:
    document = json.loads(hand.program().to_json())
    del document["parser"]["states"][0]["name"]
    with pytest.raises(ControlError, match=r"\$\.parser\.states\[0\]\.name is missing"):
        program_of_json(json.dumps(document))


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, b"\xff\xfe", "null", "[]", '{"name": ' + "9" * 5000 + "}"]
)
def test_what_is_no_program_at_all_is_refused(text: str | bytes) -> None:
    with pytest.raises(ControlError) as caught:
        program_of_json(text)
    assert caught.value.code is P4RuntimeCode.INVALID_ARGUMENT


def test_an_expression_without_end_is_refused(hand: SimpleNamespace) -> None:
    deep: dict[str, object] = {"kind": "constant", "value": 1, "type": "bool"}
    for _ in range(300):
        deep = {"kind": "unary", "op": "!", "operand": deep, "type": "bool"}
    document = json.loads(hand.program().to_json())
    document["controls"][0]["body"] = [{"kind": "if", "condition": deep, "then": []}]
    with pytest.raises(ControlError, match="deeper than"):
        program_of_json(json.dumps(document))


def places(document: Any, path: str = "") -> list[str]:  # noqa: ANN401
    steps = document.items() if isinstance(document, dict) else enumerate(document)
    found = []
    for step, part in steps:
        found.append(f"{path}{step}")
        if isinstance(part, dict | list):
            found.extend(places(part, f"{path}{step}."))
    return found


@given(st.data())
def test_any_change_of_any_value_gives_a_program_or_a_refusal(program_text: str, data: st.DataObject) -> None:
    document = json.loads(program_text)
    values: st.SearchStrategy[object] = st.sampled_from(
        [None, True, -1, 0, 1, 1 << 70, "", "x", "bit<9>", "bool", "tag_t", "C.send", [], {}]
    )
    change(document, data.draw(st.sampled_from(places(document))), data.draw(values))
    load_or_refuse(lambda: program_of_json(json.dumps(document)))


@pytest.fixture(scope="module")
def program_text(hand_made: SimpleNamespace) -> str:
    extra = (
        ir.If(ir.TableApply("C.forward"), (ir.SwitchAction("C.forward", (ir.SwitchCase((), ()),)),)),
        ir.Assign(hand_made.part("number"), ir.Cast(hand_made.part("kind"), ir.Bits(16))),
    )
    text: str = hand_made.program(*extra).to_json()
    return text


def load_or_refuse(load: Callable[[], Program]) -> None:
    from nicemu.pipeline import Engine

    engine = Engine()
    with contextlib.suppress(ControlError):
        engine.load(load())
    for length in (0, 3, 4, 9):
        engine.process(bytes(range(length)), 1)
