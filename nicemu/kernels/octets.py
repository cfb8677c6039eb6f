# SPDX-License-Identifier: Apache-2.0
"""Bytes on raw addresses, one or eight: plain Python here, an LLVM instruction inside a hot function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from nicemu.hot import Int, extend


def load_byte(address: Int, place: Int) -> Int:
    """Load the byte number `place` of those from an address on."""
    return ctypes.c_uint8.from_address(int(address) + int(place)).value


def load_octets(address: Int, place: Int) -> Int:
    """Load the eight bytes number `place` of those from an address on, wherever that is; the first is lowest.

    A loop over places reads one vector after the other, which one over addresses does not.
    """
    return int.from_bytes(ctypes.string_at(int(address) + 8 * int(place), 8), "little")


def _register() -> None:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic, overload

    def loading(bits: int) -> Any:  # noqa: ANN401
        """Return an intrinsic that loads behind a pointer to the address.

        A sum of address and place is no pointer to anything for LLVM, if it takes the place for the pointer.
        """

        def load(typing: Any, address: Any, place: Any) -> Any:  # noqa: ANN401
            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
                base = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
                number = builder.load(builder.gep(base, [args[1]]), align=1)
                return builder.zext(number, ir.IntType(64)) if bits < 64 else number

            return types.uint64(types.uint64, types.uint64), codegen

        return intrinsic(load)

    byte, octets = loading(8), loading(64)

    def load_byte_in(address: Any, place: Any) -> Callable[..., Any]:  # noqa: ANN401
        return lambda address, place: byte(types.uint64(address), types.uint64(place))

    def load_octets_in(address: Any, place: Any) -> Callable[..., Any]:  # noqa: ANN401
        return lambda address, place: octets(types.uint64(address), types.uint64(place))

    overload(load_byte, strict=False)(load_byte_in)
    overload(load_octets, strict=False)(load_octets_in)


extend(_register)
