# SPDX-License-Identifier: Apache-2.0
"""A port on a network interface of this machine, over an AF_PACKET socket: needs root (CAP_NET_RAW).

Frames go one system call each. The kernel's rings were measured against that, on a veth pair, in
microseconds a frame of 1100 bytes: plain 2.3, TPACKET_V2 2.3, TPACKET_V3 1.9. But TPACKET_V3 holds a block
back until it is full or a timer of 1 ms has run out, and an acknowledgement that is 1 ms late costs a
requester more than that; so rings are for captures (`packet_capture`), not for ports.
Source: packet(7).
"""

from __future__ import annotations

import socket
import struct
from collections import Counter

from nicemu.errors import UsageError
from nicemu.wire import FrameBatch

from .datagram import BUFFER_BYTES, enlarge_buffers
from .frame_messages import FrameMessages, drop_misfits, is_full
from .interface import drop_reason, require_ethernet
from .port import BatchPort, check_batch, closed

ALL_PROTOCOLS = 0x0003
SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP, PACKET_IGNORE_OUTGOING = 1, 23
_PROMISCUOUS = 1


def open_packet_socket(interface: str, *, outgoing: bool, bind: bool = True) -> socket.socket:
    """Return a non-blocking socket for every frame on an interface, whatever its MAC address.

    `outgoing`: also for what this machine sends. Without `bind` it receives nothing yet.
    Raises: UsageError if the interface is none, or this process may not.
    """
    require_ethernet(interface)
    try:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    except PermissionError:
        raise UsageError(f"frames on {interface} need root (CAP_NET_RAW); use sudo") from None
    try:
        index = socket.if_nametoindex(interface)
        member = struct.pack("iHH8s", index, _PROMISCUOUS, 0, b"")
        opened.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, member)
        if not outgoing:
            opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        if bind:
            opened.bind((interface, ALL_PROTOCOLS))
    except OSError as error:
        opened.close()
        raise UsageError(f"frames on {interface} cannot be had: {error.strerror}") from error
    return opened


class PacketPort(BatchPort):
    """Carries frames to and from whatever is behind an interface; the interface is promiscuous meanwhile.

    The NIC must have another IP address than the interface, or the kernel answers in its place; who asks for
    that address is answered by an `AnsweringPort` above this port. VLAN tags are taken off by the kernel.
    """

    def __init__(self, interface: str, buffer_bytes: int = BUFFER_BYTES) -> None:
        """Open the port.

        Raises: UsageError if the interface is none, or this process may not.
        """
        super().__init__()
        self._messages = FrameMessages()
        self.drops: Counter[str] = Counter()
        self.address = f"packet:{interface}"
        self._socket: socket.socket | None = open_packet_socket(interface, outgoing=False)
        enlarge_buffers(self._socket, buffer_bytes)

    def send_batch(self, batch: FrameBatch, first: int = 0) -> int:
        """Send frames in order until the interface's queue is full; what the kernel refuses is counted."""
        fd = self._sending()
        check_batch(batch, first)
        reached = first
        while reached < batch.count:
            try:
                reached = self._messages.send(fd, batch, reached)
            except OSError as error:
                if is_full(error):
                    break
                self._count(error)
                reached += 1
        return reached - first

    def receive_batch(self, batch: FrameBatch, limit: int | None = None) -> int:
        """Receive frames that came in, also those for other MAC addresses; longer ones are counted."""
        fd = self._open_socket().fileno()
        while True:
            try:
                came = self._messages.receive(fd, batch, limit)
            except BlockingIOError:
                return 0
            except OSError as error:  # ENETDOWN, once: the interface was switched off
                self._count(error)
                return 0
            if wrong := drop_misfits(batch):
                self.drops["packet.length"] += wrong
            if batch.count or not came:
                return batch.count

    def _count(self, error: OSError) -> None:
        self.drops[drop_reason("packet", error)] += 1

    def fileno(self) -> int | None:
        """The socket's descriptor."""
        return self._open_socket().fileno()

    def close(self) -> None:
        """Close the socket."""
        opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()

    def _sending(self) -> int:
        """Return the descriptor that frames are sent by."""
        return self._open_socket().fileno()

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise closed(self.address)
        return self._socket
