# SPDX-License-Identifier: Apache-2.0
"""The BPF program that hands an interface's frames to an AF_XDP socket, loaded without a compiler.

Source: Linux, Documentation/bpf/standardization/instruction-set.rst; include/uapi/linux/bpf.h; bpf(2).
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct

from nicemu.errors import UsageError

_SYSCALLS = {"x86_64": 321, "aarch64": 280}
_MAP_CREATE, _MAP_UPDATE, _PROG_LOAD, _LINK_CREATE = 0, 2, 5, 28
_TYPE_XSKMAP, _TYPE_XDP, _ATTACH_XDP, _HAS_FRAGS = 17, 6, 37, 1 << 5
_PASS, _REDIRECT_MAP = 2, 51
_IN_DRIVER, _IN_STACK = 1 << 2, 1 << 1
_ATTRIBUTE_BYTES = 128


def redirect_all(interface: str, xdp_socket: socket.socket) -> list[int]:
    """Have the frames of an interface's queue 0 go to a socket; others go where they went.

    Returns descriptors: the first one is the link, and the program goes when all are closed.
    Raises: UsageError if the kernel refuses, or another program is there.
    """
    held: list[int] = []
    try:
        held.append(_bpf(_MAP_CREATE, struct.pack("=IIII", _TYPE_XSKMAP, 4, 4, 1)))
        key, value = ctypes.c_uint32(0), ctypes.c_uint32(xdp_socket.fileno())
        places = ctypes.addressof(key), ctypes.addressof(value)
        _bpf(_MAP_UPDATE, struct.pack("=IIQQQ", held[0], 0, *places, 0))
        held.insert(0, _load(held[0]))
        held.insert(0, _attach(held[0], socket.if_nametoindex(interface)))
    except OSError as error:
        for fd in held:
            os.close(fd)
        raise UsageError(
            f"no program can be put on {interface}: {os.strerror(error.errno or 0)}; it needs root, a kernel "
            "with BPF, and an interface without another XDP program"
        ) from error
    return held


def _load(map_fd: int) -> int:
    """Load: return bpf_redirect_map(map, context->rx_queue_index, XDP_PASS)."""
    code = b"".join(
        struct.pack("=BBhi", operation, source << 4 | target, offset, immediate)
        for operation, target, source, offset, immediate in (
            (0x61, 2, 1, 16, 0),  # r2 = *(u32 *)(r1 + 16)
            (0x18, 1, 1, 0, map_fd),  # r1 = the map, in two places
            (0, 0, 0, 0, 0),
            (0xB7, 3, 0, 0, _PASS),  # r3 = XDP_PASS
            (0x85, 0, 0, 0, _REDIRECT_MAP),  # call
            (0x95, 0, 0, 0, 0),  # exit
        )
    )
    program, licence = (
        ctypes.create_string_buffer(code, len(code)),
        ctypes.create_string_buffer(b"Apache-2.0"),
    )
    places = ctypes.addressof(program), ctypes.addressof(licence)
    attributes = struct.pack("=IIQQIIQII", _TYPE_XDP, len(code) // 8, *places, 0, 0, 0, 0, _HAS_FRAGS)
    return _bpf(_PROG_LOAD, attributes)


def _attach(program: int, interface: int) -> int:
    """Attach in the driver where it can take frames in several pieces, else in the kernel's stack."""
    try:
        return _bpf(_LINK_CREATE, struct.pack("=IIII", program, interface, _ATTACH_XDP, _IN_DRIVER))
    except OSError:
        return _bpf(_LINK_CREATE, struct.pack("=IIII", program, interface, _ATTACH_XDP, _IN_STACK))


def _bpf(command: int, attributes: bytes) -> int:
    """Call bpf(2). Raises: OSError; UsageError on a machine whose number of the call is not known here."""
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        raise UsageError(
            f"AF_XDP is there on {' and '.join(_SYSCALLS)}; this machine is {platform.machine()}"
        )
    libc = ctypes.CDLL(None, use_errno=True)
    block = ctypes.create_string_buffer(attributes, _ATTRIBUTE_BYTES)
    done = int(libc.syscall(ctypes.c_long(number), command, block, _ATTRIBUTE_BYTES))
    if done < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return done
