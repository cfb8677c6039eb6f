# SPDX-License-Identifier: Apache-2.0
"""Many messages of a socket in one system call: sendmmsg(2) and recvmmsg(2) over arrays.

The arrays have the layout of Linux's structures on machines with 64-bit addresses. Each call is written
twice: here as plain Python (ctypes), and in `socket_calls_compiled` as numba puts it into hot functions.
Source: sendmmsg(2), recvmmsg(2), recv(2) "struct msghdr".
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from nicemu.hot import Int, extend

MESSAGE = np.dtype(
    [
        ("name", "i8"),
        ("name_bytes", "u4"),
        ("unused_0", "u4"),
        ("pieces", "i8"),
        ("piece_count", "i8"),
        ("control", "i8"),
        ("control_bytes", "i8"),
        ("received_flags", "i4"),
        ("unused_1", "u4"),
        ("length", "u4"),
        ("unused_2", "u4"),
    ]
)
"""struct mmsghdr; what is unsigned there fits signed numbers, which mix with plain integers."""
PIECE = np.dtype([("address", "i8"), ("length", "i8")])
"""struct iovec."""
DONT_WAIT = 0x40


@cache
def _calls() -> tuple[Any, Any]:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.sendmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
    libc.recvmmsg.argtypes = [*libc.sendmmsg.argtypes, ctypes.c_void_p]
    return libc.sendmmsg, libc.recvmmsg


def send_messages(fd: Int, messages: Int, count: Int) -> Int:
    """Send up to `count` messages, MESSAGE records at a raw address, without waiting; return how many.

    If not even the first one could be sent, that is the error's number, negative.
    """
    sent = int(_calls()[0](int(fd), int(messages), int(count), DONT_WAIT))
    return sent if sent >= 0 else -ctypes.get_errno()


def receive_messages(fd: Int, messages: Int, count: Int) -> Int:
    """Receive up to `count` messages that are there; return how many, or the error's number, negative."""
    came = int(_calls()[1](int(fd), int(messages), int(count), DONT_WAIT, None))
    return came if came >= 0 else -ctypes.get_errno()


def _register() -> None:
    from . import socket_calls_compiled

    socket_calls_compiled.register()


extend(_register)
