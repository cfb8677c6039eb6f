# SPDX-License-Identifier: Apache-2.0
"""A manifest that firmware accepts lands every segment inside the area and on no other segment."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import ProtocolError, UsageError
from nicemu.kv import (
    MANIFEST_HEADER_BYTES,
    MANIFEST_RECORD_BYTES,
    ChunkKey,
    KvLayout,
    Manifest,
    StoredChunk,
    chunks_of,
    read_manifest,
)

SESSION = bytes(range(16))
LAYOUT = KvLayout(layers=2, blocks=3, block_tokens=4, kv_heads=2, head_dim=8, dtype="float32")
CHUNKS = chunks_of(LAYOUT, range(9), model="m", salt=b"s")
MANIFEST = Manifest.of(LAYOUT, SESSION, 9, [(chunk, position % 2) for position, chunk in enumerate(CHUNKS)])


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Manifests whose chunks land on any segments, each on its own."""
    layers, blocks, segment_bytes = (
        draw(st.integers(1, 4)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 5000)),
    )
    cached = draw(st.permutations([(layer, block) for layer in range(layers) for block in range(blocks)]))
    segments = draw(st.permutations(range(2 * layers * blocks)))
    chunks = tuple(
        StoredChunk(
            ChunkKey(draw(st.integers(0, (1 << 128) - 1))),
            draw(st.integers(0, (1 << 32) - 1)),
            layer,
            block,
            segments[2 * position] * segment_bytes,
            segments[2 * position + 1] * segment_bytes,
            draw(st.integers(0, 16)),
        )
        for position, (layer, block) in enumerate(cached[: draw(st.integers(0, len(cached)))])
    )
    session = draw(st.binary(min_size=16, max_size=16))
    return Manifest(session, layers, blocks, segment_bytes, draw(st.integers(0, 1 << 20)), chunks)


def resealed(data: bytearray) -> bytes:
    """Give damaged bytes the checksum that they would have, had a hostile writer made them."""
    count = int.from_bytes(data[8:12], "little")
    end = MANIFEST_HEADER_BYTES + count * MANIFEST_RECORD_BYTES
    checksum = zlib.crc32(bytes(data[:60]) + bytes(data[64:end]))
    return bytes(data[:60]) + checksum.to_bytes(4, "little") + bytes(data[64:])


def accepted(data: bytes) -> Manifest | None:
    try:
        return Manifest.decode(data)
    except ProtocolError:
        return None


