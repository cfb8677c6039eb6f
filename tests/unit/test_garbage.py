# SPDX-License-Identifier: Apache-2.0
"""Cycles are not searched for while much is made, and are found later all the same."""

from __future__ import annotations

import gc
import weakref

import pytest

from nicemu import garbage
from nicemu.garbage import garbage_waits


class Node:
    """An object that holds itself, and some more."""

    def __init__(self) -> None:
        self.me = self
        self.blocks: list[list[int]] = [[] for _ in range(1000)]


def left_behind(has_cycles: bool) -> weakref.ref[Node]:
    """Make a cycle that nothing else holds, and return a way to see whether it still is there."""
    with garbage_waits(has_cycles=has_cycles):
        return weakref.ref(Node())


def test_nothing_is_searched_for_inside() -> None:
    with garbage_waits():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_cycles_are_gone_once_there_are_enough_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_MOST_BLOCKS", 5000)
    monkeypatch.setattr(garbage, "_left_blocks", 0)
    first, *others = [left_behind(has_cycles=True) for _ in range(8)]
    assert first() is None
    assert others[-1]() is not None


def test_where_none_are_said_to_be_made_none_are_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_MOST_BLOCKS", 0)
    gc.collect()
    kept = left_behind(has_cycles=False)
    assert kept() is not None
