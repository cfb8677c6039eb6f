# SPDX-License-Identifier: Apache-2.0
"""CRC-32 over raw memory: each way to compute it, held against zlib over every length and alignment."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from nicemu.hot import JIT
from nicemu.wire import crc32, crc32_copy, icrc, icrc32

pytestmark = pytest.mark.skipif(
    not JIT, reason="NICEMU_JIT=0: there is no compiled code to hold against zlib"
)
ROOM = 1 << 16
DATA = np.frombuffer(random.Random(1).randbytes(ROOM), np.uint8)
SOURCE = DATA.ctypes.data
ALIGNMENTS = (0, 1, 3, 8, 13, 15)


class Ways(NamedTuple):
    """The three functions, compiled for some processor."""

    crc32: Callable[..., int]
    crc32_copy: Callable[..., int]
    icrc32: Callable[..., int]


def features() -> set[str]:
    import llvmlite.binding

    return {name for name, there in llvmlite.binding.get_host_cpu_features().items() if there}


@pytest.fixture(scope="module", params=[0, 1, 2, 4], ids=["tables", "128 bits", "256 bits", "512 bits"])
def ways(request: pytest.FixtureRequest) -> Ways:
    import numba

    from nicemu.wire.crc_compiled import implementations

    needed = {0: set(), 1: {"pclmul"}, 2: {"vpclmulqdq", "avx2"}, 4: {"vpclmulqdq", "avx512f"}}[request.param]
    if not needed <= features():
        pytest.skip(f"this processor has no {', '.join(sorted(needed - features()))}")
    return Ways(*(numba.njit(function) for function in implementations(request.param)))


def test_every_length_and_alignment_gives_what_zlib_gives(ways: Ways) -> None:
    for length in (*range(301), 511, 512, 513, 1024, 4096, 4111, 9000, ROOM - 16):
        for start in ALIGNMENTS:
            expected = zlib.crc32(DATA[start : start + length].tobytes(), 0x89ABCDEF)
            assert ways.crc32(0x89ABCDEF, SOURCE + start, length) == expected


def test_a_copy_is_whole_and_nothing_beside_it_changes(ways: Ways) -> None:
    target = np.zeros(ROOM, np.uint8)
    for length in (*range(301), 4096, 9001):
        for start, place in zip(ALIGNMENTS, reversed(ALIGNMENTS), strict=True):
            target[: length + 64] = 0xA5
            crc = ways.crc32_copy(7, target.ctypes.data + 16 + place, SOURCE + start, length)
            copied = DATA[start : start + length].tobytes()
            assert crc == zlib.crc32(copied, 7)
            guards = b"\xa5" * (16 + place), b"\xa5" * (48 - place)
            assert target[: length + 64].tobytes() == guards[0] + copied + guards[1]


def test_a_crc_goes_on_where_another_ended(ways: Ways) -> None:
    rng = random.Random(2)
    for _ in range(300):
        length = rng.choice([100, 5000, 60_000])
        parts = sorted(rng.randrange(length + 1) for _ in range(rng.randrange(4)))
        crc, begin = 0, 0
        for end in (*parts, length):
            crc = ways.crc32(crc, SOURCE + begin, end - begin)
            begin = end
        assert crc == zlib.crc32(DATA[:length].tobytes())


def test_the_icrc_masks_what_changes_on_the_way(ways: Ways) -> None:
    for length in (*range(301), 1024, 4096, 4100):
        for start in ALIGNMENTS:
            frame = DATA[start : start + 54 + length].tobytes()
            expected = int.from_bytes(icrc(frame[14:34], frame[34:42], [frame[42:]]), "little")
            assert ways.icrc32(SOURCE + start, length) == expected == icrc32(SOURCE + start, length)


def test_the_plain_functions_say_the_same(ways: Ways) -> None:
    target = np.zeros(400, np.uint8)
    for length in range(301):
        assert crc32(3, SOURCE + 1, length) == ways.crc32(3, SOURCE + 1, length)
        assert crc32_copy(3, target.ctypes.data, SOURCE + 1, length) == ways.crc32(3, SOURCE + 1, length)
        assert target[:length].tobytes() == DATA[1 : 1 + length].tobytes()


@pytest.mark.parametrize(
    ("machine", "names", "lanes"),
    [
        ("x86_64", "+sse4.1,+pclmul,+avx2,+vpclmulqdq,+avx512f", 4),
        ("x86_64", "+pclmul,+avx2,+vpclmulqdq,-avx512f", 2),
        ("x86_64", "+pclmul,+avx2,-vpclmulqdq,+avx512f", 1),
        ("x86_64", "-pclmul,+avx2", 0),
        ("x86_64", "", 0),
        ("aarch64", "+pclmul", 0),
    ],
)
def test_the_processor_s_features_say_how_wide_it_is(machine: str, names: str, lanes: int) -> None:
    from nicemu.wire.crc_compiled import lanes_of

    assert lanes_of(machine, names) == lanes


def test_the_constants_are_those_of_the_white_paper() -> None:
    from nicemu.wire.crc_folding import barrett_constants, fold_constants

    assert fold_constants(4 * 128) == (0x154442BD4, 0x1C6E41596)
    assert fold_constants(128) == (0x1751997D0, 0x0CCAA009E)
    assert fold_constants(96)[1] == 0x163CD6124
    assert barrett_constants() == (0x1DB710641, 0x1F7011641)


def test_what_a_hot_function_calls_is_the_compiled_one() -> None:
    from nicemu.hot import hot

    @hot
    def both(target: Any, source: Any, length: Any) -> Any:  # noqa: ANN401
        return crc32(crc32_copy(0, target, source, length), source, length), icrc32(source, length)

    target = np.zeros(500, np.uint8)
    frame = DATA[:354].tobytes()
    twice = zlib.crc32(frame[:300], zlib.crc32(frame[:300]))
    masked = int.from_bytes(icrc(frame[14:34], frame[34:42], [frame[42:]]), "little")
    assert both(target.ctypes.data, SOURCE, 300) == (twice, masked)
    assert target[:300].tobytes() == frame[:300]
