# SPDX-License-Identifier: Apache-2.0
"""Single bytes on raw addresses: plain Python here, an LLVM instruction inside a hot function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from nicemu.hot import Int, extend


def load_byte(address: Int) -> Int:
    """Load one byte."""
    return ctypes.c_uint8.from_address(int(address)).value


def _register() -> None:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic, overload

    def load(typing: Any, address: Any) -> Any:  # noqa: ANN401
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            byte = builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()))
            return builder.zext(byte, ir.IntType(64))

        return types.uint64(types.uint64), codegen

    instruction = intrinsic(load)

    def load_in(address: Any) -> Callable[..., Any]:  # noqa: ANN401
        return lambda address: instruction(types.uint64(address))

    overload(load_byte, strict=False)(load_in)


extend(_register)
