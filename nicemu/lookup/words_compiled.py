# SPDX-License-Identifier: Apache-2.0
"""The functions of `words` as LLVM instructions; imported only when numba is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from . import words

_I1, _I8, _I16, _I32, _I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
_I128 = ir.IntType(128)
_LANES = 16
_LINE = ir.VectorType(_I32, _LANES)
_ALL_SLOTS = (1 << words.SLOTS) - 1


def _words(arguments: int, build: Callable[..., Any], result: Any = types.uint64) -> Any:  # noqa: ANN401
    """Return an intrinsic of `arguments` words whose instructions `build` makes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        value = build(builder, *args)
        return context.get_dummy_value() if value is None else value

    signature = result(*[types.uint64] * arguments)
    if arguments == 0:
        return intrinsic(lambda typing: (signature, codegen))
    if arguments == 1:
        return intrinsic(lambda typing, one: (signature, codegen))
    if arguments == 2:
        return intrinsic(lambda typing, one, two: (signature, codegen))
    return intrinsic(lambda typing, one, two, three: (signature, codegen))


def _build_load(builder: Any, address: Any) -> Any:  # noqa: ANN401
    return builder.load(builder.inttoptr(address, _I64.as_pointer()), align=8)


def _build_word_of(builder: Any, words: Any, place: Any) -> Any:  # noqa: ANN401
    return builder.load(builder.gep(builder.inttoptr(words, _I64.as_pointer()), [place]), align=8)


def _build_fence(builder: Any) -> None:  # noqa: ANN401
    builder.fence("acquire")


def _build_prefetch(builder: Any, address: Any) -> None:  # noqa: ANN401
    pointer = _I8.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, _I32, _I32, _I32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
    read, keep, data = (ir.Constant(_I32, value) for value in (0, 3, 1))
    builder.call(function, [builder.inttoptr(address, pointer), read, keep, data])


def _build_multiply(builder: Any, one: Any, other: Any) -> Any:  # noqa: ANN401
    product = builder.mul(builder.zext(one, _I128), builder.zext(other, _I128))
    upper = builder.trunc(builder.lshr(product, ir.Constant(_I128, 64)), _I64)
    return builder.xor(upper, builder.trunc(product, _I64))


def _build_zeros(builder: Any, word: Any) -> Any:  # noqa: ANN401
    return builder.cttz(word, ir.Constant(_I1, 1))


def _build_matching(builder: Any, line: Any, wanted: Any, mask: Any) -> Any:  # noqa: ANN401
    slots = builder.load(builder.inttoptr(line, _LINE.as_pointer()), align=64)
    same = builder.icmp_unsigned("==", builder.and_(slots, _spread(builder, mask)), _spread(builder, wanted))
    bits = builder.zext(builder.bitcast(same, _I16), _I64)
    return builder.and_(bits, ir.Constant(_I64, _ALL_SLOTS))


def _spread(builder: Any, word: Any) -> Any:  # noqa: ANN401
    undefined = ir.Constant(_LINE, ir.Undefined)
    one = builder.insert_element(undefined, builder.trunc(word, _I32), ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(_LINE, [0] * _LANES))


_load = _words(1, _build_load)
_word_of_words = _words(2, _build_word_of)
_fence = _words(0, _build_fence, types.void)
_prefetch = _words(1, _build_prefetch, types.void)
_multiply = _words(2, _build_multiply)
_zeros = _words(1, _build_zeros)
_matching = _words(3, _build_matching)


def _load_in(address: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda address: _load(types.uint64(address))


def _word_of_in(words: Any, place: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda words, place: _word_of_words(types.uint64(words), types.uint64(place))


def _fence_in() -> Callable[..., Any]:
    return lambda: _fence()


def _prefetch_in(address: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda address: _prefetch(types.uint64(address))


def _multiply_in(one: Any, other: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda one, other: _multiply(types.uint64(one), types.uint64(other))


def _zeros_in(word: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda word: _zeros(types.uint64(word))


def _matching_in(line: Any, wanted: Any, mask: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda line, wanted, mask: _matching(types.uint64(line), types.uint64(wanted), types.uint64(mask))


def register() -> None:
    """Make numba use these in place of the functions of `words`."""
    for function, compiled in (
        (words.load_word, _load_in),
        (words.word_of, _word_of_in),
        (words.fence_loads, _fence_in),
        (words.prefetch, _prefetch_in),
        (words.multiply_fold, _multiply_in),
        (words.trailing_zeros, _zeros_in),
        (words.matching_slots, _matching_in),
    ):
        overload(function, strict=False)(compiled)
