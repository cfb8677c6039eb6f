# SPDX-License-Identifier: Apache-2.0
"""Free extents agree with a map of one bit per block."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import ResourceError, UsageError
from nicemu.kv.extents import FreeExtents

FIRST, COUNT = 10, 24


def first_fit(free: list[bool], count: int) -> int | None:
    return next((start for start in range(COUNT - count + 1) if all(free[start : start + count])), None)


@given(
    st.lists(
        st.tuples(st.sampled_from(["take", "take_at", "release"]), st.integers(5, 38), st.integers(1, 9))
    )
)
def test_free_extents_agree_with_a_map_of_the_blocks(steps: list[tuple[str, int, int]]) -> None:
    extents = FreeExtents(FIRST, COUNT)
    free = [True] * COUNT
    for operation, start, count in steps:
        low, high = start - FIRST, start - FIRST + count
        inside = low >= 0 and high <= COUNT
        if operation == "take":
            expected = first_fit(free, count)
            if expected is None:
                with pytest.raises(ResourceError, match=f"no run of {count} data blocks"):
                    extents.take(count)
                continue
            assert extents.take(count) == FIRST + expected
            free[expected : expected + count] = [False] * count
        elif operation == "take_at":
            possible = inside and all(free[low:high])
            assert extents.take_at(start, count) == possible
            if possible:
                free[low:high] = [False] * count
        elif inside and not any(free[low:high]):
            extents.release(start, count)
            free[low:high] = [True] * count
        else:
            with pytest.raises(UsageError, match="not all taken"):
                extents.release(start, count)
        assert extents.free_blocks == sum(free)
        longest = max(len(run) for run in "".join(" x"[is_free] for is_free in free).split(" "))
        assert extents.largest_run == longest


def test_an_impossible_range_or_count_is_refused() -> None:
    with pytest.raises(UsageError):
        FreeExtents(0, 0)
    with pytest.raises(UsageError):
        FreeExtents(-1, 4)
    with pytest.raises(UsageError):
        FreeExtents(0, 4).take(0)
    assert not FreeExtents(0, 4).take_at(1, 0)
