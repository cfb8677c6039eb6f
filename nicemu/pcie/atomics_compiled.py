# SPDX-License-Identifier: Apache-2.0
"""The functions of `atomics` as LLVM instructions; imported only when numba is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from . import atomics

_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _pointer(builder: Any, address: Any, width: Any) -> Any:  # noqa: ANN401
    return builder.inttoptr(address, width.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def _load_u64(typing: Any, address: Any) -> Any:  # noqa: ANN401
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.load_atomic(_pointer(builder, args[0], _I64), "acquire", 8)

    return types.uint64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _load_u32(typing: Any, address: Any) -> Any:  # noqa: ANN401
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.load_atomic(_pointer(builder, args[0], _I32), "acquire", 4)

    return types.uint32(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _store_u64(typing: Any, address: Any, value: Any) -> Any:  # noqa: ANN401
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        builder.store_atomic(args[1], _pointer(builder, args[0], _I64), "release", 8)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _store_u32(typing: Any, address: Any, value: Any) -> Any:  # noqa: ANN401
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        builder.store_atomic(args[1], _pointer(builder, args[0], _I32), "release", 4)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint32), codegen


def _read_modify_write(operation: str) -> Any:  # noqa: ANN401
    @intrinsic  # type: ignore[untyped-decorator]
    def function(typing: Any, address: Any, value: Any) -> Any:  # noqa: ANN401
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
            return builder.atomic_rmw(operation, _pointer(builder, args[0], _I64), args[1], "seq_cst")

        return types.uint64(types.uint64, types.uint64), codegen

    return function


_fetch_add_u64 = _read_modify_write("add")
_exchange_u64 = _read_modify_write("xchg")


@intrinsic  # type: ignore[untyped-decorator]
def _compare_swap_u64(typing: Any, address: Any, expected: Any, value: Any) -> Any:  # noqa: ANN401
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        pair = builder.cmpxchg(_pointer(builder, args[0], _I64), args[1], args[2], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 0)

    return types.uint64(types.uint64, types.uint64, types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _fill_timespec(typing: Any, scratch: Any) -> Any:  # noqa: ANN401
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        function_type = ir.FunctionType(_I32, [_I32, _I64.as_pointer()])
        function = cgutils.get_or_insert_function(builder.module, function_type, "clock_gettime")
        builder.call(function, [ir.Constant(_I32, 1), _pointer(builder, args[0], _I64)])
        return context.get_dummy_value()

    return types.void(types.uint64), codegen


def _library_call(name: str, result: Any, *arguments: Any) -> Any:  # noqa: ANN401
    return types.ExternalFunction(name, result(*arguments))


_memmove = _library_call("memmove", types.uintp, types.uintp, types.uintp, types.uintp)
_usleep = _library_call("usleep", types.int32, types.uint32)
_write = _library_call("write", types.intp, types.int32, types.uintp, types.uintp)


def _load_u64_in(address: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda address: _load_u64(types.uint64(address))


def _load_u32_in(address: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda address: _load_u32(types.uint64(address))


def _store_u64_in(address: Any, value: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda address, value: _store_u64(types.uint64(address), types.uint64(value))


def _store_u32_in(address: Any, value: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda address, value: _store_u32(types.uint64(address), types.uint32(value))


def _fetch_add_in(address: Any, value: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda address, value: _fetch_add_u64(types.uint64(address), types.uint64(value))


def _exchange_in(address: Any, value: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda address, value: _exchange_u64(types.uint64(address), types.uint64(value))


def _compare_swap_in(address: Any, expected: Any, value: Any) -> Callable[..., Any]:  # noqa: ANN401
    return lambda address, expected, value: _compare_swap_u64(
        types.uint64(address), types.uint64(expected), types.uint64(value)
    )


def _copy_in(target: Any, source: Any, length_bytes: Any) -> Callable[..., Any]:  # noqa: ANN401
    def compiled(target: Any, source: Any, length_bytes: Any) -> None:  # noqa: ANN401
        _memmove(types.uintp(target), types.uintp(source), types.uintp(length_bytes))

    return compiled


def _monotonic_in(scratch: Any) -> Callable[..., Any]:  # noqa: ANN401
    def compiled(scratch: Any) -> Any:  # noqa: ANN401
        _fill_timespec(types.uint64(scratch))
        seconds = _load_u64(types.uint64(scratch))
        return seconds * types.uint64(1_000_000_000) + _load_u64(types.uint64(scratch + types.uint64(8)))

    return compiled


def _nap_in(duration_us: Any) -> Callable[..., Any]:  # noqa: ANN401
    def compiled(duration_us: Any) -> None:  # noqa: ANN401
        _usleep(types.uint32(duration_us))

    return compiled


def _signal_in(fd: Any, one: Any) -> Callable[..., Any]:  # noqa: ANN401
    def compiled(fd: Any, one: Any) -> None:  # noqa: ANN401
        _write(types.int32(fd), types.uintp(one), types.uintp(8))

    return compiled


def register() -> None:
    """Make numba use these in place of the functions of `atomics`."""
    for function, compiled in (
        (atomics.load_u64, _load_u64_in),
        (atomics.load_u32, _load_u32_in),
        (atomics.store_u64, _store_u64_in),
        (atomics.store_u32, _store_u32_in),
        (atomics.fetch_add_u64, _fetch_add_in),
        (atomics.exchange_u64, _exchange_in),
        (atomics.compare_swap_u64, _compare_swap_in),
        (atomics.copy_memory, _copy_in),
        (atomics.monotonic_ns, _monotonic_in),
        (atomics.nap_us, _nap_in),
        (atomics.signal_eventfd, _signal_in),
    ):
        overload(function, strict=False)(compiled)