def assert_lands_safely(manifest: Manifest) -> None:
    area = bytearray(manifest.layers * 2 * manifest.blocks)
    for chunk in manifest.chunks:
        for offset in (chunk.k_offset, chunk.v_offset):
            assert offset % manifest.segment_bytes == 0
            assert area[offset // manifest.segment_bytes] == 0
            area[offset // manifest.segment_bytes] = 1


@given(manifests(), st.binary(max_size=100))
def test_a_manifest_comes_out_of_memory_as_it_went_in(manifest: Manifest, behind: bytes) -> None:
    assert Manifest.decode(manifest.encode() + behind) == manifest
    assert_lands_safely(manifest)


def test_a_manifest_of_a_layout_has_the_offsets_of_its_chunks() -> None:
    assert MANIFEST.area_bytes == LAYOUT.total_bytes
    assert [chunk.storage_nic for chunk in MANIFEST.chunks] == [0, 1, 0, 1, 0, 1]
    for stored, chunk in zip(MANIFEST.chunks, CHUNKS, strict=True):
        assert stored.key == chunk.key
        assert (stored.k_offset, stored.v_offset) == (chunk.k_offset, chunk.v_offset)
        assert (stored.layer, stored.block, stored.token_count) == (
            chunk.layer,
            chunk.block,
            chunk.token_count,
        )


def test_the_bytes_are_laid_out_as_documented() -> None:
    key = ChunkKey(int.from_bytes(SESSION, "big"))
    data = Manifest(SESSION, 2, 3, 256, 9, (StoredChunk(key, 7, 1, 2, 0x300, 0x500, 1),)).encode()
    assert data[:24] == b"KVMF" + bytes.fromhex("0100 3000 01000000 0200 0300 00010000 09000000")
    assert data[24:60] == SESSION + bytes(20)
    assert data[60:64] == zlib.crc32(data[:60] + data[64:]).to_bytes(4, "little")
    assert data[64:] == SESSION + bytes.fromhex(
        "07000000 0100 0200 0003000000000000 0005000000000000 01000000 00000000"
    )


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_land_safely(data: bytes) -> None:
    manifest = accepted(data)
    if manifest is not None:
        assert_lands_safely(manifest)


@given(manifests(), st.data())
def test_damage_that_carries_a_right_checksum_is_refused_or_lands_safely(
    manifest: Manifest, data: st.DataObject
) -> None:
    encoded = bytearray(manifest.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    survivor = accepted(resealed(encoded))
    if survivor is not None:
        assert_lands_safely(survivor)


@given(st.data())
def test_damage_without_a_right_checksum_is_refused(data: st.DataObject) -> None:
    encoded = bytearray(MANIFEST.encode())
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ProtocolError):
        Manifest.decode(bytes(encoded))


@given(st.integers(0, len(MANIFEST.encode()) - 1))
def test_a_truncated_manifest_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        Manifest.decode(MANIFEST.encode()[:length])


def test_a_count_that_the_length_cannot_hold_reads_no_record() -> None:
    data = bytearray(MANIFEST.encode())
    data[12:16] = b"\xff\xff\xff\xff"
    data[8:12] = (0xFFFE0001).to_bytes(4, "little")
    reads: list[tuple[int, int]] = []

    def memory_read(address: int, length: int) -> bytes:
        reads.append((address, length))
        return bytes(data[address - 0x1000 : address - 0x1000 + length])

    with pytest.raises(ProtocolError, match="announces 4294836225 chunks"):
        read_manifest(memory_read, 0x1000, len(data))
    assert reads == [(0x1000, MANIFEST_HEADER_BYTES)]


def test_a_manifest_is_read_from_its_address_and_never_past_its_length() -> None:
    data = MANIFEST.encode()
    reads: list[tuple[int, int]] = []

    def memory_read(address: int, length: int) -> bytes:
        reads.append((address, length))
        return data[address - 0x1000 : address - 0x1000 + length]

    assert read_manifest(memory_read, 0x1000, 4096) == MANIFEST
    assert reads == [(0x1000, 64), (0x1040, 6 * 48)]
    with pytest.raises(ProtocolError):
        read_manifest(memory_read, 0x1000, len(data) - 1)
    with pytest.raises(ProtocolError, match="a manifest of 63 bytes"):
        read_manifest(memory_read, 0x1000, 63)


def test_memory_that_gives_less_than_asked_for_is_refused() -> None:
    with pytest.raises(ProtocolError, match="gave 3 of the 64 bytes"):
        read_manifest(lambda address, length: b"KVM", 0x1000, 4096)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer": 2}, "outside the 2 layers"),
        ({"block": 3}, "outside the 2 layers of 3 blocks"),
        ({"block": 1}, "listed twice"),
        ({"k_offset": 1}, "is no segment"),
        ({"v_offset": LAYOUT.total_bytes}, "is no segment"),
        ({"k_offset": -LAYOUT.segment_bytes}, "is no segment"),
        ({"k_offset": CHUNKS[1].v_offset}, "land on another segment"),
        ({"v_offset": CHUNKS[0].k_offset}, "land on another segment"),
        ({"storage_nic": 1 << 32}, "storage_nic"),
        ({"key": ChunkKey(1 << 128)}, "more than 128 bits"),
    ],
)
def test_a_chunk_that_firmware_would_refuse_is_not_encoded(changes: dict[str, Any], message: str) -> None:
    chunks = (dataclasses.replace(MANIFEST.chunks[0], **changes), *MANIFEST.chunks[1:])
    with pytest.raises(UsageError, match=message):
        dataclasses.replace(MANIFEST, chunks=chunks).encode()


@pytest.mark.parametrize(
    "changes", [{"session": b"short"}, {"layers": 1 << 16}, {"segment_bytes": 0}, {"token_count": -1}]
)
def test_a_header_field_that_does_not_fit_is_not_encoded(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(changes)).partition("_")[0]):
        dataclasses.replace(MANIFEST, **changes).encode()
