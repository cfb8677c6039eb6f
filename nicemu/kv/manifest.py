# SPDX-License-Identifier: Apache-2.0
"""A session's manifest: which chunks it has, which NIC stores each, and where in the cache each belongs.

The host writes it into memory that the NIC can read; firmware walks it with no help from the host.
Little-endian: a header of 64 bytes, then one record of 48 bytes per chunk. Offsets count from the start of
the landing area, an array of `layers` by 2 by `blocks` segments, so that a landing address is the area's iova
plus an offset and needs no layout.

| bytes | header field  |                      | bytes | record field          |
|-------|---------------|----------------------|-------|-----------------------|
| 0-3   | magic         | "KVMF"               | 0-15  | chunk_key, big-endian |
| 4-5   | version       | 1                    | 16-19 | storage_nic           |
| 6-7   | record_bytes  | 48                   | 20-21 | layer                 |
| 8-11  | chunk_count   |                      | 22-23 | block                 |
| 12-13 | layers        |                      | 24-31 | k_offset              |
| 14-15 | blocks        | capacity of the area | 32-39 | v_offset              |
| 16-19 | segment_bytes |                      | 40-43 | token_count           |
| 20-23 | token_count   |                      | 44-47 | zero, not read        |
| 24-39 | session       |                      |       |                       |
| 40-59 |               | zero, not read       |       |                       |
| 60-63 | crc32         | of header bytes 0 to 59, then of all records         |
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nicemu.errors import ProtocolError, UsageError

from .chunk import CHUNK_KEY_BYTES, Chunk, ChunkKey, KvLayout
from .protocol import SESSION_BYTES

MANIFEST_HEADER_BYTES = 64
MANIFEST_RECORD_BYTES = 48

_MAGIC = b"KVMF"
_VERSION = 1
_HEADER = struct.Struct("<4sHHIHHII16s20s")
_CRC = struct.Struct("<I")
_RECORD = struct.Struct("<16sIHHQQII")


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """One chunk of a manifest. `storage_nic` is the number of the NIC that stores it; offsets in bytes."""

    key: ChunkKey
    storage_nic: int
    layer: int
    block: int
    k_offset: int
    v_offset: int
    token_count: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What must land, and where, before a session of `token_count` tokens can go on."""

    session: bytes
    layers: int
    blocks: int
    segment_bytes: int
    token_count: int
    chunks: tuple[StoredChunk, ...]

    @classmethod
    def of(
        cls, layout: KvLayout, session: bytes, token_count: int, placed: Iterable[tuple[Chunk, int]]
    ) -> Manifest:
        """Return a session's manifest; `placed` gives each chunk of `layout` with its storage NIC."""
        chunks = tuple(
            StoredChunk(
                chunk.key,
                storage_nic,
                chunk.layer,
                chunk.block,
                chunk.k_offset,
                chunk.v_offset,
                chunk.token_count,
            )
            for chunk, storage_nic in placed
        )
        return cls(session, layout.layers, layout.blocks, layout.segment_bytes, token_count, chunks)

    @property
    def area_bytes(self) -> int:
        """Bytes of the landing area; no segment reaches past it."""
        return self.layers * 2 * self.blocks * self.segment_bytes

    def encode(self) -> bytes:
        """Return the manifest's bytes.

        Raises: UsageError if a field does not fit, or if decoding would refuse the result.
        """
        fault = _fault(self)
        if fault is not None:
            raise UsageError(f"this manifest cannot be encoded: {fault}")
        records = b"".join(
            _RECORD.pack(
                chunk.key.to_bytes(CHUNK_KEY_BYTES, "big"),
                chunk.storage_nic,
                chunk.layer,
                chunk.block,
                chunk.k_offset,
                chunk.v_offset,
                chunk.token_count,
                0,
            )
            for chunk in self.chunks
        )
        header = _HEADER.pack(
            _MAGIC,
            _VERSION,
            MANIFEST_RECORD_BYTES,
            len(self.chunks),
            self.layers,
            self.blocks,
            self.segment_bytes,
            self.token_count,
            self.session,
            bytes(20),
        )
        return header + _CRC.pack(_crc32(header, records)) + records

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Return the manifest that `data` starts with; bytes after its last record are not looked at.

        Every segment of the result lies inside the landing area and on its own, so landing there harms
        nothing else.
        Raises: ProtocolError, and no other error, whatever the bytes are.
        """
        return read_manifest(lambda address, length: data[address : address + length], 0, len(data))


def read_manifest(memory_read: Callable[[int, int], bytes], address: int, length: int) -> Manifest:
    """Return the manifest at `address`, of which at most `length` bytes are read through
    `memory_read(address, bytes)`.

    The header is read first, then as many records as it announces. A manifest that is being rewritten
    meanwhile fails its checksum and may be read again.
    Raises: ProtocolError if the bytes are no manifest; whatever `memory_read` raises for an address it
    refuses.
    """
    if length < MANIFEST_HEADER_BYTES:
        raise ProtocolError(f"a manifest of {length} bytes; its header alone has {MANIFEST_HEADER_BYTES}")
    header = _read_exactly(memory_read, address, MANIFEST_HEADER_BYTES)
    fields = _HEADER.unpack_from(header)
    magic, version, record_bytes, count, layers, blocks, segment_bytes, token_count, session, _ = fields
    if magic != _MAGIC or version != _VERSION or record_bytes != MANIFEST_RECORD_BYTES:
        raise ProtocolError(
            f"a manifest starts with magic {_MAGIC!r}, version {_VERSION}, records of "
            f"{MANIFEST_RECORD_BYTES} bytes; found {magic!r}, version {version}, {record_bytes} bytes"
        )
    records_bytes = count * MANIFEST_RECORD_BYTES
    if count > layers * blocks or MANIFEST_HEADER_BYTES + records_bytes > length:
        raise ProtocolError(
            f"the manifest announces {count} chunks; {layers} layers of {blocks} blocks in {length} bytes "
            f"hold at most {min(layers * blocks, (length - MANIFEST_HEADER_BYTES) // MANIFEST_RECORD_BYTES)}"
        )
    records = _read_exactly(memory_read, address + MANIFEST_HEADER_BYTES, records_bytes) if count else b""
    (stated,) = _CRC.unpack_from(header, _HEADER.size)
    computed = _crc32(header[: _HEADER.size], records)
    if stated != computed:
        raise ProtocolError(f"the manifest states checksum {stated:#010x}, its bytes have {computed:#010x}")
    manifest = Manifest(session, layers, blocks, segment_bytes, token_count, tuple(_chunks(records)))
    fault = _fault(manifest)
    if fault is not None:
        raise ProtocolError(f"the manifest is refused: {fault}")
    return manifest


def _fault(manifest: Manifest) -> str | None:
    """Say what is wrong with the fields, for the one who writes a manifest and the one who reads it."""
    widths = (("layers", 16, 1), ("blocks", 16, 1), ("segment_bytes", 32, 1), ("token_count", 32, 0))
    for name, width_bits, least in widths:
        if not least <= getattr(manifest, name) < 1 << width_bits:
            return f"{name} is {getattr(manifest, name)}; it must be {least} to {(1 << width_bits) - 1}"
    if len(manifest.session) != SESSION_BYTES:
        return f"the session id has {len(manifest.session)} bytes; it must have {SESSION_BYTES}"
    cached: set[tuple[int, int]] = set()
    landings: set[int] = set()
    for position, chunk in enumerate(manifest.chunks):
        fault = _chunk_fault(manifest, chunk)
        if fault is None and (chunk.layer, chunk.block) in cached:
            fault = f"layer {chunk.layer}, block {chunk.block} is listed twice"
        if fault is None and (
            chunk.k_offset == chunk.v_offset or landings & {chunk.k_offset, chunk.v_offset}
        ):
            fault = f"offsets {chunk.k_offset:#x} and {chunk.v_offset:#x} land on another segment"
        if fault is not None:
            return f"chunk {position}: {fault}"
        cached.add((chunk.layer, chunk.block))
        landings |= {chunk.k_offset, chunk.v_offset}
    return None


def _chunk_fault(manifest: Manifest, chunk: StoredChunk) -> str | None:
    if not 0 <= chunk.key < 1 << 8 * CHUNK_KEY_BYTES:
        return f"key {chunk.key:#x} has more than 128 bits"
    for name in ("storage_nic", "token_count"):
        if not 0 <= getattr(chunk, name) < 1 << 32:
            return f"{name} is {getattr(chunk, name)}; it must be 32 bits, unsigned"
    if not 0 <= chunk.layer < manifest.layers or not 0 <= chunk.block < manifest.blocks:
        return (
            f"layer {chunk.layer}, block {chunk.block} is outside the {manifest.layers} layers "
            f"of {manifest.blocks} blocks"
        )
    for name in ("k_offset", "v_offset"):
        offset = getattr(chunk, name)
        if offset % manifest.segment_bytes or not 0 <= offset <= manifest.area_bytes - manifest.segment_bytes:
            return (
                f"{name} {offset:#x} is no segment of {manifest.segment_bytes} bytes of the area "
                f"[0, {manifest.area_bytes:#x})"
            )
    return None


def _chunks(records: bytes) -> Iterable[StoredChunk]:
    for key, storage_nic, layer, block, k_offset, v_offset, token_count, _ in _RECORD.iter_unpack(records):
        yield StoredChunk(
            ChunkKey(int.from_bytes(key, "big")), storage_nic, layer, block, k_offset, v_offset, token_count
        )


def _read_exactly(memory_read: Callable[[int, int], bytes], address: int, length: int) -> bytes:
    data = bytes(memory_read(address, length))
    if len(data) != length:
        raise ProtocolError(f"memory at {address:#x} gave {len(data)} of the {length} bytes asked for")
    return data


def _crc32(header: bytes, records: bytes) -> int:
    return zlib.crc32(records, zlib.crc32(header))
