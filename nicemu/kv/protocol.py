# SPDX-License-Identifier: Apache-2.0
"""The KV request protocol: what a user's host, the compute NIC and the storage NICs say to each other over
UDP.

One message per datagram, big-endian: a header of 32 bytes, then `body_bytes` of body.

| bytes | field      |                                                     |
|-------|------------|-----------------------------------------------------|
| 0-1   | magic      | 0x4B56, "KV"                                        |
| 2     | version    | 1                                                   |
| 3     | kind       | a `Kind`                                            |
| 4-5   | body_bytes | 0 to 1400; a datagram ends where its body ends      |
| 6-7   | flags      | an `AnswerFlag` in an answer; else sent 0, not read |
| 8-15  | request_id | chosen by the asker, returned in the answer         |
| 16-31 | session    | names the conversation; the key of the P4 table     |

This protocol is nicemu's own; the storage NIC answers a fetch with RDMA writes, not with a message.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from nicemu.errors import ProtocolError, UsageError

from .chunk import CHUNK_KEY_BYTES, ChunkKey

KV_PORT = 0x4B56
"""UDP port 19286, the letters KV."""
KV_MAGIC = 0x4B56
KV_VERSION = 1
KV_HEADER_BYTES = 32
MAX_BODY_BYTES = 1400
SESSION_BYTES = 16

_HEADER = struct.Struct(">HBBHHQ16s")
_FETCH = struct.Struct(">16sQQIIII")


class Kind(enum.IntEnum):
    """What a message is."""

    REQUEST = 1
    ANSWER = 2
    FETCH_CHUNK = 3
    CHUNK_MISSING = 4


class AnswerFlag(enum.IntFlag):
    """What an answer says beside its body."""

    RESTORED = 1
    ERROR = 2


class KvProtocolError(ProtocolError):
    """A datagram that is no message of this protocol; `reason` is the name its drop is counted under."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Request:
    """A user's prompt, first or follow-up, as bytes of text."""

    request_id: int
    session: bytes
    prompt: bytes

    def encode(self) -> bytes:
        """Return the datagram. Raises: UsageError if a field does not fit."""
        return _message(Kind.REQUEST, self.request_id, self.session, self.prompt)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request.

    `restored`: the session's KV came back from storage. `error`: `body` says in words what failed.
    """

    request_id: int
    session: bytes
    body: bytes
    restored: bool = False
    error: bool = False

    def encode(self) -> bytes:
        """Return the datagram. Raises: UsageError if a field does not fit."""
        flags = (AnswerFlag.RESTORED if self.restored else 0) | (AnswerFlag.ERROR if self.error else 0)
        return _message(Kind.ANSWER, self.request_id, self.session, self.body, flags)


@dataclass(frozen=True, slots=True)
class FetchChunk:
    """Ask a storage NIC to write a chunk's K to `landing_k` and its V to `landing_v`, `segment_bytes` each.

    The landings are iovas that region `rkey` of NIC `requester` covers; `arrival_counter` there counts the
    arrival.
    """

    request_id: int
    session: bytes
    chunk_key: ChunkKey
    landing_k: int
    landing_v: int
    rkey: int
    arrival_counter: int
    segment_bytes: int
    requester: int

    def encode(self) -> bytes:
        """Return the datagram. Raises: UsageError if a field does not fit."""
        for name in ("landing_k", "landing_v"):
            _fits(name, getattr(self, name), 64)
        for name in ("rkey", "arrival_counter", "segment_bytes", "requester"):
            _fits(name, getattr(self, name), 32)
        body = _FETCH.pack(
            _key_bytes(self.chunk_key),
            self.landing_k,
            self.landing_v,
            self.rkey,
            self.arrival_counter,
            self.segment_bytes,
            self.requester,
        )
        return _message(Kind.FETCH_CHUNK, self.request_id, self.session, body)


@dataclass(frozen=True, slots=True)
class ChunkMissing:
    """A storage NIC's reply to a fetch of a chunk that it lacks; a fetch that succeeds has no reply."""

    request_id: int
    session: bytes
    chunk_key: ChunkKey

    def encode(self) -> bytes:
        """Return the datagram. Raises: UsageError if a field does not fit."""
        return _message(Kind.CHUNK_MISSING, self.request_id, self.session, _key_bytes(self.chunk_key))


