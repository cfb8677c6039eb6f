# SPDX-License-Identifier: Apache-2.0
"""A network interface of this machine, as its kernel tells and sets it.

Source: netdevice(7).
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
from dataclasses import dataclass
from typing import Final

from nicemu.errors import UsageError

ARPHRD_ETHERNET, ARPHRD_LOOPBACK = 1, 772
_GET_FLAGS, _SET_FLAGS, _GET_MTU, _SET_MTU, _GET_ADDRESS = 0x8913, 0x8914, 0x8921, 0x8922, 0x8927
_UP, _RUNNING = 0x1, 0x40
_GONE: Final = (errno.ENXIO, errno.EBADFD)
"""What sockets and TAP devices say once their interface was deleted."""
_NAME_BYTES = 16
_REQUEST_BYTES = 40


def drop_reason(kind: str, error: OSError) -> str:
    """Return the name under which a port of that kind counts what the kernel did not take or give."""
    if error.errno in _GONE:
        return f"{kind}.interface_gone"
    return f"{kind}.{errno.errorcode.get(error.errno or 0, 'refused')}"


@dataclass(frozen=True, slots=True)
class Interface:
    """The interface that a port was opened on; `index` is of this one, not of a later one of that name."""

    name: str
    index: int

    @classmethod
    def of(cls, name: str) -> Interface:
        """Return the interface that has a name now. Raises: UsageError if none has."""
        try:
            return cls(name, socket.if_nametoindex(name))
        except OSError as error:
            raise UsageError(f"there is no interface {name!r} ({error.strerror})") from None

    @property
    def problem(self) -> str:
        """Why nothing comes and goes through it, and what to do; "" if nothing keeps it."""
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
                is_same = socket.if_nametoindex(self.name) == self.index
                flags = _flags(asked, self.name)
        except OSError:
            is_same, flags = False, 0
        if not is_same:
            return f"interface {self.name} was deleted; make it again, then stop the topology and start it"
        if not flags & _UP:
            return f"interface {self.name} is down: ip link set {self.name} up"
        if not flags & _RUNNING:
            return f"interface {self.name} has no carrier: nothing is at its other end"
        return ""


def is_up(asked: socket.socket, name: str) -> bool:
    """Return whether an interface of a socket's network namespace is there and switched on."""
    try:
        return bool(_flags(asked, name) & _UP)
    except OSError:
        return False


def _flags(asked: socket.socket, name: str) -> int:
    answer = fcntl.ioctl(asked, _GET_FLAGS, struct.pack(f"{_NAME_BYTES}s24x", packed_name(name)))
    return int(struct.unpack_from("H", answer, _NAME_BYTES)[0])


def packed_name(name: str) -> bytes:
    """Return an interface's name as the kernel takes it.

    Raises: UsageError for what is no name.
    """
    encoded = name.encode()
    if not 0 < len(encoded) < _NAME_BYTES or b"/" in encoded or b"\0" in encoded:
        raise UsageError(f"{name!r} is no name of an interface; it has 1 to {_NAME_BYTES - 1} letters")
    return encoded


def require_ethernet(name: str) -> bool:
    """Return whether an interface is the loopback interface; its frames have Ethernet headers in any case.

    Raises: UsageError if there is no such interface, or its frames have none.
    """
    request = struct.pack(f"{_NAME_BYTES}s24x", packed_name(name))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            answer = fcntl.ioctl(asked, _GET_ADDRESS, request)
        except OSError as error:
            names = ", ".join(sorted(name for _, name in socket.if_nameindex()))
            raise UsageError(f"there is no interface {name!r} ({error.strerror}); here are {names}") from None
    (kind,) = struct.unpack_from("H", answer, _NAME_BYTES)
    if kind not in (ARPHRD_ETHERNET, ARPHRD_LOOPBACK):
        raise UsageError(f"{name} carries no Ethernet frames (its hardware type is {kind}, not 1)")
    return bool(kind == ARPHRD_LOOPBACK)


def interface_mtu(name: str) -> int:
    """Return how long an IP packet on an interface may be, in bytes.

    Raises: UsageError if there is no such interface.
    """
    request = struct.pack(f"{_NAME_BYTES}s24x", packed_name(name))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            answer = fcntl.ioctl(asked, _GET_MTU, request)
        except OSError as error:
            raise UsageError(f"there is no interface {name!r} ({error.strerror})") from None
    return int(struct.unpack_from("i", answer, _NAME_BYTES)[0])


def bring_up(name: str, mtu_bytes: int) -> None:
    """Give an interface its MTU (bytes of an IP packet) and switch it on.

    Raises: PermissionError; UsageError if the kernel refuses the MTU.
    """
    packed = packed_name(name)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            fcntl.ioctl(asked, _SET_MTU, struct.pack(f"{_NAME_BYTES}si20x", packed, mtu_bytes))
        except PermissionError:
            raise
        except OSError as error:
            raise UsageError(f"{name} takes no MTU of {mtu_bytes} bytes: {error.strerror}") from None
        answer = fcntl.ioctl(asked, _GET_FLAGS, bytes(packed).ljust(_REQUEST_BYTES, b"\0"))
        (flags,) = struct.unpack_from("H", answer, _NAME_BYTES)
        fcntl.ioctl(asked, _SET_FLAGS, struct.pack(f"{_NAME_BYTES}sH22x", packed, flags | _UP))
