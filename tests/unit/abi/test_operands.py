# SPDX-License-Identifier: Apache-2.0
"""Operands: what is taken for a whole number, for yes or no, for seconds, and how others are refused."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest

from nicemu.abi import seconds, shown, text, whole, yes_or_no
from nicemu.errors import UsageError, counted


@pytest.mark.parametrize("value", [5, np.int8(5), np.uint64(5), np.array(5)])
def test_a_whole_number_of_any_kind_becomes_a_plain_one(value: object) -> None:
    assert (whole(value, "it"), type(whole(value, "it"))) == (5, int)


@pytest.mark.parametrize("value", [5.0, np.float32(5), True, np.True_, "5", None, nan, [5], np.zeros(2, int)])
def test_what_is_not_whole_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(
        UsageError, match=r"a count is a whole number, 0 or more, of 64 bits, not .* \(EINVAL\)"
    ):
        whole(value, "a count")


@pytest.mark.parametrize("value", [0, 9, -1, 1 << 70])
def test_a_whole_number_lies_within_its_bounds(value: int) -> None:
    with pytest.raises(UsageError, match=f"a size is a whole number, 1 to 8, not {value} "):
        whole(value, "a size", 1, 8)


def test_yes_and_no_are_true_and_false_alone() -> None:
    assert [yes_or_no(value, "it") for value in (True, False, np.True_)] == [True, False, True]
    for value in ("no", 1, 0, None):
        with pytest.raises(UsageError, match="signaled is True or False, not"):
            yes_or_no(value, "signaled")


def test_seconds_are_any_number_that_is_finite_and_not_negative() -> None:
    assert [seconds(value) for value in (0, 1, 0.5, np.float32(0.5), Fraction(1, 2))] == [0, 1, 0.5, 0.5, 0.5]
    for value in ("1", -1, -0.001, nan, inf, None, True, 10**400):
        with pytest.raises(UsageError, match="timeout_s is a number of seconds, 0 to 1,000,000,000, not"):
            seconds(value)


def test_a_name_is_text() -> None:
    assert text("a", "a name") == "a"
    with pytest.raises(UsageError, match="a name is text, not b'a'"):
        text(b"a", "a name")


def test_a_message_shows_a_large_value_in_one_short_line() -> None:
    assert shown("short") == "'short'"
    for value in (np.zeros((100, 100)), "x" * 1000, 10**1000, list(range(1000))):
        assert len(shown(value)) < 100
        assert "\n" not in shown(value)


def test_one_thing_is_not_many() -> None:
    assert [counted(number, "operation") for number in (0, 1, 2)] == [
        "0 operations",
        "1 operation",
        "2 operations",
    ]
    assert counted(2, "entry", "entries") == "2 entries"
