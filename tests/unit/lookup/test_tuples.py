# SPDX-License-Identifier: Apache-2.0
"""The priorities of a tuple: the best that an entry has, and no memory for those that none has."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from nicemu.lookup.tuples import _MOST_UNUSED, _Tuple

STEPS = st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=80)


@given(STEPS)
def test_the_best_priority_is_the_largest_that_an_entry_has(steps: list[tuple[bool, int]]) -> None:
    one, model = _Tuple(0, 0), Counter[int]()
    for comes, priority in steps:
        if comes:
            one.add(priority)
            model[priority] += 1
        elif model[priority]:
            one.drop(priority)
            model[priority] -= 1
            assert one.best == max((kept for kept, count in model.items() if count), default=0)
    assert one.best == max((kept for kept, count in model.items() if count), default=0)
    assert one.unused == sum(not count for count in one.counts.values())
    assert sorted(one.counts) == sorted(-priority for priority in one.priorities)


def test_priorities_that_come_and_go_below_the_best_take_no_memory() -> None:
    one = _Tuple(0, 0)
    one.add(1_000_000)
    for priority in range(1, 10_000):
        for _ in range(3):
            one.add(priority)
            one.drop(priority)
        assert len(one.priorities) <= _MOST_UNUSED + 2
    assert one.best == 1_000_000
    one.drop(1_000_000)
    assert (one.best, one.priorities, one.counts, one.unused) == (0, [], {}, 0)