Message = Request | Answer | FetchChunk | ChunkMissing


def decode(payload: bytes) -> Message:
    """Return the message that a UDP payload carries.

    Raises: KvProtocolError with reason `kv.too_short`, `kv.magic`, `kv.version`, `kv.kind` or `kv.body`, and
    no other error, whatever the bytes are.
    """
    if len(payload) < KV_HEADER_BYTES:
        raise KvProtocolError("kv.too_short", f"{len(payload)} bytes; a header has {KV_HEADER_BYTES}")
    magic, version, kind, body_bytes, flags, request_id, session = _HEADER.unpack_from(payload)
    if magic != KV_MAGIC:
        raise KvProtocolError("kv.magic", f"magic {magic:#06x}; a KV message starts with {KV_MAGIC:#06x}")
    if version != KV_VERSION:
        raise KvProtocolError("kv.version", f"version {version}; this end speaks version {KV_VERSION}")
    if not min(Kind) <= kind <= max(Kind):
        raise KvProtocolError("kv.kind", f"kind {kind}; kinds are {min(Kind):d} to {max(Kind):d}")
    body = bytes(payload[KV_HEADER_BYTES:])
    if body_bytes > MAX_BODY_BYTES or len(body) != body_bytes:
        raise KvProtocolError(
            "kv.body",
            f"the header announces {body_bytes} bytes of body, at most {MAX_BODY_BYTES}; {len(body)} follow",
        )
    if kind == Kind.REQUEST:
        return Request(request_id, session, body)
    if kind == Kind.ANSWER:
        return Answer(
            request_id,
            session,
            body,
            restored=bool(flags & AnswerFlag.RESTORED),
            error=bool(flags & AnswerFlag.ERROR),
        )
    if kind == Kind.FETCH_CHUNK:
        _body_is("a chunk fetch", body, _FETCH.size)
        key, landing_k, landing_v, rkey, counter, segment_bytes, requester = _FETCH.unpack(body)
        return FetchChunk(
            request_id,
            session,
            ChunkKey(int.from_bytes(key, "big")),
            landing_k=landing_k,
            landing_v=landing_v,
            rkey=rkey,
            arrival_counter=counter,
            segment_bytes=segment_bytes,
            requester=requester,
        )
    _body_is("a missing-chunk reply", body, CHUNK_KEY_BYTES)
    return ChunkMissing(request_id, session, ChunkKey(int.from_bytes(body, "big")))


def _message(kind: Kind, request_id: int, session: bytes, body: bytes, flags: int = 0) -> bytes:
    _fits("request_id", request_id, 64)
    if len(session) != SESSION_BYTES:
        raise UsageError(f"a session id has {SESSION_BYTES} bytes; this one has {len(session)}")
    if len(body) > MAX_BODY_BYTES:
        raise UsageError(f"a body of {len(body)} bytes; one datagram carries {MAX_BODY_BYTES}, so shorten it")
    return _HEADER.pack(KV_MAGIC, KV_VERSION, kind, len(body), flags, request_id, session) + body


def _key_bytes(key: ChunkKey) -> bytes:
    _fits("chunk_key", key, 8 * CHUNK_KEY_BYTES)
    return key.to_bytes(CHUNK_KEY_BYTES, "big")


def _fits(name: str, value: int, width_bits: int) -> None:
    if not 0 <= value < 1 << width_bits:
        raise UsageError(f"{name} is {value:#x}; it must be an unsigned number of {width_bits} bits")


def _body_is(what: str, body: bytes, expected_bytes: int) -> None:
    if len(body) != expected_bytes:
        raise KvProtocolError(
            "kv.body", f"{what} has a body of {expected_bytes} bytes; this one has {len(body)}"
        )
