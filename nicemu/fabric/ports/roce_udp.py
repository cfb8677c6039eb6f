# SPDX-License-Identifier: Apache-2.0
"""A port that carries RoCEv2 frames over a UDP socket.

A socket carries UDP payloads, not headers, so headers are taken off when a frame is sent and put on again
when one is received. RoCEv2's ICRC covers IP addresses, IP identification and flags, and both UDP ports: the
receiver must put on the very bytes that the sender's ICRC was computed over. So the port carries only frames
with canonical headers, which are those that `nicemu.wire.RoceFramer` makes: source and destination port
4791, identification 0, don't-fragment set, no UDP checksum, and the addresses of the two NICs as configured.
TOS and TTL are outside the ICRC; they arrive as 0 and 64.

Frames to one peer go into few system calls, and come out of few: `udp_segments`.
Source: InfiniBand Architecture Specification Volume 1, Annex A17 "RoCEv2", "ICRC"; udp(7).
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from nicemu.wire import BATCH_FRAMES, ROCEV2_PORT, FrameBatch, make_template, parse_ipv4

from .port import MAX_FRAME_BYTES, BatchPort, check_batch
from .socket_calls import MESSAGE, PIECE
from .udp import UdpSocket
from .udp_segments import (
    CONTROL_BYTES,
    MAX_SEGMENTS,
    MESSAGE_ROOM_BYTES,
    NAME_BYTES,
    PIECES,
    RECEIVE_DROPS,
    SEND_DROPS,
    SHORTEST_EXPECTED,
    Incoming,
    Outgoing,
    receive_frames,
    send_frames,
)

# Not in Python's socket module. Source: Linux, include/uapi/linux/udp.h.
_UDP_SEGMENT, _UDP_GRO = 103, 104
_SEGMENT_CONTROL = (16 + 2, socket.IPPROTO_UDP | _UDP_SEGMENT << 32)
_NAME = struct.Struct("=H2s4s8x")
_RECEIVED_MESSAGES = 32


@dataclass(frozen=True, slots=True)
class UdpPeer:
    """A NIC behind a RoceUdpPort: its addresses in frames, and the socket address that reaches it."""

    mac: bytes
    ip: str
    host: str
    udp_port: int


class RoceUdpPort(BatchPort, UdpSocket):
    """Carries the RoCEv2 frames of NIC (`mac`, `ip`) to and from known peers.

    The socket is bound to `host` and `udp_port` (0: any free one; `udp_port` then tells which).
    """

    def __init__(
        self, mac: bytes, ip: str, host: str, udp_port: int = ROCEV2_PORT, peers: Iterable[UdpPeer] = ()
    ) -> None:
        BatchPort.__init__(self)
        UdpSocket.__init__(self, host, udp_port)
        self._mac, self._ip = mac, parse_ipv4(ip)
        with suppress(OSError):  # a kernel before 5.0: each datagram comes alone
            self._open_socket().setsockopt(socket.IPPROTO_UDP, _UDP_GRO, 1)
        self._peers: dict[str, UdpPeer] = {}
        self._names = self._templates = np.zeros(0, np.uint8)
        self._room = np.zeros(_RECEIVED_MESSAGES * MESSAGE_ROOM_BYTES, np.uint8)
        self.outgoing = self._new_outgoing(BATCH_FRAMES)
        self.incoming = self._new_incoming()
        """As `send_frames` and `receive_frames` have it; new ones after `add_peer`."""
        for peer in peers:
            self.add_peer(peer)

    def _new_outgoing(self, count: int) -> Outgoing:
        """Return room for the messages of `count` frames."""
        messages, pieces = np.zeros(count, MESSAGE), np.zeros(count, PIECE)
        controls = np.zeros((count, CONTROL_BYTES // 8), np.int64)
        controls[:, :2] = _SEGMENT_CONTROL
        messages["control"] = controls.ctypes.data + np.arange(count) * CONTROL_BYTES
        places = self._names.ctypes.data, MAX_SEGMENTS, messages.ctypes.data, pieces.ctypes.data
        return Outgoing(
            np.array([int.from_bytes(self._ip, "big"), *places], np.int64),
            np.zeros(0, np.int64),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            messages.view(np.recarray),
            pieces.view(np.recarray),
            controls,
            np.zeros(len(SEND_DROPS), np.int64),
        )

    def _new_incoming(self) -> Incoming:
        count = _RECEIVED_MESSAGES
        messages, pieces, numbers = (
            np.zeros(count, MESSAGE),
            np.zeros(count * PIECES, PIECE),
            np.arange(count),
        )
        names = np.zeros((count, NAME_BYTES // 8), np.int64)
        controls = np.zeros((count, CONTROL_BYTES // 8), np.int64)
        messages["name"] = names.ctypes.data + numbers * NAME_BYTES
        messages["control"] = controls.ctypes.data + numbers * CONTROL_BYTES
        places = int(self._room.ctypes.data), 0, messages.ctypes.data, pieces.ctypes.data
        return Incoming(
            np.array([0, 0, 0, *places, SHORTEST_EXPECTED], np.int64),
            np.zeros(0, np.int64),
            messages.view(np.recarray),
            pieces.view(np.recarray),
            controls,
            names,
            np.zeros(len(RECEIVE_DROPS), np.int64),
        )

    def add_peer(self, peer: UdpPeer) -> None:
        """Make a NIC reachable, and accept what its socket sends."""
        self._peers[peer.ip] = peer
        peers = list(self._peers.values())
        known = sorted((int.from_bytes(parse_ipv4(one.ip), "big"), _name(one)) for one in peers)
        self._names = np.frombuffer(b"".join(name for _, name in known), np.uint8)
        self.outgoing = self.outgoing._replace(peers=np.array([address for address, _ in known], np.int64))
        self.outgoing.words[1] = self._names.ctypes.data
        by_socket = {int.from_bytes(_name(one)[:8], sys.byteorder, signed=True): one for one in peers}
        keys = sorted(by_socket)
        templates = [
            make_template(by_socket[key].mac, self._mac, parse_ipv4(by_socket[key].ip), self._ip)
            for key in keys
        ]
        self._templates = np.frombuffer(b"".join(templates), np.uint8)
        self.incoming = self.incoming._replace(peers=np.array(keys, np.int64))
        self.incoming.words[4] = self._templates.ctypes.data

    def send_batch(self, batch: FrameBatch, first: int = 0) -> int:
        """Send BTH to ICRC of each frame; one whose headers are not canonical is counted and dropped."""
        fd = self._open_socket().fileno()
        check_batch(batch, first)
        if batch.count > len(self.outgoing.why):
            larger = self._new_outgoing(len(batch.offsets))
            self.outgoing = larger._replace(peers=self.outgoing.peers)
        offsets, lengths = batch.offsets[: batch.count], batch.lengths[: batch.count]
        reached = int(send_frames(fd, self.outgoing, batch.address, offsets, lengths, first))
        self._count(self.outgoing.dropped, SEND_DROPS)
        return reached - first

    def receive_batch(self, batch: FrameBatch, limit: int | None = None) -> int:
        """Receive frames of known peers, with the headers that their sender had."""
        fd = self._open_socket().fileno()
        most = len(batch.offsets) if limit is None else limit
        into = batch.address, len(batch.memory), batch.offsets, batch.lengths
        batch.count = int(receive_frames(fd, self.incoming, MAX_FRAME_BYTES, *into, most))
        self._count(self.incoming.dropped, RECEIVE_DROPS)
        return batch.count

    def _count(self, counts: np.ndarray[Any, Any], names: tuple[str, ...]) -> None:
        counts[0] = 0
        if counts.any():
            for number in counts.nonzero()[0].tolist():
                self.drops[names[number]] += int(counts[number])
            counts[:] = 0


def _name(peer: UdpPeer) -> bytes:
    """Return a peer's struct sockaddr_in."""
    return _NAME.pack(socket.AF_INET, peer.udp_port.to_bytes(2, "big"), parse_ipv4(peer.host))
