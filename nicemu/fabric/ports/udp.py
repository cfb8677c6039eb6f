# SPDX-License-Identifier: Apache-2.0
"""Two ports over UDP sockets: RoCEv2 frames between NICs, and plain datagrams from and to anybody.

A socket carries UDP payloads, not headers, so headers are taken off when a frame is sent and put on again
when one is received. RoCEv2's ICRC covers IP addresses, IP identification and flags, and both UDP ports: the
receiver must put on the very bytes that the sender's ICRC was computed over. So `RoceUdpPort` carries only
frames with canonical headers, which are those that `nicemu.wire.RoceFramer` makes: source and destination
port 4791, identification 0, don't-fragment set, no UDP checksum, and the addresses of the two NICs as
configured. TOS and TTL are outside the ICRC; they arrive as 0 and 64.
Source: InfiniBand Architecture Specification Volume 1, Annex A17 "RoCEv2", "ICRC".
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from nicemu.errors import UsageError
from nicemu.wire import (
    ETHERNET_HEADER_BYTES,
    IPV4_HEADER_BYTES,
    ROCEV2_PORT,
    UDP_HEADER_BYTES,
    Ethernet,
    Ipv4,
    MalformedError,
    Udp,
    UdpFrame,
    encode_udp_frame,
    format_ipv4,
    parse_ipv4,
    verify_udp_checksum,
)

from .port import MAX_FRAME_BYTES, RECEIVE_LIMIT, check_frames, closed

SOCKET_BUFFER_BYTES = 4 << 20
_DATAGRAM_BYTES = 65_535
# Not in Python's socket module before 3.13. Source: Linux, include/uapi/linux/in.h.
_IP_MTU_DISCOVER = 10
_IP_PMTUDISC_DO = 2


@dataclass(frozen=True, slots=True)
class UdpPeer:
    """A NIC behind a RoceUdpPort: its addresses in frames, and the socket address that reaches it."""

    mac: bytes
    ip: str
    host: str
    udp_port: int


class _Socket:
    """A non-blocking UDP socket, with what both ports do alike."""

    def __init__(self, host: str, udp_port: int) -> None:
        self._socket: socket.socket | None = None
        self.drops: Counter[str] = Counter()
        parse_ipv4(host)
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            opened.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
            opened.bind((host, udp_port))
        except OSError as error:
            opened.close()
            raise UsageError(f"UDP {host}:{udp_port} cannot be opened: {error.strerror}") from error
        self._socket = opened
        self.host: str
        self.udp_port: int
        self.host, self.udp_port = opened.getsockname()

    @property
    def address(self) -> str:
        """Host and UDP port of the socket."""
        return f"udp:{self.host}:{self.udp_port}"

    def fileno(self) -> int | None:
        """The socket's descriptor."""
        return self._open_socket().fileno()

    def close(self) -> None:
        """Close the socket."""
        opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise closed(self.address)
        return self._socket

    def _send_to(self, payload: memoryview, destination: tuple[str, int]) -> bool:
        """Send one datagram; False if the socket's buffer is full. What the kernel refuses is counted."""
        try:
            self._open_socket().sendto(payload, destination)
        except BlockingIOError:
            return False
        except OSError:
            self.drops["udp.refused"] += 1
        return True

    def _receive_from(self, limit: int) -> list[tuple[bytes, tuple[str, int]]]:
        """Return up to `limit` datagrams with their senders."""
        opened = self._open_socket()
        taken: list[tuple[bytes, tuple[str, int]]] = []
        while len(taken) < limit:
            try:
                taken.append(opened.recvfrom(_DATAGRAM_BYTES))
            except BlockingIOError:
                break
            except OSError:
                self.drops["udp.receive_error"] += 1
                break
        return taken


