# SPDX-License-Identifier: Apache-2.0
"""What carries the control messages of two NICs: a UNIX socket on one machine, TCP between machines.

Both carry JSON objects in order, or break. A UNIX socket lies in a folder of its owner's and carries
descriptors of memory too. A TCP connection starts with a proof from each side that it knows the topology's
key; it proves who calls, and hides nothing.
Source of the proof's construction: RFC 2104 "HMAC: Keyed-Hashing for Message Authentication".
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import struct
from typing import Any, Protocol

from nicemu.errors import ProtocolError

from .messages import MESSAGE_BYTES, receive, send

Message = tuple[dict[str, Any], list[int]]

NONCE_BYTES = PROOF_BYTES = 32
_LENGTH = struct.Struct("!I")
_KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


class Channel(Protocol):
    """Messages to and from one peer. Nothing here waits."""

    carries_memory: bool
    """Whether descriptors can go beside a message."""

    def fileno(self) -> int:
        """The descriptor that is readable when `receive` has something to do."""

    def send(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send a message. Raises: OSError if the peer is gone, or has not read for long."""

    def receive(self) -> list[Message] | None:
        """Return what has come in; None when the peer has closed.

        Raises: OSError for a broken connection, ProtocolError for what is no message.
        """

    def close(self) -> None:
        """Close it."""


class UnixChannel:
    """A SOCK_SEQPACKET connection; `link` is connected."""

    carries_memory = True

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        link.setblocking(False)

    @classmethod
    def call(cls, path: str) -> UnixChannel:
        """Connect to a NIC process. Raises: OSError if nobody listens there."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            link.connect(path)
        except OSError:
            link.close()
            raise
        return cls(link)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._link.fileno()

    def send(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one packet."""
        send(self._link, message, fds)

    def receive(self) -> list[Message] | None:
        """Take one packet."""
        received = receive(self._link)
        return None if received is None else [received]

    def close(self) -> None:
        """Close the socket."""
        self._link.close()


class TcpChannel:
    """A TCP connection whose two ends have to prove that they know `key` before a message passes.

    The listener sends a nonce; the caller answers with a nonce of its own and HMAC-SHA256(key, "caller" and
    both nonces); the listener answers with HMAC-SHA256(key, "listener" and both nonces). Then each message is
    its length in four bytes (network byte order) and a JSON object of at most 256 KiB.
    """

    carries_memory = False

    def __init__(self, link: socket.socket, key: bytes, *, calling: bool) -> None:
        self._link = link
        self._key = key
        self._calling = calling
        self._nonces = b"" if calling else secrets.token_bytes(NONCE_BYTES)
        self._proven = False
        self._received = bytearray()
        self._waiting: list[dict[str, Any]] = []
        link.setblocking(False)
        for option in _KEEP_ALIVE:
            link.setsockopt(*option)
        if not calling:
            self._transmit(self._nonces)

    @classmethod
    def call(cls, address: tuple[str, int], source: str, key: bytes) -> TcpChannel:
        """Begin to connect, from the address that the peer knows this NIC by. Raises: OSError."""
        link = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            link.bind((source, 0))
            link.connect(address)
        except BlockingIOError:
            pass
        except OSError:
            link.close()
            raise
        return cls(link, key, calling=True)

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._link.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def send(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send a message, or keep it until the peer has proven itself."""
        assert not fds, "descriptors cannot leave the machine"
        if not self._proven:
            self._waiting.append(message)
            return
        data = json.dumps(message).encode()
        self._transmit(_LENGTH.pack(len(data)) + data)

    def _transmit(self, data: bytes) -> None:
        if self._link.send(data) != len(data):
            raise BrokenPipeError("the peer does not read its control messages")

    def receive(self) -> list[Message] | None:
        """Take what has come in."""
        try:
            data = self._link.recv(MESSAGE_BYTES)
        except BlockingIOError:
            return []
        if not data:
            return None
        self._received += data
        if not self._proven and not self._prove():
            return []
        messages: list[Message] = []
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            if length > MESSAGE_BYTES:
                raise ProtocolError(f"a control message of {length} bytes; at most {MESSAGE_BYTES} are taken")
            if len(self._received) < _LENGTH.size + length:
                break
            messages.append((_decode(self._take(_LENGTH.size + length)[_LENGTH.size :]), []))
        return messages

    def _take(self, count: int) -> bytes:
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _proof(self, side: bytes) -> bytes:
        return hmac.digest(self._key, side + self._nonces, "sha256")

    def _prove(self) -> bool:
        """Take the next step of the proof; return whether the peer has proven itself.

        Raises: ProtocolError if it does not know the key.
        """
        if self._calling and not self._nonces:
            if len(self._received) < NONCE_BYTES:
                return False
            own = secrets.token_bytes(NONCE_BYTES)
            self._nonces = self._take(NONCE_BYTES) + own
            self._transmit(own + self._proof(b"caller"))
        wanted = PROOF_BYTES if self._calling else NONCE_BYTES + PROOF_BYTES
        if len(self._received) < wanted:
            return False
        if not self._calling:
            self._nonces += self._take(NONCE_BYTES)
        other = b"listener" if self._calling else b"caller"
        if not hmac.compare_digest(self._take(PROOF_BYTES), self._proof(other)):
            raise ProtocolError("the peer does not know the topology's key")
        if not self._calling:
            self._transmit(self._proof(b"listener"))
        self._proven = True
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self.send(message)
        return True


def _decode(data: bytes) -> dict[str, Any]:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ProtocolError(f"a control message is no JSON object: {data[:80]!r}")
    return message
