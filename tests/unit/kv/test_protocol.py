# SPDX-License-Identifier: Apache-2.0
"""Every message survives its datagram; whatever else arrives is refused under a name."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import ProtocolError, UsageError
from nicemu.kv import (
    KV_HEADER_BYTES,
    KV_PORT,
    MAX_BODY_BYTES,
    Answer,
    ChunkKey,
    ChunkMissing,
    FetchChunk,
    KvProtocolError,
    Message,
    Request,
    decode,
)

SESSION = bytes(range(16))
KEY = ChunkKey(0x000102030405060708090A0B0C0D0E0F)
OUTCOMES = {"a message", "kv.too_short", "kv.magic", "kv.version", "kv.kind", "kv.body"}

u32, u64 = st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1)
sessions = st.binary(min_size=16, max_size=16)
bodies = st.binary(max_size=MAX_BODY_BYTES)
chunk_keys = st.builds(ChunkKey, st.integers(0, (1 << 128) - 1))
messages = st.one_of(
    st.builds(Request, u64, sessions, bodies),
    st.builds(Answer, u64, sessions, bodies, st.booleans(), st.booleans()),
    st.builds(FetchChunk, u64, sessions, chunk_keys, u64, u64, u32, u32, u32, u32),
    st.builds(ChunkMissing, u64, sessions, chunk_keys),
)


def outcome(payload: bytes) -> str:
    try:
        decode(payload)
    except KvProtocolError as error:
        return error.reason
    return "a message"


def reason(payload: bytes) -> str:
    with pytest.raises(KvProtocolError) as refused:
        decode(payload)
    assert isinstance(refused.value, ProtocolError)
    assert str(refused.value).startswith(refused.value.reason + ": ")
    return refused.value.reason


@given(messages)
def test_a_message_comes_out_of_its_datagram_as_it_went_in(message: Message) -> None:
    payload = message.encode()
    assert decode(payload) == message
    assert len(payload) <= KV_HEADER_BYTES + MAX_BODY_BYTES


@given(st.binary(max_size=100))
def test_any_bytes_are_a_message_or_refused_under_a_name(payload: bytes) -> None:
    assert outcome(payload) in OUTCOMES


@given(messages, st.data())
def test_a_damaged_datagram_is_a_message_or_refused_under_a_name(
    message: Message, data: st.DataObject
) -> None:
    payload = bytearray(message.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, min(len(payload), 80) - 1))] = data.draw(st.integers(0, 255))
    del payload[data.draw(st.integers(0, len(payload))) :]
    assert outcome(bytes(payload)) in OUTCOMES


def test_a_request_is_laid_out_as_documented() -> None:
    assert KV_PORT == 19286
    header = bytes.fromhex("4b56 01 01 0003 0000 1122334455667788") + SESSION
    assert Request(0x1122334455667788, SESSION, b"hey").encode() == header + b"hey"


def test_an_answer_carries_two_flags() -> None:
    assert Answer(1, SESSION, b"", restored=True).encode()[6:8] == b"\x00\x01"
    assert Answer(1, SESSION, b"no", error=True).encode()[6:8] == b"\x00\x02"


def test_a_chunk_fetch_is_laid_out_as_documented() -> None:
    fetch = FetchChunk(
        request_id=7,
        session=SESSION,
        chunk_key=KEY,
        landing_k=0xA1A2A3A4A5A6A7A8,
        landing_v=0xB1B2B3B4B5B6B7B8,
        rkey=0xC1C2C3C4,
        arrival_counter=5,
        segment_bytes=4096,
        requester=9,
    )
    payload = fetch.encode()
    assert payload[:8] == bytes.fromhex("4b56 01 03 0030 0000")
    assert payload[32:] == bytes(range(16)) + bytes.fromhex(
        "a1a2a3a4a5a6a7a8 b1b2b3b4b5b6b7b8 c1c2c3c4 00000005 00001000 00000009"
    )


def test_a_missing_chunk_reply_is_laid_out_as_documented() -> None:
    payload = ChunkMissing(7, SESSION, KEY).encode()
    assert payload == bytes.fromhex("4b56 01 04 0010 0000 0000000000000007") + SESSION + bytes(range(16))


def test_unknown_flags_are_not_read() -> None:
    payload = bytearray(Request(1, SESSION, b"hey").encode())
    payload[6:8] = b"\xff\xff"
    assert decode(bytes(payload)) == Request(1, SESSION, b"hey")


def test_each_fault_has_its_name() -> None:
    good = Request(1, SESSION, b"hey").encode()
    fetch = FetchChunk(1, SESSION, KEY, 0, 0, 0, 0, 1, 0).encode()
    missing = ChunkMissing(1, SESSION, KEY).encode()
    assert reason(b"") == "kv.too_short"
    assert reason(good[:31]) == "kv.too_short"
    assert reason(b"KW" + good[2:]) == "kv.magic"
    assert reason(good[:2] + b"\x02" + good[3:]) == "kv.version"
    assert reason(good[:3] + b"\x00" + good[4:]) == "kv.kind"
    assert reason(good[:3] + b"\x05" + good[4:]) == "kv.kind"
    assert reason(good[:-1]) == "kv.body"
    assert reason(good + b"!") == "kv.body"
    assert reason(good[:3] + b"\x03" + good[4:]) == "kv.body"
    assert reason(fetch[:4] + struct.pack(">H", 47) + fetch[6:-1]) == "kv.body"
    assert reason(missing[:4] + struct.pack(">H", 17) + missing[6:] + b"!") == "kv.body"
    too_long = MAX_BODY_BYTES + 1
    assert reason(good[:4] + struct.pack(">H", too_long) + good[6:32] + bytes(too_long)) == "kv.body"


@pytest.mark.parametrize(
    "message",
    [
        Request(-1, SESSION, b""),
        Request(1 << 64, SESSION, b""),
        Request(1, SESSION[:15], b""),
        Request(1, SESSION, bytes(MAX_BODY_BYTES + 1)),
        ChunkMissing(1, SESSION, ChunkKey(1 << 128)),
        FetchChunk(1, SESSION, KEY, 1 << 64, 0, 0, 0, 1, 0),
        FetchChunk(1, SESSION, KEY, 0, 0, 1 << 32, 0, 1, 0),
        FetchChunk(1, SESSION, KEY, 0, 0, 0, 0, -1, 0),
    ],
)
def test_a_field_that_does_not_fit_is_refused_before_it_is_sent(message: Message) -> None:
    with pytest.raises(UsageError):
        message.encode()
