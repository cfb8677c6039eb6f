# SPDX-License-Identifier: Apache-2.0
"""Time comes from the wall, or from whoever moves a virtual clock; it never goes back."""

from __future__ import annotations

import time

import pytest

from nicemu.clock import VirtualClock, WallClock
from nicemu.errors import UsageError


def test_the_wall_clock_is_the_monotonic_clock_of_the_machine() -> None:
    before = time.monotonic_ns()
    now = WallClock().now_ns()
    assert before <= now <= time.monotonic_ns()


def test_a_virtual_clock_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(7)
    assert (clock.now_ns(), clock.now_ns()) == (7, 7)
    clock.advance_to(7)
    clock.advance_to(1 << 70)
    assert clock.now_ns() == 1 << 70


def test_a_virtual_clock_cannot_go_back() -> None:
    clock = VirtualClock()
    clock.advance_to(100)
    with pytest.raises(UsageError, match="virtual time is 100 ns and cannot go back to 99 ns"):
        clock.advance_to(99)
    assert clock.now_ns() == 100
