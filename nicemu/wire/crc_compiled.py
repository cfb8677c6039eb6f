# SPDX-License-Identifier: Apache-2.0
"""The functions of `crc` as compiled code; imported only when numba is.

With carry-less multiplication they fold (`crc_folding`), as wide as the processor can; elsewhere tables take
8 bytes a step. Which it is follows from the processor's features, under which numba keeps compiled code too.
Source of the tables: Kounavis and Berry, "A Systematic Approach to Building High Performance, Software-based,
CRC Generators" (2005), "slicing".
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic, overload, register_jitable

from . import crc
from .crc_folding import BLOCK_BYTES, Folding, Value

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_ONES_LOW = 0xFFFFFFFF_00000000
"""The first word, all ones, with the CRC's first value taken off."""
_ONES, _ONES_WORD = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF_FFFFFFFF)
_ZERO, _ONE, _THREE, _FOUR, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(4), np.uint64(8)
_SIXTEEN, _IN_BLOCKS = np.uint64(BLOCK_BYTES), np.uint64(0xFFFFFFFF_FFFFFFFF - (BLOCK_BYTES - 1))
_BYTE, _BYTE_TO_TOP = np.uint64(0xFF), np.uint64(24)
_IP, _BEHIND = 14, 54
_MASK_1, _MASK_2 = 0x0000FF00, 0xFFFF00FF  # TOS; TTL and the IPv4 header's checksum
_MASK_4, _MASK_5 = 0xFFFF0000, 0x000000FF  # the UDP checksum; the congestion byte
_MASKED = (np.uint64(_MASK_1), np.uint64(_MASK_2), np.uint64(0), np.uint64(_MASK_4), np.uint64(_MASK_5))


def lanes_of(machine: str, features: str) -> int:
    """Return how many 16-byte parts a vector of carry-less products has on a processor; 0: there are none."""
    has = {name[1:] for name in features.split(",") if name.startswith("+")}
    if machine != "x86_64" or "pclmul" not in has:
        return 0
    if not {"vpclmulqdq", "avx2"} <= has:
        return 1
    return 4 if "avx512f" in has else 2


def _load(kind: Any) -> Any:  # noqa: ANN401
    @intrinsic  # type: ignore[untyped-decorator]
    def function(typing: Any, address: Any) -> Any:  # noqa: ANN401
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            value = builder.load(builder.inttoptr(args[0], kind.as_pointer()), align=1)
            return value if kind.width == 64 else builder.zext(value, _I64)

        return types.uint64(types.uint64), codegen

    return function


