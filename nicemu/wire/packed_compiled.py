# SPDX-License-Identifier: Apache-2.0
"""The functions of `packed` as LLVM instructions; imported only when numba is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from . import packed

_I64 = ir.IntType(64)


def _swapped(builder: Any, value: Any) -> Any:  # noqa: ANN401
    """Return a number in the other byte order."""
    width = value.type.width
    if width == 8:
        return value
    kind = ir.FunctionType(value.type, [value.type])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.bswap.i{width}")
    return builder.call(function, [value])


def _place(builder: Any, address: Any, bits: int) -> Any:  # noqa: ANN401
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _loading(bits: int) -> Callable[..., Any]:
    result = types.uint64 if bits == 64 else types.int64

    @intrinsic  # type: ignore[untyped-decorator]
    def load(typing: Any, address: Any) -> Any:  # noqa: ANN401
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            value = _swapped(builder, builder.load(_place(builder, args[0], bits), align=1))
            return value if bits == 64 else builder.zext(value, _I64)

        return result(types.uint64), codegen

    def compiled(address: Any) -> Any:  # noqa: ANN401
        return lambda address: load(types.uint64(address))

    return compiled


def _storing(bits: int) -> Callable[..., Any]:
    @intrinsic  # type: ignore[untyped-decorator]
    def store(typing: Any, address: Any, value: Any) -> Any:  # noqa: ANN401
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            value = args[1] if bits == 64 else builder.trunc(args[1], ir.IntType(bits))
            builder.store(_swapped(builder, value), _place(builder, args[0], bits), align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64), codegen

    def compiled(address: Any, value: Any) -> Any:  # noqa: ANN401
        return lambda address, value: store(types.uint64(address), types.uint64(value))

    return compiled


def register() -> None:
    """Make numba use these in place of the functions of `packed`."""
    for bits, load, store in (
        (8, packed.load_u8, packed.store_u8),
        (16, packed.load_be16, packed.store_be16),
        (32, packed.load_be32, packed.store_be32),
        (64, packed.load_be64, packed.store_be64),
    ):
        overload(load, strict=False)(_loading(bits))
        overload(store, strict=False)(_storing(bits))
