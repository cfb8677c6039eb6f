# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.study.overflow.block_pool import BlockPool


def test_blocks_that_drain_are_free_when_they_have_drained_and_no_sooner() -> None:
    pool = BlockPool(10)
    pool.take(6)
    pool.release(4, 1.0, 3.0)
    pool.release(1, 1.0, 2.0)
    assert (pool.free, pool.held, pool.draining, pool.next_s) == (4, 1, 5, 2.0)
    assert pool.use == pytest.approx(0.6)
    pool.drain(2.5)
    assert (pool.free, pool.held, pool.draining, pool.next_s) == (5, 1, 4, 3.0)
    pool.drain(3.0)
    assert (pool.free, pool.draining, pool.next_s) == (9, 0, math.inf)


def test_blocks_that_have_left_already_are_free_at_once() -> None:
    pool = BlockPool(4)
    pool.take(4)
    pool.release(4, 5.0, 4.0)
    assert (pool.free, pool.draining) == (4, 0)


@given(
    st.lists(st.tuples(st.sampled_from(["take", "release", "drain"]), st.integers(0, 20), st.floats(0, 9)))
)
def test_free_held_and_draining_blocks_add_up_to_all(doings: list[tuple[str, int, float]]) -> None:
    pool, now_s = BlockPool(20), 0.0
    for doing, count, length_s in doings:
        if doing == "take":
            pool.take(min(count, pool.free))
        elif doing == "release":
            pool.release(min(count, pool.held), now_s, now_s + length_s)
        else:
            now_s += length_s
            pool.drain(now_s)
            assert pool.next_s > now_s
        assert min(pool.free, pool.held, pool.draining) >= 0
        assert pool.free + pool.held + pool.draining == 20
        assert 0 <= pool.use <= 1


@pytest.mark.parametrize("doing", ["take", "release"])
def test_blocks_that_are_not_there_are_a_fault_of_the_caller(doing: str) -> None:
    pool = BlockPool(4)
    pool.take(2)
    with pytest.raises(AssertionError, match="3 blocks of 2"):
        pool.take(3) if doing == "take" else pool.release(3, 0.0, 0.0)