class RoceUdpPort(_Socket):
    """Carries the RoCEv2 frames of NIC (`mac`, `ip`) to and from known peers.

    The socket is bound to `host` and `udp_port` (0: any free one; `udp_port` then tells which).
    """

    def __init__(
        self, mac: bytes, ip: str, host: str, udp_port: int = ROCEV2_PORT, peers: Iterable[UdpPeer] = ()
    ) -> None:
        super().__init__(host, udp_port)
        self._mac = mac
        self._ip = parse_ipv4(ip)
        self._by_ip: dict[bytes, tuple[str, int]] = {}
        self._by_socket: dict[tuple[str, int], UdpPeer] = {}
        for peer in peers:
            self.add_peer(peer)

    def add_peer(self, peer: UdpPeer) -> None:
        """Make a NIC reachable, and accept what its socket sends."""
        socket_address = (format_ipv4(parse_ipv4(peer.host)), peer.udp_port)
        self._by_ip[parse_ipv4(peer.ip)] = socket_address
        self._by_socket[socket_address] = peer

    def send(self, frames: list[bytes]) -> int:
        """Send BTH to ICRC of each frame; one whose headers are not canonical is counted and dropped."""
        self._open_socket()
        check_frames(frames)
        for accepted, frame in enumerate(frames):
            try:
                parts = UdpFrame.decode(frame)
            except MalformedError as error:
                self.drops[error.reason] += 1
                continue
            if parts.ip.source != self._ip or not _is_canonical(parts):
                self.drops["udp.not_canonical"] += 1
                continue
            destination = self._by_ip.get(parts.ip.destination)
            if destination is None:
                self.drops["udp.unknown_destination"] += 1
            elif not self._send_to(parts.payload, destination):
                return accepted
        return len(frames)

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Return frames of known peers, with the headers that their sender had."""
        frames = []
        for payload, sender in self._receive_from(limit):
            peer = self._by_socket.get(sender)
            if peer is None:
                self.drops["udp.unknown_sender"] += 1
                continue
            length = UDP_HEADER_BYTES + len(payload)
            if len(payload) > MAX_FRAME_BYTES - ETHERNET_HEADER_BYTES - IPV4_HEADER_BYTES - UDP_HEADER_BYTES:
                self.drops["udp.too_long"] += 1
                continue
            ethernet = Ethernet(self._mac, peer.mac)
            ip = Ipv4(parse_ipv4(peer.ip), self._ip, IPV4_HEADER_BYTES + length)
            udp = Udp(ROCEV2_PORT, ROCEV2_PORT, length)
            frames.append(b"".join((ethernet.encode(), ip.encode(), udp.encode(), payload)))
        return frames


def _is_canonical(parts: UdpFrame) -> bool:
    ip, udp = parts.ip, parts.udp
    return (
        udp.source_port == udp.destination_port == ROCEV2_PORT
        and udp.checksum == 0
        and ip.identification == 0
        and ip.dont_fragment
    )


class RequestUdpPort(_Socket):
    """Carries plain datagrams: whoever sends to this socket is the frame's source, and can be answered.

    A received frame has the real addresses and UDP ports of both ends, and correct checksums. Its source MAC
    is made of the sender's IP address (02:00 and the four bytes). A frame that is sent must name this socket
    as its source, because a socket cannot speak for another one.
    """

    def __init__(self, mac: bytes, host: str, udp_port: int = 0) -> None:
        super().__init__(host, udp_port)
        if self.host == "0.0.0.0":
            self.close()
            raise UsageError("a request port is bound to the address that its frames carry, not to 0.0.0.0")
        self._mac = mac
        self._ip = parse_ipv4(self.host)

    def send(self, frames: list[bytes]) -> int:
        """Send each frame's UDP payload to its destination; what cannot be sent is counted and dropped."""
        self._open_socket()
        check_frames(frames)
        for accepted, frame in enumerate(frames):
            try:
                parts = UdpFrame.decode(frame)
                verify_udp_checksum(parts)
            except MalformedError as error:
                self.drops[error.reason] += 1
                continue
            if parts.ip.source != self._ip or parts.udp.source_port != self.udp_port:
                self.drops["udp.source"] += 1
                continue
            destination = (format_ipv4(parts.ip.destination), parts.udp.destination_port)
            if not self._send_to(parts.payload, destination):
                return accepted
        return len(frames)

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Return datagrams as frames; one that no frame can hold is counted and dropped."""
        frames = []
        for payload, (host, udp_port) in self._receive_from(limit):
            source = parse_ipv4(host)
            ethernet = Ethernet(self._mac, mac_of_host(source))
            frame = encode_udp_frame(ethernet, source, self._ip, udp_port, self.udp_port, payload)
            if len(frame) > MAX_FRAME_BYTES:
                self.drops["udp.too_long"] += 1
                continue
            frames.append(frame)
        return frames


def mac_of_host(ip: bytes) -> bytes:
    """Return the MAC address of frames from a socket at `ip`: locally administered, made of the address."""
    return b"\x02\x00" + ip
