# SPDX-License-Identifier: Apache-2.0
"""What does an extern of the program's own takes what its calls give it, or the program is refused.

Source: P4-16 Language Specification 1.2.5, "Extern types", "Extern function and method calls".
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nicemu.errors import ControlError
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, extern

HALF = "extern bit<16> half(in bit<16> value);"
CALL = "headers.tag.number = half(headers.tag.number);"


async def late(value: int) -> int:
    return value


def load(p4: SimpleNamespace, externs: list[Callable[..., Any]], apply: str, **parts: str) -> Engine:
    engine = Engine(externs=externs)
    engine.load(compile_text(p4.source(apply, **parts)).program)
    return engine


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: 1, r"<lambda> does not take 1 argument: too many positional arguments"),
        (
            lambda value, more: value,
            r"<lambda> does not take 1 argument: missing a required argument: 'more'",
        ),
        (lambda *, value: value, r"<lambda> does not take 1 argument: too many positional arguments"),
        (late, r"late is async, and a packet waits for nothing"),
    ],
    ids=["none", "two", "by name", "async"],
)
def test_a_function_that_cannot_take_the_arguments_is_refused(
    p4: SimpleNamespace, function: Callable[..., int], message: str
) -> None:
    marked = extern("bit<16> half(in bit<16> value)")(function)
    with pytest.raises(ControlError, match=rf"half: the program declares .*; in Python, {message}"):
        load(p4, [marked], CALL, top=HALF)


@pytest.mark.parametrize(
    "function",
    [lambda *values: values[0] // 2, lambda value, more=1: value // (more + 1)],
    ids=["any", "more"],
)
def test_a_function_may_take_more_than_it_is_given(p4: SimpleNamespace, function: Callable[..., int]) -> None:
    engine = load(p4, [extern("bit<16> half(in bit<16> value)")(function)], CALL, top=HALF)
    assert engine.process(bytes([1, 0, 8, 0]), 0).frame == bytes([1, 0, 4, 0])


def test_what_only_comes_out_is_no_argument_in_python(p4: SimpleNamespace) -> None:
    @extern("void split(in bit<16> value, out bit<8> upper, inout bit<16> sum)")
    def split(value: int, so_far: int) -> tuple[int, int]:
        return value >> 8, so_far + value

    declared = "extern void split(in bit<16> v, out bit<8> upper, inout bit<16> sum);"
    apply = "split(0x102, headers.tag.kind, headers.tag.number);"
    assert load(p4, [split], apply, top=declared).process(bytes([1, 0, 3, 0]), 0).frame == bytes([1, 1, 5, 0])


def test_a_method_that_cannot_take_the_arguments_is_refused(p4: SimpleNamespace) -> None:
    @extern("Few()")
    class Few:
        @extern("void put(in bit<32> place, in bit<8> value, out bit<16> old)")
        def put(self, place: int) -> int:
            return place

    declared = "extern Few { Few(); void put(in bit<32> place, in bit<8> value, out bit<16> old); }"
    with pytest.raises(ControlError, match=r"Few\.put: .*\.put does not take 2 arguments and self: too many"):
        load(p4, [Few], "few.put(0, 1, headers.tag.number);", top=declared, parts="Few() few;")


def test_a_class_that_cannot_be_made_of_the_arguments_is_refused(p4: SimpleNamespace) -> None:
    @extern("Sized()")
    class Sized:
        def __init__(self, size: int) -> None:
            self.size = size

    with pytest.raises(
        ControlError, match=r"Sized\.Sized: .*Sized does not take 0 arguments: missing .*'size'"
    ):
        load(p4, [Sized], "", top="extern Sized { Sized(); }", parts="Sized() sized;")
