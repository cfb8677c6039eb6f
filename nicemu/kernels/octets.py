# SPDX-License-Identifier: Apache-2.0
"""Bytes on raw addresses, one or eight: plain Python here, an LLVM instruction inside a hot function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from nicemu.hot import Int, extend


def load_byte(address: Int) -> Int:
    """Load one byte."""
    return ctypes.c_uint8.from_address(int(address)).value


def load_octets(address: Int, place: Int) -> Int:
    """Load the eight bytes number `place` of those from an address on, wherever that is; the first is lowest.

    A loop over places reads one vector after the other, which one over addresses does not.
    """
    return int.from_bytes(ctypes.string_at(int(address) + 8 * int(place), 8), "little")


def _register() -> None:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic, overload

    def byte(typing: Any, address: Any) -> Any:  # noqa: ANN401
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            byte = builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()))
            return builder.zext(byte, ir.IntType(64))

        return types.uint64(types.uint64), codegen

    def octets(typing: Any, address: Any, place: Any) -> Any:  # noqa: ANN401
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            base = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
            return builder.load(builder.gep(base, [args[1]]), align=1)

        return types.uint64(types.uint64, types.uint64), codegen

    one, eight = intrinsic(byte), intrinsic(octets)

    def load_byte_in(address: Any) -> Callable[..., Any]:  # noqa: ANN401
        return lambda address: one(types.uint64(address))

    def load_octets_in(address: Any, place: Any) -> Callable[..., Any]:  # noqa: ANN401
        return lambda address, place: eight(types.uint64(address), types.uint64(place))

    overload(load_byte, strict=False)(load_byte_in)
    overload(load_octets, strict=False)(load_octets_in)


extend(_register)
