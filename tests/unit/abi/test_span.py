# SPDX-License-Identifier: Apache-2.0
"""Pieces of memory: whole numbers, cut as a sequence is, never beyond the memory's end."""

from __future__ import annotations

import numpy as np
import pytest

from nicemu.abi import RemoteSpan, Sge, Span
from nicemu.errors import UsageError

LOCAL, REMOTE = Span(0x1000, 100, 7), RemoteSpan(3, 0x9000, 100, 8)


def test_a_piece_of_memory_is_cut_as_a_sequence_is() -> None:
    assert LOCAL[10:30] == Span(0x100A, 20, 7)
    assert LOCAL[90:] == LOCAL[-10:] == Span(0x105A, 10, 7)
    assert REMOTE[10:30] == RemoteSpan(3, 0x900A, 20, 8)
    assert LOCAL[10:30][5:].sge() == Sge(0x100F, 15, 7)
    assert LOCAL[-30:-20] == Span(0x1046, 10, 7)
    assert LOCAL[np.int64(10) : np.uint8(30)] == LOCAL[10:30]
    assert LOCAL[:] == LOCAL


@pytest.mark.parametrize("part", [slice(30, 30), slice(30, 10), slice(0, 100, 2), slice(90, 0, -1)])
def test_what_is_no_piece_of_memory_is_refused(part: slice) -> None:
    for span in (LOCAL, REMOTE):
        with pytest.raises(UsageError, match="of 100 are no piece of memory"):
            span[part]


@pytest.mark.parametrize(
    "part",
    [slice(100, 200), slice(0, 101), slice(-101, None), slice(0.5, 8), slice("a", 8), slice(False, True)],
)
def test_a_piece_ends_within_its_memory(part: slice) -> None:
    for span in (LOCAL, REMOTE):
        with pytest.raises(UsageError, match="of a piece is a whole number, -100 to 100, not"):
            span[part]


@pytest.mark.parametrize("part", [5, "a", None, (1, 2)])
def test_a_piece_has_a_start_and_a_stop(part: object) -> None:
    for span in (LOCAL, REMOTE):
        with pytest.raises(UsageError, match=r"a piece of memory is span\[start:stop\], in bytes"):
            span[part]  # type: ignore[index]


@pytest.mark.parametrize("value", [-1, 1 << 64, 0.5, "1", None, True])
@pytest.mark.parametrize("field", ["address", "length_bytes", "key"])
def test_a_span_consists_of_whole_numbers(field: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"{field} of a span is a whole number"):
        Span(**{"address": 1, "length_bytes": 1, "key": 1, field: value})  # type: ignore[arg-type]
    far = "rkey" if field == "key" else field
    with pytest.raises(UsageError, match=f"{far} of a remote span is a whole number"):
        RemoteSpan(**{"qp_num": 1, "address": 1, "length_bytes": 1, "rkey": 1, far: value})  # type: ignore[arg-type]


def test_numpy_s_numbers_in_a_span_become_plain_ones() -> None:
    span = Span(np.uint64(0x1000), np.int32(100), np.uint32(7))  # type: ignore[arg-type]
    assert span == LOCAL
    assert [type(value) for value in (span.address, span.length_bytes, span.key)] == [int] * 3
