# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from nicemu.cli import table
from nicemu.control import match_text, parse_match
from nicemu.errors import UsageError
from nicemu.pipeline import Exact, Lpm, Match, Range, Ternary

if TYPE_CHECKING:
    from tests.unit.cli.conftest import World

Cli = Callable[..., Result]
WIDTHS = st.integers(1, 128)


def _exact(width_bits: int, first: int, second: int) -> Match:
    return Exact(first)


def _lpm(width_bits: int, first: int, second: int) -> Match:
    prefix_len = second % (width_bits + 1)
    behind = width_bits - prefix_len
    return Lpm(first >> behind << behind, prefix_len)


def _ternary(width_bits: int, first: int, second: int) -> Match:
    return Ternary(first & second, second)


def _range(width_bits: int, first: int, second: int) -> Match:
    return Range(min(first, second), max(first, second))


@pytest.mark.parametrize("make", [_exact, _lpm, _ternary, _range])
@given(st.data())
def test_a_match_that_is_listed_can_be_typed_again(
    make: Callable[[int, int, int], Match], data: st.DataObject
) -> None:
    width_bits = data.draw(WIDTHS)
    numbers = st.integers(0, (1 << width_bits) - 1)
    match = make(width_bits, data.draw(numbers), data.draw(numbers))
    kind = type(match).__name__.lower()
    assert parse_match(match_text(match, width_bits), kind, width_bits) == match


KEYS = ["headers.ip.dst", "headers.ip.port"]


def test_a_name_or_the_end_of_it_says_which_key_or_parameter_is_meant() -> None:
    keys, values = table._divided({"dst": "1", "headers.ip.port": "2", "port": "3"}, KEYS, ["port"])
    assert keys == {"headers.ip.dst": "1", "headers.ip.port": "2"}
    assert values == {"port": "3"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"src": "1"},
            r"src is none of the keys \(headers.ip.dst, headers.ip.port\) and parameters \(port\)",
        ),
        ({"dst": "1", "ip.dst": "2"}, "headers.ip.dst is given twice"),
    ],
)
def test_a_name_that_means_nothing_or_the_same_twice_is_refused(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        table._divided(given, KEYS, ["port"])


def test_a_name_that_means_several_is_refused() -> None:
    with pytest.raises(UsageError, match=r"port is several of the keys \(a.port, b.port\)"):
        table._divided({"port": "1"}, ["a.port", "b.port"], [])


@pytest.mark.parametrize("word", ["session", "session=", "=5", "="])
def test_a_setting_without_name_or_value_is_wrong_usage(world: World, nicemu: Cli, word: str) -> None:
    result = nicemu("table", "add", "session", "fetch", word)
    assert result.exit_code == 2
    assert "NAME=VALUE was expected" in result.stderr


def test_a_setting_given_twice_is_wrong_usage(world: World, nicemu: Cli) -> None:
    result = nicemu("table", "delete", "session", "session=5", "session=6")
    assert result.exit_code == 2
    assert "session is given twice" in result.stderr


def test_a_key_and_a_parameter_of_one_name_are_told_apart() -> None:
    with pytest.raises(UsageError, match=r"write key\.tenant or parameter\.tenant"):
        table._divided({"tenant": "1"}, ["tenant"], ["tenant"])
    keys, values = table._divided({"key.tenant": "1", "parameter.tenant": "2"}, ["tenant"], ["tenant"])
    assert (keys, values) == ({"tenant": "1"}, {"tenant": "2"})


def test_a_validity_key_may_be_written_as_in_the_program() -> None:
    keys, _ = table._divided({"h.ip.isValid()": "1"}, ["h.ip.$valid$"], [])
    assert keys == {"h.ip.$valid$": "1"}
