# SPDX-License-Identifier: Apache-2.0
"""One record of the storage NIC's catalogue, 64 bytes, and the block of 64 records that is written at once.

A record stands alone: its checksum tells a whole one from a torn one, so a write that stops anywhere between
two records leaves each of them old or new, and one that stops inside a record leaves it recognisably neither.
Little-endian:

| bytes | field         |                                                        |
|-------|---------------|--------------------------------------------------------|
| 0-15  | chunk_key     | big-endian, as on the wire                             |
| 16-23 | slba          | first logical block, of 4096 bytes                     |
| 24-27 | nlb           | number of logical blocks, zero-based as in NVMe        |
| 28-31 | length_bytes  | of the chunk; the rest of its last block means nothing |
| 32-35 | payload_crc32 | of those bytes                                         |
| 36-43 | sequence      | grows with every placement in this catalogue           |
| 44-45 | state         | 2, committed; nothing else is ever written             |
| 46-47 | version       | 1                                                      |
| 48-59 | zero          |                                                        |
| 60-63 | crc32         | of bytes 0 to 59                                       |

All bytes zero: the slot is free.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from nicemu.errors import ProtocolError, UsageError

from .chunk import CHUNK_KEY_BYTES, ChunkKey

BLOCK_BYTES = 4096
"""Bytes of a logical block of the namespace, of the catalogue and of the data alike."""
RECORD_BYTES = 64
RECORDS_PER_BLOCK = BLOCK_BYTES // RECORD_BYTES
RECORD_VERSION = 1

_FIELDS = struct.Struct("<16sQIIIQHH12s")
_CRC = struct.Struct("<I")
_FREE = bytes(RECORD_BYTES)


class RecordState(enum.IntEnum):
    """How far a record has come. A pending one exists in the NIC's memory only and is never encoded."""

    PENDING = 1
    COMMITTED = 2


class RecordError(ProtocolError):
    """Bytes that are no record: `reason` is `torn` (the checksum is wrong) or `content`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


class RecordVersionError(ProtocolError):
    """A whole record of a version that this code does not read; whoever wrote it may still need it."""


@dataclass(frozen=True, slots=True)
class Record:
    """Where a chunk lies: `nlb` + 1 logical blocks from `slba`, of which the first `length_bytes` bytes are
    its own.

    `nlb`: number of logical blocks, zero-based as in the NVMe specification, ready for a command.
    """

    chunk_key: ChunkKey
    slba: int
    nlb: int
    length_bytes: int
    payload_crc32: int
    sequence: int
    state: RecordState

    @property
    def block_count(self) -> int:
        """Logical blocks that the chunk occupies, counted from one."""
        return self.nlb + 1


@dataclass(frozen=True, slots=True)
class SlotFault:
    """A slot that was not believed: `reason` is `torn`, `content`, `range`, `overlap` or `duplicate`."""

    block_index: int
    slot: int
    reason: str
    detail: str


def encode_record(record: Record) -> bytes:
    """Return the record's 64 bytes. Raises: UsageError if it is pending or a field does not fit."""
    if record.state is not RecordState.COMMITTED:
        raise UsageError(
            f"record of chunk {record.chunk_key:#034x} is {record.state.name}; commit it, then encode it"
        )
    widths = (("slba", 64), ("nlb", 32), ("length_bytes", 32), ("payload_crc32", 32), ("sequence", 64))
    for name, width_bits in (("chunk_key", 8 * CHUNK_KEY_BYTES), *widths):
        if not 0 <= getattr(record, name) < 1 << width_bits:
            raise UsageError(
                f"{name} is {getattr(record, name):#x}; a record has {width_bits} bits for it, unsigned"
            )
    if not _ends_in_last_block(record.length_bytes, record.nlb):
        raise UsageError(
            f"{record.length_bytes} bytes do not end in the last of {record.block_count} blocks "
            f"of {BLOCK_BYTES} bytes"
        )
    fields = _FIELDS.pack(
        record.chunk_key.to_bytes(CHUNK_KEY_BYTES, "big"),
        record.slba,
        record.nlb,
        record.length_bytes,
        record.payload_crc32,
        record.sequence,
        record.state,
        RECORD_VERSION,
        bytes(12),
    )
    return fields + _CRC.pack(zlib.crc32(fields))


def decode_record(data: bytes) -> Record | None:
    """Return the record in 64 bytes, or None for a free slot.

    Raises: RecordError if the bytes are torn, corrupt or contradict themselves; RecordVersionError if they
    are whole but of another version. No other error, whatever the bytes are.
    """
    if len(data) != RECORD_BYTES:
        raise RecordError("content", f"a record has {RECORD_BYTES} bytes; these are {len(data)}")
    if data == _FREE:
        return None
    fields = data[: _FIELDS.size]
    (stated,) = _CRC.unpack_from(data, _FIELDS.size)
    computed = zlib.crc32(fields)
    if stated != computed:
        raise RecordError(
            "torn", f"the record states checksum {stated:#010x}, its bytes have {computed:#010x}"
        )
    key, slba, nlb, length_bytes, payload_crc32, sequence, state, version, zero = _FIELDS.unpack(fields)
    if version != RECORD_VERSION:
        raise RecordVersionError(
            f"the record has version {version}, this catalogue reads version {RECORD_VERSION}; "
            f"use the nicemu that wrote it, or an empty namespace"
        )
    if state != RecordState.COMMITTED or any(zero):
        raise RecordError(
            "content", f"the record has state {state} and tail {zero.hex()}; only 2 and zeros are written"
        )
    if not _ends_in_last_block(length_bytes, nlb):
        raise RecordError("content", f"{length_bytes} bytes do not end in the last of {nlb + 1} blocks")
    chunk_key = ChunkKey(int.from_bytes(key, "big"))
    return Record(chunk_key, slba, nlb, length_bytes, payload_crc32, sequence, RecordState.COMMITTED)


def encode_block(records: Sequence[Record | None]) -> bytes:
    """Return the block that holds `records`, slot by slot; None is a free slot.

    Raises: UsageError unless there are 64.
    """
    if len(records) != RECORDS_PER_BLOCK:
        raise UsageError(f"a catalogue block has {RECORDS_PER_BLOCK} slots; {len(records)} were given")
    return b"".join(_FREE if record is None else encode_record(record) for record in records)


def decode_block(data: bytes, block_index: int = 0) -> tuple[list[Record | None], list[SlotFault]]:
    """Return the 64 slots of a block and the faults in it; a faulty slot is None, with a fault that names it.

    Raises: UsageError unless there are 4096 bytes; RecordVersionError for a whole record of another version.
    """
    if len(data) != BLOCK_BYTES:
        raise UsageError(f"catalogue block {block_index} has {len(data)} bytes; read all {BLOCK_BYTES} of it")
    records: list[Record | None] = []
    faults: list[SlotFault] = []
    for slot in range(RECORDS_PER_BLOCK):
        try:
            records.append(decode_record(bytes(data[slot * RECORD_BYTES : (slot + 1) * RECORD_BYTES])))
        except RecordError as error:
            faults.append(SlotFault(block_index, slot, error.reason, str(error)))
            records.append(None)
    return records, faults


def _ends_in_last_block(length_bytes: int, nlb: int) -> bool:
    return nlb * BLOCK_BYTES < length_bytes <= (nlb + 1) * BLOCK_BYTES