def _store(kind: Any) -> Any:  # noqa: ANN401
    @intrinsic  # type: ignore[untyped-decorator]
    def function(typing: Any, address: Any, value: Any) -> Any:  # noqa: ANN401
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            narrow = args[1] if kind.width == 64 else builder.trunc(args[1], kind)
            builder.store(narrow, builder.inttoptr(args[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64), codegen

    return function


_load_1, _load_4, _load_8 = _load(_I8), _load(_I32), _load(_I64)
_store_1, _store_4, _store_8 = _store(_I8), _store(_I32), _store(_I64)


def _words(arguments: int, build: Callable[..., Value], lanes: int) -> Any:  # noqa: ANN401
    """Return an intrinsic from `arguments` words to a word, whose instructions `build` makes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        return build(Folding(builder, lanes), *args)

    signature = types.uint64(*[types.uint64] * arguments)
    if arguments == 1:
        return intrinsic(lambda typing, one: (signature, codegen))
    if arguments == 2:
        return intrinsic(lambda typing, one, two: (signature, codegen))
    if arguments == 3:
        return intrinsic(lambda typing, one, two, three: (signature, codegen))
    return intrinsic(lambda typing, one, two, three, four: (signature, codegen))


def _build_blocks(folding: Folding, seed: Value, source: Value, length: Value) -> Value:
    return folding.reduce(folding.blocks(folding.pair(seed, folding.word(0)), source, length))


def _build_copy(folding: Folding, seed: Value, target: Value, source: Value, length: Value) -> Value:
    pair = folding.pair(seed, folding.word(0))
    return folding.reduce(folding.blocks(pair, source, length, folding.minus(target, source)))


def _build_headers(folding: Folding, frame: Value, length: Value) -> Value:
    """The masked headers of a frame, and `length` bytes (a multiple of 16) behind them."""
    remainder = folding.pair(folding.word(_ONES_LOW), folding.masked(frame, _IP, _MASK_1))
    for offset, low, high in ((_IP + 8, _MASK_2, 0), (_IP + 24, _MASK_4, _MASK_5)):
        block = folding.pair(folding.masked(frame, offset, low), folding.masked(frame, offset + 8, high))
        remainder = folding.onto(remainder, block)
    return folding.reduce(folding.onto_blocks(remainder, folding.plus(frame, _BEHIND), length))


def _by_folding(lanes: int) -> tuple[Any, ...]:
    return (
        _words(3, _build_blocks, lanes),
        _words(4, _build_copy, lanes),
        _words(2, _build_headers, lanes),
        _words(1, Folding.reduce_8, lanes),
        _words(1, Folding.reduce_4, lanes),
    )


def _tables() -> np.ndarray[Any, Any]:
    """Return what a byte does to the CRC that stands 1 to 8 bytes before its end."""
    tables = np.zeros((8, 256), np.uint64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        tables[0, byte] = value
    for number in range(1, 8):
        before = tables[number - 1]
        tables[number] = before >> _EIGHT ^ tables[0][before & _BYTE]
    return tables


def _by_tables() -> tuple[Any, ...]:
    tables = _tables()

    @register_jitable  # type: ignore[untyped-decorator]
    def of_8(word: Any) -> Any:  # noqa: ANN401
        crc = _ZERO
        for number in range(8):
            crc ^= tables[7 - number, np.int64(word & _BYTE)]
            word >>= _EIGHT
        return crc

    @register_jitable  # type: ignore[untyped-decorator]
    def of_4(word: Any) -> Any:  # noqa: ANN401
        crc = _ZERO
        for number in range(4):
            crc ^= tables[3 - number, np.int64(word & _BYTE)]
            word >>= _EIGHT
        return crc

    @register_jitable  # type: ignore[untyped-decorator]
    def blocks(crc: Any, source: Any, length: Any) -> Any:  # noqa: ANN401
        end = source + length
        while source < end:
            crc = of_8(crc ^ _load_8(source))
            source += _EIGHT
        return crc

    @register_jitable  # type: ignore[untyped-decorator]
    def copy(crc: Any, target: Any, source: Any, length: Any) -> Any:  # noqa: ANN401
        end = source + length
        while source < end:
            word = _load_8(source)
            _store_8(target, word)
            crc = of_8(crc ^ word)
            source += _EIGHT
            target += _EIGHT
        return crc

    @register_jitable  # type: ignore[untyped-decorator]
    def headers(frame: Any, length: Any) -> Any:  # noqa: ANN401
        crc = of_8(_ONES_WORD ^ _ONES)
        for number in range(5):
            crc = of_8(crc ^ (_load_8(frame + np.uint64(_IP + 8 * number)) | _MASKED[number]))
        return blocks(crc, frame + np.uint64(_BEHIND), length)

    return blocks, copy, headers, of_8, of_4


def _finishing(of_8: Any, of_4: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return what continues a CRC over up to 15 bytes, without and with a copy."""

    @register_jitable  # type: ignore[untyped-decorator]
    def finish(crc: Any, source: Any, length: Any) -> Any:  # noqa: ANN401
        if length & _EIGHT:
            crc = of_8(crc ^ _load_8(source))
            source += _EIGHT
        if length & _FOUR:
            crc = of_4(crc ^ _load_4(source))
            source += _FOUR
        for _ in range(length & _THREE):
            crc = of_4((crc ^ _load_1(source)) << _BYTE_TO_TOP & _ONES) ^ crc >> _EIGHT
            source += _ONE
        return crc

    @register_jitable  # type: ignore[untyped-decorator]
    def finish_copy(crc: Any, target: Any, source: Any, length: Any) -> Any:  # noqa: ANN401
        crc = finish(crc, source, length)
        if length & _EIGHT:
            _store_8(target, _load_8(source))
            source += _EIGHT
            target += _EIGHT
        if length & _FOUR:
            _store_4(target, _load_4(source))
            source += _FOUR
            target += _FOUR
        for _ in range(length & _THREE):
            _store_1(target, _load_1(source))
            source += _ONE
            target += _ONE
        return crc

    return finish, finish_copy


def implementations(lanes: int) -> tuple[Any, Any, Any]:
    """Return crc32, crc32_copy and icrc32 for a processor, as functions that compiled code can call."""
    blocks, copy, headers, of_8, of_4 = _by_folding(lanes) if lanes else _by_tables()
    finish, finish_copy = _finishing(of_8, of_4)

    def crc32(crc: Any, address: Any, length_bytes: Any) -> Any:  # noqa: ANN401
        value, place, left = np.uint64(crc) ^ _ONES, np.uint64(address), np.uint64(length_bytes)
        if left >= _SIXTEEN:
            value = blocks(value, place, left & _IN_BLOCKS)
            place += left & _IN_BLOCKS
        return np.int64(finish(value, place, left & ~_IN_BLOCKS) ^ _ONES)

    def crc32_copy(crc: Any, target: Any, source: Any, length_bytes: Any) -> Any:  # noqa: ANN401
        value, place, left = np.uint64(crc) ^ _ONES, np.uint64(source), np.uint64(length_bytes)
        goal = np.uint64(target)
        if left >= _SIXTEEN:
            value = copy(value, goal, place, left & _IN_BLOCKS)
            place += left & _IN_BLOCKS
            goal += left & _IN_BLOCKS
        return np.int64(finish_copy(value, goal, place, left & ~_IN_BLOCKS) ^ _ONES)

    def icrc32(frame: Any, length_bytes: Any) -> Any:  # noqa: ANN401
        place, left = np.uint64(frame), np.uint64(length_bytes)
        value = headers(place, left & _IN_BLOCKS)
        place += np.uint64(_BEHIND) + (left & _IN_BLOCKS)
        return np.int64(finish(value, place, left & ~_IN_BLOCKS) ^ _ONES)

    return crc32, crc32_copy, icrc32


def register() -> None:
    """Make numba use these in place of the functions of `crc`."""
    features = config.CPU_FEATURES if config.CPU_FEATURES is not None else get_host_cpu_features()
    crc32, crc32_copy, icrc32 = implementations(lanes_of(platform.machine(), features))
    overload(crc.crc32, strict=False)(lambda crc, address, length_bytes: crc32)
    overload(crc.crc32_copy, strict=False)(lambda crc, target, source, length_bytes: crc32_copy)
    overload(crc.icrc32, strict=False)(lambda frame, length_bytes: icrc32)
