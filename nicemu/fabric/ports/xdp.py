# SPDX-License-Identifier: Apache-2.0
"""A port on a network interface over an AF_XDP socket: rings and memory that the kernel shares.

A frame may lie in several chunks of the memory, which Linux has since 6.6 (XDP_USE_SG): one of a path MTU of
4096 is longer than the longest chunk, a page. The socket copies, as every driver can.
Source: Linux, Documentation/networking/af_xdp.rst; include/uapi/linux/if_xdp.h.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import struct
from collections import Counter, deque

import numpy as np

from nicemu.errors import UsageError
from nicemu.pcie import Backing, load_u32, store_u32
from nicemu.wire import ETHERNET_HEADER_BYTES

from .interface import drop_reason, interface_mtu, require_ethernet
from .port import MAX_FRAME_BYTES, RECEIVE_LIMIT, ListPort, check_frames, closed
from .xdp_program import redirect_all

CHUNK_BYTES = 4096
RING_ENTRIES = 1024
_AF_XDP, _SOL_XDP = 44, 283
_OFFSETS, _RECEIVE, _SEND, _MEMORY, _FILL, _COMPLETION = range(1, 7)
_COPY, _USE_SG = 1 << 1, 1 << 4
_CONTINUED = 1
_PLACES = {_RECEIVE: 0, _SEND: 0x8000_0000, _FILL: 0x1_0000_0000, _COMPLETION: 0x1_8000_0000}
_LATER = frozenset({errno.EAGAIN, errno.EBUSY, errno.ENOBUFS})


class _Ring:
    """A ring that is shared with the kernel; each count has one writer, and only grows, modulo 2^32."""

    def __init__(
        self, xdp_socket: socket.socket, which: int, offsets: tuple[int, ...], entry: np.dtype
    ) -> None:
        producer, consumer, entries, _ = offsets
        length = entries + RING_ENTRIES * entry.itemsize
        self._map = mmap.mmap(xdp_socket.fileno(), length, mmap.MAP_SHARED, offset=_PLACES[which])
        whole = np.frombuffer(self._map, np.uint8)
        self.entries = whole[entries:].view(entry)
        self._producer, self._consumer = whole.ctypes.data + producer, whole.ctypes.data + consumer

    @property
    def produced(self) -> int:
        """Entries that were put in."""
        return int(load_u32(self._producer))

    @produced.setter
    def produced(self, count: int) -> None:
        store_u32(self._producer, count & 0xFFFFFFFF)

    @property
    def consumed(self) -> int:
        """Entries that were taken out."""
        return int(load_u32(self._consumer))

    @consumed.setter
    def consumed(self, count: int) -> None:
        store_u32(self._consumer, count & 0xFFFFFFFF)

    @property
    def held(self) -> int:
        """Entries that are in the ring."""
        return (self.produced - self.consumed) & 0xFFFFFFFF


_DESCRIPTOR = np.dtype([("address", "u8"), ("length", "u4"), ("options", "u4")])
_ADDRESS = np.dtype("u8")


class XdpPort(ListPort):
    """Carries frames to and from whatever is behind an interface, which is the port's alone meanwhile.

    This machine's kernel gets none of the frames that come to the interface's receive queue 0, and the port
    none of those of other queues: `ethtool -L INTERFACE combined 1` leaves one. Frames longer than the
    interface's MTU are counted as xdp.EMSGSIZE and lost.
    """

    def __init__(self, interface: str) -> None:
        """Open the port.

        Raises: UsageError if the interface is none, this process may not, or the kernel is older than 6.6.
        """
        self.drops: Counter[str] = Counter()
        self.address = f"xdp:{interface}"
        require_ethernet(interface)
        self._longest = min(MAX_FRAME_BYTES, interface_mtu(interface) + ETHERNET_HEADER_BYTES)
        self._memory = Backing.anonymous(2 * RING_ENTRIES * CHUNK_BYTES)
        self._pieces: list[bytes] = []
        try:
            opened = socket.socket(_AF_XDP, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        except OSError as error:
            self._memory.close()
            raise UsageError(f"AF_XDP is not to be had here: {error.strerror}; it needs root") from error
        try:
            self._set_up(opened, interface)
            self._held = redirect_all(interface, opened)
        except BaseException:
            opened.close()
            self._memory.close()
            raise
        self._socket: socket.socket | None = opened

    def _set_up(self, opened: socket.socket, interface: str) -> None:
        try:
            place, length = self._memory.address, self._memory.length_bytes
            opened.setsockopt(_SOL_XDP, _MEMORY, struct.pack("=QQIIII", place, length, CHUNK_BYTES, 0, 0, 0))
            for which in _PLACES:
                opened.setsockopt(_SOL_XDP, which, RING_ENTRIES)
            offsets = struct.unpack("=16Q", opened.getsockopt(_SOL_XDP, _OFFSETS, 128))
            self._received = _Ring(opened, _RECEIVE, offsets[0:4], _DESCRIPTOR)
            self._sent = _Ring(opened, _SEND, offsets[4:8], _DESCRIPTOR)
            self._fill = _Ring(opened, _FILL, offsets[8:12], _ADDRESS)
            self._completed = _Ring(opened, _COMPLETION, offsets[12:16], _ADDRESS)
            index = socket.if_nametoindex(interface)
            name = struct.pack("=HHIII", _AF_XDP, _COPY | _USE_SG, index, 0, 0)
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.bind(opened.fileno(), name, len(name)):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        except OSError as error:
            raise UsageError(
                f"AF_XDP cannot be had on {interface}: {error.strerror}; frames in chunks need Linux 6.6"
            ) from error
        self._fill.entries[:] = np.arange(RING_ENTRIES) * CHUNK_BYTES
        self._fill.produced = RING_ENTRIES
        self._free = deque(range(RING_ENTRIES * CHUNK_BYTES, 2 * RING_ENTRIES * CHUNK_BYTES, CHUNK_BYTES))

    def send(self, frames: list[bytes]) -> int:
        """Send frames in order until the ring, or the memory for it, is full."""
        opened = self._open_socket()
        check_frames(frames)
        accepted = 0
        for frame in frames:
            if len(frame) > self._longest:
                self.drops["xdp.EMSGSIZE"] += 1
            elif not self._put(frame):
                self._kick(opened)
                if not self._put(frame):
                    break
            accepted += 1
        self._kick(opened)
        return accepted

    def _put(self, frame: bytes) -> bool:
        """Put a frame into the ring; False if there is no room."""
        pieces = range(0, len(frame), CHUNK_BYTES)
        ring, tail = self._sent, self._sent.produced
        if len(self._free) < len(pieces) or ring.held + len(pieces) > RING_ENTRIES:
            return False
        for start in pieces:
            piece, place = frame[start : start + CHUNK_BYTES], self._free.popleft()
            self._memory.view[place : place + len(piece)] = piece
            more = _CONTINUED if start + CHUNK_BYTES < len(frame) else 0
            ring.entries[tail % RING_ENTRIES] = (place, len(piece), more)
            tail += 1
        ring.produced = tail
        return True

    def _kick(self, opened: socket.socket) -> None:
        """Have the kernel send what is in the ring, and take back the memory of what it has sent."""
        while before := self._sent.held:
            try:
                opened.send(b"")
            except OSError as error:
                if error.errno not in _LATER:
                    self.drops[drop_reason("xdp", error)] += 1
                    break
            if self._sent.held == before:
                break
        ring = self._completed
        head, count = ring.consumed, ring.held
        self._free.extend(int(ring.entries[(head + n) % RING_ENTRIES]) for n in range(count))
        ring.consumed = head + count

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Return frames that came in; longer ones are counted."""
        self._open_socket()
        frames: list[bytes] = []
        ring, head, left = self._received, self._received.consumed, self._received.held
        tail = self._fill.produced
        while left and len(frames) < limit:
            entry = ring.entries[head % RING_ENTRIES]
            place, length = int(entry["address"]), int(entry["length"])
            self._pieces.append(bytes(self._memory.view[place : place + length]))
            self._fill.entries[tail % RING_ENTRIES] = place - place % CHUNK_BYTES
            head, tail, left = head + 1, tail + 1, left - 1
            if not entry["options"] & _CONTINUED:
                frame, self._pieces = b"".join(self._pieces), []
                if ETHERNET_HEADER_BYTES <= len(frame) <= MAX_FRAME_BYTES:
                    frames.append(frame)
                else:
                    self.drops["xdp.length"] += 1
        ring.consumed, self._fill.produced = head, tail
        return frames

    def fileno(self) -> int | None:
        """The socket's descriptor."""
        return self._open_socket().fileno()

    def close(self) -> None:
        """Take the program off the interface, and give rings and memory back."""
        opened, self._socket = self._socket, None
        if opened is not None:
            for fd in self._held:
                os.close(fd)
            opened.close()
            del self._received, self._sent, self._fill, self._completed
            self._memory.close()

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise closed(self.address)
        return self._socket
