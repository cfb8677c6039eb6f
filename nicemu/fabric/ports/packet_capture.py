# SPDX-License-Identifier: Apache-2.0
"""What passes on a network interface, with the kernel's time stamps: needs root (CAP_NET_RAW).

The kernel writes frames into a ring of blocks that is shared with this process (TPACKET_V3), so that a
capture costs no system call a frame and a burst of 16 MiB is not lost. What the kernel has left to the
interface, splitting and checksums, is done here (`segment_offload`).
Source: packet(7); Linux, Documentation/networking/packet_mmap.rst.
"""

from __future__ import annotations

import mmap
import socket
import struct
import time

from nicemu.capture import CapturedFrame
from nicemu.errors import UsageError
from nicemu.pcie import Backing, load_u32, store_u32

from .interface import is_up, require_ethernet
from .packet_socket import ALL_PROTOCOLS, SOL_PACKET, open_packet_socket
from .segment_offload import OFFLOAD_HEADER, finished_frames

RETIRE_MS = 10
"""A block that is not full is handed over after this time."""
_BLOCK_BYTES, _BLOCKS, _FRAME_BYTES = 1 << 18, 64, 1 << 14
_RX_RING, _STATISTICS, _VERSION, _VNET_HDR = 5, 6, 10, 15
_TPACKET_V3 = 2
_STATUS_AT, _COUNT_AT, _FIRST_AT = 8, 12, 16
_HEADER = struct.Struct("=IIIIIIHHIIHH")  # struct tpacket3_hdr to tp_vlan_tpid
_PACKET_TYPE_AT = 48 + 10  # sll_pkttype of the struct sockaddr_ll behind it
_OUTGOING = 4
_USER = 1
_VLAN_VALID, _VLAN_TPID_VALID = 1 << 4, 1 << 6
_MAC_BYTES = 12
_NS_PER_S = 1_000_000_000
_LAST_BLOCK_S = 5 * RETIRE_MS / 1000
"""How long frames may still come out of the ring once their interface was deleted."""


