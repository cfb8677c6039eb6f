# SPDX-License-Identifier: Apache-2.0
"""The functions of `socket_calls` as calls of the C library; imported only when numba is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import overload

from nicemu.pcie import load_u32

from . import socket_calls
from .socket_calls import DONT_WAIT

_SEND = (types.int32, types.uintp, types.uint32, types.int32)
_sendmmsg = types.ExternalFunction("sendmmsg", types.int32(*_SEND))
_recvmmsg = types.ExternalFunction("recvmmsg", types.int32(*_SEND, types.uintp))
_errno_location = types.ExternalFunction("__errno_location", types.uintp())


def _send_in(fd: Any, messages: Any, count: Any) -> Callable[..., Any]:  # noqa: ANN401
    def compiled(fd: Any, messages: Any, count: Any) -> Any:  # noqa: ANN401
        done = _sendmmsg(types.int32(fd), types.uintp(messages), types.uint32(count), types.int32(DONT_WAIT))
        return types.int64(done) if done >= 0 else -types.int64(load_u32(_errno_location()))

    return compiled


def _receive_in(fd: Any, messages: Any, count: Any) -> Callable[..., Any]:  # noqa: ANN401
    def compiled(fd: Any, messages: Any, count: Any) -> Any:  # noqa: ANN401
        done = _recvmmsg(
            types.int32(fd),
            types.uintp(messages),
            types.uint32(count),
            types.int32(DONT_WAIT),
            types.uintp(0),
        )
        return types.int64(done) if done >= 0 else -types.int64(load_u32(_errno_location()))

    return compiled


def register() -> None:
    """Teach numba these functions; once is enough."""
    overload(socket_calls.send_messages)(_send_in)
    overload(socket_calls.receive_messages)(_receive_in)
