# SPDX-License-Identifier: Apache-2.0
"""Calls of machine code by its address: plain Python here, an LLVM instruction inside a hot function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from nicemu.hot import Int, extend


def call_machine_code(address: Int, first: Int, second: Int, third: Int, fourth: Int) -> Int:
    """Call the function at an address with four words; return its word, of no account if it has none."""
    words = [ctypes.c_uint64] * 4
    function = ctypes.CFUNCTYPE(ctypes.c_uint64, *words)(int(address))
    return int(function(int(first), int(second), int(third), int(fourth)))


def _register() -> None:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic, overload

    def call(typing: Any, address: Any, first: Any, second: Any, third: Any, fourth: Any) -> Any:  # noqa: ANN401
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            word = ir.IntType(64)
            kind = ir.FunctionType(word, [word] * 4).as_pointer()
            return builder.call(builder.inttoptr(args[0], kind), args[1:])

        return types.uint64(*[types.uint64] * 5), codegen

    instruction = intrinsic(call)

    def call_in(address: Any, first: Any, second: Any, third: Any, fourth: Any) -> Callable[..., Any]:  # noqa: ANN401
        return lambda address, first, second, third, fourth: instruction(
            types.uint64(address),
            types.uint64(first),
            types.uint64(second),
            types.uint64(third),
            types.uint64(fourth),
        )

    overload(call_machine_code, strict=False)(call_in)


extend(_register)
