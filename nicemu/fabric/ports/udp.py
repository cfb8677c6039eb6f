# SPDX-License-Identifier: Apache-2.0
"""Ports over UDP sockets, which carry payloads: headers are taken off, and put on again.

Here are the socket, and the port for plain datagrams from and to anybody; `roce_udp` has RoCEv2's.
Source: RFC 768; udp(7).
"""

from __future__ import annotations

import socket
from collections import Counter

from nicemu.errors import UsageError
from nicemu.wire import (
    Ethernet,
    MalformedError,
    UdpFrame,
    encode_udp_frame,
    format_ipv4,
    parse_ipv4,
    verify_udp_checksum,
)

from .datagram import enlarge_buffers
from .port import MAX_FRAME_BYTES, RECEIVE_LIMIT, ListPort, check_frames, closed

SOCKET_BUFFER_BYTES = 4 << 20
_DATAGRAM_BYTES = 65_535
# Not in Python's socket module before 3.13. Source: Linux, include/uapi/linux/in.h.
_IP_MTU_DISCOVER = 10
_IP_PMTUDISC_DO = 2


class UdpSocket:
    """A non-blocking UDP socket, with what both ports do alike."""

    def __init__(self, host: str, udp_port: int) -> None:
        self._socket: socket.socket | None = None
        self.drops: Counter[str] = Counter()
        parse_ipv4(host)
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            opened.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
            enlarge_buffers(opened, SOCKET_BUFFER_BYTES)
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


class RequestUdpPort(ListPort, UdpSocket):
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
