# SPDX-License-Identifier: Apache-2.0
"""A port that is the other end of a TAP interface: this machine's kernel, and what it forwards, at one end.

Source: Linux, Documentation/networking/tuntap.rst.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections import Counter
from contextlib import suppress

from nicemu.errors import UsageError
from nicemu.wire import ETHERNET_HEADER_BYTES

from .interface import bring_up, drop_reason, packed_name
from .port import MAX_FRAME_BYTES, RECEIVE_LIMIT, ListPort, check_frames, closed

DEVICE = "/dev/net/tun"
TAP_MTU = 4300
"""Bytes of an IP packet: a path MTU of 4096 and RoCEv2's headers fit."""
_TUNSETIFF = 0x400454CA
_TAP, _NO_HEADER = 0x0002, 0x1000


class TapPort(ListPort):
    """Carries frames to and from the kernel's end of TAP interface `name`.

    An interface that does not exist is made, and goes with the port; that needs root (CAP_NET_ADMIN). One
    that exists (`ip tuntap add dev NAME mode tap user USER`) is open to its user. With rights it is brought
    up with `mtu_bytes`; addresses are given to it with ip(8).
    """

    def __init__(self, name: str, mtu_bytes: int = TAP_MTU) -> None:
        """Open the port.

        Raises: UsageError if there is no TAP here, another program has the interface, or this one may not.
        """
        self.drops: Counter[str] = Counter()
        self._fd: int | None = None
        self._is_gone = False
        request = struct.pack("16sH22x", packed_name(name), _TAP | _NO_HEADER)
        try:
            fd = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"{DEVICE} cannot be opened: {error.strerror}") from error
        try:
            answer = fcntl.ioctl(fd, _TUNSETIFF, request)
            self.name = answer[:16].rstrip(b"\0").decode()
            with suppress(PermissionError):
                bring_up(self.name, mtu_bytes)
        except OSError as error:
            os.close(fd)
            cure = {
                errno.EPERM: f"use sudo, or as root: ip tuntap add dev {name} mode tap user $USER",
                errno.EBUSY: "another program has it",
                errno.EINVAL: "it is no TAP interface",
            }.get(error.errno or 0, "")
            raise UsageError(f"TAP interface {name} cannot be had: {error.strerror}; {cure}") from error
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        self.address = f"tap:{self.name}"

    def send(self, frames: list[bytes]) -> int:
        """Hand frames to the kernel; those that it refuses (the interface is down or gone) are counted."""
        fd = self._open()
        check_frames(frames)
        if self._is_gone:
            self.drops["tap.interface_gone"] += len(frames)
            return len(frames)
        for accepted, frame in enumerate(frames):
            try:
                os.write(fd, frame)
            except BlockingIOError:
                return accepted
            except OSError as error:
                self.drops[drop_reason("tap", error)] += 1
        return len(frames)

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Return frames that the kernel has sent."""
        fd = self._open()
        frames: list[bytes] = []
        while len(frames) < limit:
            try:
                frame = os.read(fd, MAX_FRAME_BYTES + 1)
            except BlockingIOError:
                break
            except OSError as error:
                self.drops[drop_reason("tap", error)] += 1
                if error.errno == errno.EBADFD:
                    self._retire(fd)
                break
            if ETHERNET_HEADER_BYTES <= len(frame) <= MAX_FRAME_BYTES:
                frames.append(frame)
            else:
                self.drops["tap.length"] += 1
        return frames

    def _retire(self, fd: int) -> None:
        """Give a device whose interface was deleted back: it would be readable, without a frame, for ever.

        The descriptor, which somebody may wait for, is one that is never readable from now on.
        """
        never = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        os.dup2(never, fd, inheritable=False)
        os.close(never)
        self._is_gone = True

    def fileno(self) -> int | None:
        """The device's descriptor."""
        return self._open()

    def close(self) -> None:
        """Close the device; an interface that was made for the port goes with it."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _open(self) -> int:
        if self._fd is None:
            raise closed(self.address)
        return self._fd
