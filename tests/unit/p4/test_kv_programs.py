# SPDX-License-Identifier: Apache-2.0
"""What the two shipped programs do with frames; scapy makes the frames."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether

from nicemu.p4 import compile_program
from nicemu.pipeline import CounterAdd, Disposition, Engine, EventPosted, Exact, TableEntry
from nicemu.programs import find_program

SESSION = 0x0123456789ABCDEF_FEDCBA9876543210
KEY = 0xAAAAAAAAAAAAAAAA_BBBBBBBBBBBBBBBB
REQUEST, ANSWER, FETCH_CHUNK, CHUNK_MISSING = 1, 2, 3, 4
PORT = 19286


def kv(kind: int, body: bytes = b"", magic: int = 0x4B56, version: int = 1, **ip: Any) -> bytes:  # noqa: ANN401
    header = struct.pack(">HBBHHQ", magic, version, kind, len(body), 0, 77) + SESSION.to_bytes(16, "big")
    frame = Ether() / IP(src="10.1.2.3", dst="10.0.0.1", **ip) / UDP(sport=4000, dport=PORT) / (header + body)
    return bytes(frame)


FETCH = KEY.to_bytes(16, "big") + struct.pack(">QQIIIII", 0x1000, 0x2000, 0xABCD, 12, 65536, 3, 0)[:-4]


def engine_with(path: str) -> Engine:
    engine = Engine()
    engine.load(compile_program(find_program(path)).program)
    return engine


@pytest.fixture
def compute() -> Engine:
    engine = engine_with("p4/kvmatch.p4")
    engine.insert("session", TableEntry((Exact(SESSION),), "fetch_session", (0x7F00_0000_1000, 640, 21)))
    return engine


@pytest.fixture
def storage() -> Engine:
    engine = engine_with("p4/kvserve.p4")
    engine.insert("chunk", TableEntry((Exact(KEY),), "serve", (1, 4096, 32, 0xDEADBEEF)))
    return engine


def test_a_request_for_a_known_session_starts_its_fetch_on_the_nic(compute: Engine) -> None:
    verdict = compute.process(kv(REQUEST, b"prompt"), 0)
    assert verdict.disposition is Disposition.FIRMWARE
    assert verdict.effects == (
        CounterAdd(21, 1),
        EventPosted(
            "kv_follow_up",
            {
                "request_id": 77,
                "session_high": SESSION >> 64,
                "session_low": SESSION & (1 << 64) - 1,
                "manifest_address": 0x7F00_0000_1000,
                "manifest_bytes": 640,
                "source_address": 0x0A010203,
                "source_port": 4000,
            },
        ),
    )


def test_the_held_frame_is_the_one_that_came(compute: Engine) -> None:
    frame = kv(REQUEST, b"prompt")
    assert compute.process(frame, 0).frame == frame


def test_a_request_for_an_unknown_session_goes_to_the_host_unchanged_and_is_counted(compute: Engine) -> None:
    compute.delete("session", (Exact(SESSION),))
    frame = kv(REQUEST, b"prompt")
    verdict = compute.process(frame, 0)
    assert (verdict.disposition, verdict.frame, verdict.effects) == (Disposition.HOST, frame, ())
    assert compute.tables()[0].misses == 1


def test_a_missing_chunk_becomes_an_event_and_is_consumed(compute: Engine) -> None:
    verdict = compute.process(kv(CHUNK_MISSING, KEY.to_bytes(16, "big")), 0)
    fields = {"request_id": 77, "key_high": KEY >> 64, "key_low": KEY & (1 << 64) - 1}
    assert verdict.disposition is Disposition.FIRMWARE
    assert verdict.effects == (EventPosted("kv_chunk_missing", fields),)


@pytest.mark.parametrize(
    "frame",
    [
        bytes(Ether() / ARP()),
        bytes(Ether() / IP() / UDP(dport=53) / b"?"),
        bytes(Ether() / IP() / UDP(dport=9)),
        kv(ANSWER, b"tokens"),
        kv(FETCH_CHUNK, FETCH),
        kv(REQUEST, magic=0x4B57),
        kv(REQUEST, version=2),
        kv(REQUEST, frag=3),
        kv(REQUEST, options=[b"\x01\x01\x01\x00"]),
    ],
    ids=["arp", "dns", "empty udp", "answer", "fetch", "magic", "version", "fragment", "options"],
)
def test_everything_else_goes_to_the_host_unchanged(compute: Engine, frame: bytes) -> None:
    verdict = compute.process(frame, 0)
    assert (verdict.disposition, verdict.frame, verdict.effects) == (Disposition.HOST, frame, ())


def test_a_request_cut_short_is_a_counted_drop(compute: Engine) -> None:
    frame = kv(REQUEST)
    assert compute.process(frame[:-1], 0).drop_reason == "parser.too_short"
    assert compute.drops == {"parser.too_short": 1}


def test_a_known_chunk_is_asked_for_with_its_blocks_and_landing_place(storage: Engine) -> None:
    verdict = storage.process(kv(FETCH_CHUNK, FETCH), 0)
    (event,) = verdict.effects
    assert verdict.disposition is Disposition.FIRMWARE
    assert isinstance(event, EventPosted)
    assert event.name == "kv_chunk_request"
    assert event.fields == {
        "request_id": 77,
        "session_high": SESSION >> 64,
        "session_low": SESSION & (1 << 64) - 1,
        "key_high": KEY >> 64,
        "key_low": KEY & (1 << 64) - 1,
        "landing_k": 0x1000,
        "landing_v": 0x2000,
        "rkey": 0xABCD,
        "arrival_counter": 12,
        "segment_bytes": 65536,
        "requester": 3,
        "nsid": 1,
        "slba": 4096,
        "nlb": 32,
        "crc": 0xDEADBEEF,
        "source_address": 0x0A010203,
        "source_port": 4000,
    }


def test_an_unknown_chunk_is_said_to_be_unknown(storage: Engine) -> None:
    storage.delete("chunk", (Exact(KEY),))
    verdict = storage.process(kv(FETCH_CHUNK, FETCH), 0)
    (event,) = verdict.effects
    assert verdict.disposition is Disposition.FIRMWARE
    assert isinstance(event, EventPosted)
    assert event.name == "kv_chunk_unknown"
    assert list(event.fields) == [
        "request_id", "session_high", "session_low", "key_high", "key_low", "requester", "source_address",
        "source_port",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (bytes(Ether() / ARP()), "parser.not_a_chunk_request"),
        (bytes(Ether() / IP() / UDP(dport=53) / b"?"), "parser.not_a_chunk_request"),
        (kv(REQUEST), "parser.not_a_chunk_request"),
        (kv(FETCH_CHUNK, FETCH, version=2), "parser.not_a_chunk_request"),
        (kv(FETCH_CHUNK, FETCH[:-1]), "parser.too_short"),
        (b"", "parser.too_short"),
    ],
    ids=["arp", "dns", "request", "version", "cut short", "empty"],
)
def test_the_storage_nic_drops_everything_else_with_a_reason(
    storage: Engine, frame: bytes, reason: str
) -> None:
    verdict = storage.process(frame, 0)
    assert (verdict.disposition, verdict.drop_reason, verdict.effects) == (Disposition.DROP, reason, ())
    assert storage.drops == {reason: 1}


@pytest.mark.parametrize(
    ("path", "table", "size", "key"),
    [
        ("p4/kvmatch.p4", "KvMatch.session", 4096, "headers.kv.session"),
        ("p4/kvserve.p4", "KvServe.chunk", 65536, "headers.fetch.chunk_key"),
    ],
)
def test_the_tables_are_those_that_controllers_know(path: str, table: str, size: int, key: str) -> None:
    (described,) = engine_with(path).tables()
    assert (described.name, described.size) == (table, size)
    assert [(item.name, item.width, item.match_kind) for item in described.keys] == [(key, 128, "exact")]


@pytest.mark.parametrize("path", ["p4/kvmatch.p4", "p4/kvserve.p4"])
def test_the_shipped_programs_compile_without_a_warning(path: str) -> None:
    assert compile_program(find_program(path)).diagnostics == ()
