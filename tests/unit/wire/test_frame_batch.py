# SPDX-License-Identifier: Apache-2.0
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nicemu.wire import FrameBatch


@given(st.lists(st.binary(max_size=300), max_size=12))
def test_a_batch_holds_what_it_is_filled_with(frames: list[bytes]) -> None:
    batch = FrameBatch(1 << 13, 16)
    assert batch.fill(frames) == batch.count == len(frames)
    assert batch.frames() == frames
    assert batch.frames(3) == frames[3:]


def test_what_does_not_fit_is_left_out_with_all_that_follows() -> None:
    batch = FrameBatch(200, 8)
    assert batch.fill([b"a" * 100, b"b" * 100, b"c"]) == 1
    assert batch.frames() == [b"a" * 100]
    assert FrameBatch(200, 2).fill([b"a", b"b", b"c"]) == 2


def test_some_frames_are_kept_in_their_order() -> None:
    batch = FrameBatch()
    batch.fill([b"one", b"two", b"three"])
    batch.keep(np.array([True, False, True]))
    assert batch.frames() == [b"one", b"three"]
