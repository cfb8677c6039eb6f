# SPDX-License-Identifier: Apache-2.0
"""v1model's hash algorithms over bytes wherever they lie, compiled and as Python, are the interpreter's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from nicemu.hot import JIT, interpreted
from nicemu.kernels import sums
from nicemu.pipeline.checksums import crc16, exclusive_or, internet_checksum

REFERENCES: dict[Callable[..., int], Callable[[bytes], int]] = {
    sums.sum_csum16: internet_checksum,
    sums.sum_crc16: crc16,
    sums.sum_xor16: exclusive_or,
}


@given(st.binary(max_size=70), st.binary(max_size=70), st.integers(0, 8), st.integers(0, 8))
@example(b"", b"", 0, 0)
@example(b"\xff" * 40, b"\xff" * 33, 1, 3)
@example(bytes(9), bytes(16), 0, 7)
@example(b"\x00", b"\xff\xff" * 20, 5, 0)
def test_data_and_payload_are_summed_up_as_one(
    data: bytes, payload: bytes, before: int, between: int
) -> None:
    memory = np.frombuffer(bytes(before) + data + bytes(between) + payload + b"\xa5", np.uint8)
    first = memory.ctypes.data + before
    places = (first, len(data), first + len(data) + between, len(payload))
    given = [np.uint64(place) for place in places]
    for function, reference in REFERENCES.items():
        expected = reference(data + payload)
        assert int(interpreted(function)(*given)) == expected
        if JIT:
            assert int(function(*given)) == expected
