# SPDX-License-Identifier: Apache-2.0
"""A port on a network interface that has frames as they would be on a cable: needs root (CAP_NET_RAW).

Where the other end is this machine's kernel, as behind a veth pair, it leaves to an interface that is none
what a card does: checksums, splitting into segments, the VLAN tag. A socket that asks for it is told with
each packet what is left to be done, and it is done here (`segment_offload`).
Source: packet(7), "PACKET_AUXDATA"; Linux, include/uapi/linux/if_packet.h, PACKET_VNET_HDR.
"""

from __future__ import annotations

import socket
import struct

import numpy as np

from nicemu.errors import UsageError
from nicemu.wire import FrameBatch

from .datagram import BUFFER_BYTES
from .frame_messages import SLOT_BYTES, drop_misfits, or_error
from .packet_socket import SOL_PACKET, PacketPort
from .port import MAX_FRAME_BYTES, closed
from .segment_offload import OFFLOAD_HEADER, finished_frames
from .socket_calls import MESSAGE, PIECE, receive_messages

AT_ONCE = 64
"""Packets that are received with one system call."""
_PACKET_AUXDATA, _PACKET_VNET_HDR = 8, 15
_LONGEST_BYTES = 1 << 16
"""What the kernel carries as one packet, and an interface would split. Source: GSO_LEGACY_MAX_SIZE."""
_HEADER_ROOM = 16
_NEEDS_CHECKSUM = 1
_CONTROL_BYTES = 40
"""struct cmsghdr, 16 bytes, with a struct tpacket_auxdata, 20."""
_STATUS_AT, _TCI_AT = 16, 32
_VLAN_VALID, _VLAN_TPID_VALID = 1 << 4, 1 << 6
_MAC_BYTES = 12


class FinishedPacketPort(PacketPort):
    """A PacketPort whose frames have their checksums and VLAN tags, and are no longer than the interface's.

    `drops` counts as "packet.unsplit" what cannot be split here: see `finished_frames`.
    """

    def __init__(self, interface: str, buffer_bytes: int = BUFFER_BYTES) -> None:
        """Open the port. Raises: as a PacketPort."""
        super().__init__(interface, buffer_bytes)
        self._sender: socket.socket | None = None
        self._pending: list[bytes] = []
        self._headers = np.zeros((AT_ONCE, _HEADER_ROOM), np.uint8)
        self._controls = np.zeros((AT_ONCE, _CONTROL_BYTES), np.uint8)
        self._rests = np.zeros((AT_ONCE, _LONGEST_BYTES), np.uint8)
        self._came = np.zeros(AT_ONCE, MESSAGE)
        self._places = np.zeros((AT_ONCE, 3), PIECE)
        self._came["pieces"] = self._places.ctypes.data + np.arange(AT_ONCE) * self._places.strides[0]
        self._came["piece_count"] = 3
        self._came["control"] = self._controls.ctypes.data + np.arange(AT_ONCE) * _CONTROL_BYTES
        for part, room in ((0, self._headers), (2, self._rests)):
            self._places[:, part]["address"] = room.ctypes.data + np.arange(AT_ONCE) * room.strides[0]
        self._places[:, 0]["length"] = OFFLOAD_HEADER.size
        self._places[:, 1]["length"] = MAX_FRAME_BYTES + 1
        self._places[:, 2]["length"] = _LONGEST_BYTES
        receiver = super()._open_socket()
        try:
            self._sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
            self._sender.bind((interface, 0))  # it receives nothing, and sends frames as they are
            receiver.setsockopt(SOL_PACKET, _PACKET_AUXDATA, 1)
            receiver.setsockopt(SOL_PACKET, _PACKET_VNET_HDR, 1)
        except OSError as error:
            self.close()
            raise UsageError(f"frames on {interface} cannot be had: {error.strerror}") from error

    def receive_batch(self, batch: FrameBatch, limit: int | None = None) -> int:
        """As a PacketPort does; of a packet that was split, the frames come one behind the other."""
        receiver = super()._open_socket().fileno()
        while not self._pending:
            try:
                came = self._receive(receiver, batch, limit)
            except BlockingIOError:
                return 0
            except OSError as error:  # ENETDOWN, once: the interface was switched off
                self._count(error)
                return 0
            if self._pending:
                break
            if wrong := drop_misfits(batch):
                self.drops["packet.length"] += wrong
            if batch.count or not came:
                return batch.count
        held = batch.fill(self._pending[:limit])
        del self._pending[:held]
        return held

    def _receive(self, receiver: int, batch: FrameBatch, limit: int | None) -> int:
        """Receive into a batch; or into `_pending`, if anything is left to be done. Return how many came."""
        most = min(AT_ONCE, len(batch.offsets), len(batch.memory) // SLOT_BYTES)
        count = most if limit is None else min(limit, most)
        batch.count = 0
        if count == 0:
            return 0
        batch.offsets[:count] = np.arange(count) * SLOT_BYTES
        self._places[:count, 1]["address"] = batch.address + batch.offsets[:count]
        self._came["control_bytes"] = _CONTROL_BYTES
        self._controls[:count] = 0
        came = or_error(receive_messages(receiver, self._came.ctypes.data, count))
        batch.count = came
        batch.lengths[:came] = self._came["length"][:came].astype(np.int64) - OFFLOAD_HEADER.size
        left = self._headers[:came, 0] & _NEEDS_CHECKSUM | self._headers[:came, 1]
        if (left | self._controls[:came, _STATUS_AT] & _VLAN_VALID).any():
            self._pending = [frame for place in range(came) for frame in self._finished(batch, place)]
            batch.count = 0
        return came

    def _finished(self, batch: FrameBatch, place: int) -> list[bytes]:
        """Return the frames that a packet is, without those that are none."""
        start, length = int(batch.offsets[place]), int(batch.lengths[place])
        room = MAX_FRAME_BYTES + 1
        data = batch.memory[start : start + min(length, room)].tobytes()
        data += self._rests[place, : max(0, length - room)].tobytes()
        frames = finished_frames(data, OFFLOAD_HEADER.unpack_from(self._headers[place]))
        if frames is None:
            self.drops["packet.unsplit"] += 1
            return []
        (status,) = struct.unpack_from("=I", self._controls[place], _STATUS_AT)
        if status & _VLAN_VALID:
            tci, tpid = struct.unpack_from("=HH", self._controls[place], _TCI_AT)
            tag = struct.pack("!HH", tpid if status & _VLAN_TPID_VALID else 0x8100, tci)
            frames = [frame[:_MAC_BYTES] + tag + frame[_MAC_BYTES:] for frame in frames]
        whole = [frame for frame in frames if _MAC_BYTES + 2 <= len(frame) <= MAX_FRAME_BYTES]
        if len(whole) < len(frames):
            self.drops["packet.length"] += len(frames) - len(whole)
        return whole

    def _sending(self) -> int:
        if self._sender is None:
            raise closed(self.address)
        return self._sender.fileno()

    def close(self) -> None:
        """Close both sockets."""
        super().close()
        opened, self._sender = self._sender, None
        if opened is not None:
            opened.close()