class PacketCapture:
    """Sees every frame on an interface, in and out. On the loopback interface each is told once.

    An interface that is switched off is waited for; one that is deleted ends the capture.
    """

    def __init__(self, interface: str) -> None:
        """Begin to capture.

        Raises: UsageError if the interface is none, or this process may not.
        """
        self.interfaces = (interface,)
        is_loopback = require_ethernet(interface)  # what goes out there comes in
        self._socket: socket.socket | None = open_packet_socket(
            interface, outgoing=not is_loopback, bind=False
        )
        try:
            ring = struct.pack(
                "7I",
                _BLOCK_BYTES,
                _BLOCKS,
                _FRAME_BYTES,
                _BLOCK_BYTES // _FRAME_BYTES * _BLOCKS,
                RETIRE_MS,
                0,
                0,
            )
            self._socket.setsockopt(SOL_PACKET, _VERSION, _TPACKET_V3)
            self._socket.setsockopt(SOL_PACKET, _VNET_HDR, 1)
            self._socket.setsockopt(SOL_PACKET, _RX_RING, ring)
            mapped = mmap.mmap(self._socket.fileno(), _BLOCK_BYTES * _BLOCKS)
            self._ring = Backing(mapped, _BLOCK_BYTES * _BLOCKS, None)
            self._socket.bind((interface, ALL_PROTOCOLS))
        except OSError as error:
            self._socket.close()
            raise UsageError(f"no capture on {interface}: {error.strerror}") from error
        self._block = 0
        self._received = self._dropped = 0
        self._is_down = False
        self._gone_s: float | None = None
        self._news: list[str] = []
        self.ended = False
        """Whether nothing can come any more, because the interface was deleted."""
        self.unsplit = 0
        """Packets told as the kernel carries them, which the interface splits: see `finished_frames`."""

    @property
    def waits(self) -> bool:
        """Whether frames wait for something else than `filenos`: the last ones of a deleted interface do."""
        return self._gone_s is not None and not self.ended

    def news(self) -> list[str]:
        """Return sentences on what has become of the interface, each once; `receive` finds out."""
        news, self._news = self._news, []
        return news

    def receive(self) -> list[CapturedFrame]:
        """Return what has passed since the last call, oldest first; of very much, a part."""
        if self._socket is None:
            raise UsageError(f"the capture of {self.interfaces[0]} is closed")
        self._look_at_interface(self._socket)
        frames: list[CapturedFrame] = []
        for _ in range(_BLOCKS):
            base = self._block * _BLOCK_BYTES
            status = self._ring.address + base + _STATUS_AT
            if not int(load_u32(status)) & _USER:
                break
            self._read_block(base, frames)
            store_u32(status, 0)
            self._block = (self._block + 1) % _BLOCKS
        return frames

    def statistics(self) -> list[tuple[int, int]]:
        """Return how many frames have passed, and how many the kernel had no room for, since the start."""
        if self._socket is not None:
            answer = self._socket.getsockopt(SOL_PACKET, _STATISTICS, 12)
            received, dropped, _ = struct.unpack("=III", answer)  # they count from the last call on
            self._received += received
            self._dropped += dropped
        return [(self._received, self._dropped)]

    def filenos(self) -> list[int]:
        """Return a descriptor that is readable when frames can be had."""
        return [self._socket.fileno()] if self._socket is not None else []

    def close(self) -> None:
        """End the capture."""
        opened, self._socket = self._socket, None
        if opened is not None:
            self._ring.close()
            opened.close()

    def _look_at_interface(self, opened: socket.socket) -> None:
        # The error (ENETDOWN) keeps the descriptor readable until it is taken. It comes when the interface is
        # switched off, which comes before its deletion; that is then told by nothing but its name.
        failed = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
        if self._gone_s is not None:
            self.ended = self.ended or time.monotonic() >= self._gone_s + _LAST_BLOCK_S
        elif failed or self._is_down:
            (name,) = self.interfaces
            found = opened.getsockname()[0]  # of the socket's interface and namespace; it may be renamed
            was_down, self._is_down = self._is_down, not (found and is_up(opened, found))
            if not found:
                self._gone_s = time.monotonic()
                self._news.append(f"interface {name} was deleted: the capture ends")
            elif self._is_down and not was_down:
                self._news.append(f"interface {name} is down: the capture waits; ip link set {found} up")
            elif was_down and not self._is_down:
                self._news.append(f"interface {name} is up again: the capture goes on")

    def _read_block(self, base: int, frames: list[CapturedFrame]) -> None:
        view = self._ring.view
        (count,) = struct.unpack_from("=I", view, base + _COUNT_AT)
        (first,) = struct.unpack_from("=I", view, base + _FIRST_AT)
        place = base + first
        for _ in range(count):
            following, seconds, ns, kept, length, status, mac, _, _, tci, tpid, _ = _HEADER.unpack_from(
                view, place
            )
            outbound = view[place + _PACKET_TYPE_AT] == _OUTGOING
            data = bytes(view[place + mac : place + mac + kept])
            tag = b""
            if status & _VLAN_VALID:
                tag = struct.pack("!HH", tpid if status & _VLAN_TPID_VALID else 0x8100, tci)
            time_ns, cut = seconds * _NS_PER_S + ns, length - kept
            offload = OFFLOAD_HEADER.unpack_from(view, place + mac - OFFLOAD_HEADER.size)
            finished = None if cut else finished_frames(data, offload)
            if finished is None:
                self.unsplit += offload[1] != 0
                finished = [data]
            self._received += len(finished) - 1
            for one in finished:
                whole = one[:_MAC_BYTES] + tag + one[_MAC_BYTES:]
                frames.append(CapturedFrame(time_ns, outbound, whole, len(whole) + cut))
            place += following
