# SPDX-License-Identifier: Apache-2.0
"""The storage NIC's durable catalogue: which chunk lies in which blocks of its namespace, before and after a
crash.

The namespace begins with `catalogue_blocks` blocks of records; data blocks follow. A chunk is stored in this
order:

    record = catalogue.place(key, length_bytes)            # blocks of its own, nothing written yet
    ...write the data to record.slba, and wait for it...
    write = catalogue.commit(record, payload_crc32)        # the catalogue block to write
    ...write write.data at block write.block_index, and wait for it...
    catalogue.written(write.block_index)                   # from now on it may be acknowledged

So a crash before the last step leaves the chunk unacknowledged, and one after it finds the record on the
medium. The same holds backwards: `free` hands out a block without the record, and only when that has been
written are the data blocks given to another chunk. Writes of one catalogue block must reach the medium in the
order in which they were handed out (one at a time is enough); writes of different blocks may overtake each
other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from nicemu.errors import ResourceError, UsageError

from .chunk import ChunkKey
from .extents import FreeExtents
from .record import (
    BLOCK_BYTES,
    RECORDS_PER_BLOCK,
    Record,
    RecordState,
    SlotFault,
    decode_block,
    encode_block,
)

MAX_SEQUENCE = (1 << 64) - 1
MAX_LENGTH_BYTES = (1 << 32) - 1


class BlockWrite(NamedTuple):
    """What must be written: `data`, 4096 bytes, at catalogue block `block_index`."""

    block_index: int
    data: bytes


@dataclass(slots=True)
class _Outstanding:
    """What becomes true when a handed-out block write has reached the medium."""

    durable: Record | None = None
    released: Record | None = None
    repaired: bool = False


class Catalogue:
    """The records of one namespace and the allocation of its data blocks.

    `data_blocks` are the blocks from `first_data_block` (by default right behind the catalogue) that chunks
    may use. A new catalogue is empty and expects its blocks to be all zero on the medium; `load` continues an
    old one.
    """

    def __init__(self, catalogue_blocks: int, data_blocks: int, first_data_block: int | None = None) -> None:
        if catalogue_blocks < 1:
            raise UsageError(f"a catalogue of {catalogue_blocks} blocks; it needs at least 1")
        first = catalogue_blocks if first_data_block is None else first_data_block
        if first < catalogue_blocks:
            raise UsageError(
                f"data blocks from {first} lie in the catalogue, blocks 0 to {catalogue_blocks - 1}"
            )
        self.catalogue_blocks = catalogue_blocks
        self.faults: tuple[SlotFault, ...] = ()
        self._extents = FreeExtents(first, data_blocks)
        self._records: dict[ChunkKey, Record] = {}
        self._slot_of: dict[ChunkKey, tuple[int, int]] = {}
        self._keys: list[list[ChunkKey | None]] = [
            [None] * RECORDS_PER_BLOCK for _ in range(catalogue_blocks)
        ]
        self._durable: set[int] = set()
        self._unrepaired: set[int] = set()
        self._outstanding: list[deque[_Outstanding]] = [deque() for _ in range(catalogue_blocks)]
        self._next_sequence = 1

    @classmethod
    def load(
        cls, blocks: Iterable[bytes], data_blocks: int, first_data_block: int | None = None
    ) -> Catalogue:
        """Return the catalogue that the blocks on a medium describe; `faults` tells what was not believed,
        and why.

        Of two records that claim the same chunk or the same data block, the one with the higher sequence
        stays: its blocks were given to it after the other had been freed. If there are faults, chunks can be
        found at once, but placed and freed only after the writes of `repairs` are on the medium; else a
        refused record might return.
        Raises: UsageError if a block is not 4096 bytes or there is none; RecordVersionError for records of
        another version, which must not be overwritten.
        """
        decoded = [decode_block(block, index) for index, block in enumerate(blocks)]
        catalogue = cls(len(decoded), data_blocks, first_data_block)
        faults = [fault for _, block_faults in decoded for fault in block_faults]
        found = [
            (record, index, slot)
            for index, (records, _) in enumerate(decoded)
            for slot, record in enumerate(records)
            if record is not None
        ]
        for record, index, slot in sorted(found, key=lambda entry: entry[0].sequence, reverse=True):
            fault = catalogue._refusal(record)
            if fault is not None:
                faults.append(SlotFault(index, slot, *fault))
                continue
            catalogue._index(record, index, slot)
            catalogue._durable.add(record.sequence)
            catalogue._next_sequence = max(catalogue._next_sequence, record.sequence + 1)
        catalogue.faults = tuple(faults)
        catalogue._unrepaired = {fault.block_index for fault in faults}
        return catalogue

    def repairs(self) -> list[BlockWrite]:
        """Return the writes that clear the faulty slots which `load` found; report each with `written`."""
        return [self._hand_out(index, _Outstanding(repaired=True)) for index in sorted(self._unrepaired)]

    def __len__(self) -> int:
        """Return how many chunks have a record, pending ones included."""
        return len(self._records)

    @property
    def free_data_blocks(self) -> int:
        """Data blocks that no record uses and no unwritten release holds back."""
        return self._extents.free_blocks

    def find(self, key: ChunkKey) -> Record | None:
        """Return the committed record of a chunk, whose data can be read; None if there is none."""
        record = self._records.get(key)
        return record if record is not None and record.state is RecordState.COMMITTED else None

    def is_durable(self, key: ChunkKey) -> bool:
        """Tell whether the chunk's record is on the medium, so that storing it may be acknowledged."""
        record = self._records.get(key)
        return record is not None and record.sequence in self._durable

    def committed(self) -> list[Record]:
        """Return all committed records, oldest first."""
        records = (record for record in self._records.values() if record.state is RecordState.COMMITTED)
        return sorted(records, key=lambda record: record.sequence)

    def place(self, key: ChunkKey, length_bytes: int) -> Record:
        """Return a pending record with data blocks and a slot of its own, or the record that the chunk
        already has.

        An existing record is to be looked at, not written to: committed, its data is there already; pending,
        somebody else is storing it.
        Raises: ResourceError if slots or blocks are used up; UsageError if the chunk exists with another
        length, or before the repairs are written.
        """
        self._require_repaired()
        existing = self._records.get(key)
        if existing is not None:
            if existing.length_bytes != length_bytes:
                raise UsageError(
                    f"chunk {key:#034x} is stored with {existing.length_bytes} bytes, asked for with "
                    f"{length_bytes}; a key names one content"
                )
            return existing
        if not 1 <= length_bytes <= MAX_LENGTH_BYTES or not 0 <= key < 1 << 128:
            raise UsageError(
                f"chunk {key:#x} of {length_bytes} bytes; a key has 128 bits and a chunk "
                f"1 to {MAX_LENGTH_BYTES} bytes"
            )
        if self._next_sequence > MAX_SEQUENCE:
            raise ResourceError("the catalogue's sequence numbers are used up; start an empty catalogue")
        block_index, slot = self._free_slot()
        block_count = -(-length_bytes // BLOCK_BYTES)
        slba = self._extents.take(block_count)
        record = Record(key, slba, block_count - 1, length_bytes, 0, self._next_sequence, RecordState.PENDING)
        self._next_sequence += 1
        self._index(record, block_index, slot)
        return record

    def commit(self, record: Record, payload_crc32: int = 0) -> BlockWrite:
        """Commit a placed record, whose data is on the medium, and return the catalogue block to write.

        Raises: UsageError if the record is not the pending one of its chunk; nothing was changed.
        """
        key = record.chunk_key
        if self._records.get(key) != record or record.state is not RecordState.PENDING:
            raise UsageError(
                f"chunk {key:#034x} has no such pending record; place it, write its data, commit it once"
            )
        if not 0 <= payload_crc32 < 1 << 32:
            raise UsageError(f"payload_crc32 is {payload_crc32:#x}; it must be an unsigned number of 32 bits")
        committed = replace(record, payload_crc32=payload_crc32, state=RecordState.COMMITTED)
        self._records[key] = committed
        return self._hand_out(self._slot_of[key][0], _Outstanding(durable=committed))

    def free(self, key: ChunkKey) -> BlockWrite:
        """Forget a committed chunk and return the catalogue block to write; its data blocks stay taken until
        then.

        Raises: UsageError if the chunk is not committed, or before the repairs are written.
        """
        self._require_repaired()
        record = self.find(key)
        if record is None:
            raise UsageError(f"chunk {key:#034x} is not committed; only a committed chunk can be freed")
        return self._hand_out(self._forget(record), _Outstanding(released=record))

    def abandon(self, record: Record) -> None:
        """Undo a placement that is not committed, once nothing writes to its data blocks any more.

        Raises: UsageError if the record is not the pending one of its chunk.
        """
        if self._records.get(record.chunk_key) != record or record.state is not RecordState.PENDING:
            raise UsageError(
                f"chunk {record.chunk_key:#034x} has no such pending record; a committed one is freed"
            )
        self._forget(record)
        self._extents.release(record.slba, record.block_count)

    def written(self, block_index: int) -> None:
        """Take note that the oldest outstanding write of a catalogue block is on the medium.

        Raises: UsageError if none is outstanding.
        """
        if not 0 <= block_index < self.catalogue_blocks or not self._outstanding[block_index]:
            raise UsageError(
                f"no write of catalogue block {block_index} is outstanding; report each write once"
            )
        done = self._outstanding[block_index].popleft()
        if done.durable is not None and self.find(done.durable.chunk_key) == done.durable:
            self._durable.add(done.durable.sequence)
        if done.released is not None:
            self._extents.release(done.released.slba, done.released.block_count)
        if done.repaired:
            self._unrepaired.discard(block_index)

    def _require_repaired(self) -> None:
        if self._unrepaired:
            raise UsageError(
                f"catalogue blocks {sorted(self._unrepaired)} still hold faulty records; "
                f"write what repairs() returns"
            )

    def _refusal(self, record: Record) -> tuple[str, str] | None:
        """Take the record's data blocks, or say by reason and detail why they cannot be its own."""
        name = f"chunk {record.chunk_key:#034x}, sequence {record.sequence}"
        if record.chunk_key in self._records:
            newer = self._records[record.chunk_key].sequence
            return "duplicate", f"{name}: the same chunk has a record with sequence {newer}"
        first, end = record.slba, record.slba + record.block_count
        if first < self._extents.first or end > self._extents.end:
            return (
                "range",
                f"{name}: blocks [{first}, {end}) leave [{self._extents.first}, {self._extents.end})",
            )
        if not self._extents.take_at(first, record.block_count):
            return "overlap", f"{name}: blocks [{first}, {end}) overlap a record with a higher sequence"
        return None

    def _hand_out(self, block_index: int, effect: _Outstanding) -> BlockWrite:
        self._outstanding[block_index].append(effect)
        slots = [None if key is None else self.find(key) for key in self._keys[block_index]]
        return BlockWrite(block_index, encode_block(slots))

    def _free_slot(self) -> tuple[int, int]:
        for block_index, keys in enumerate(self._keys):
            if None in keys:
                return block_index, keys.index(None)
        raise ResourceError(
            f"all {self.catalogue_blocks * RECORDS_PER_BLOCK} records of the catalogue are in use; "
            f"free some chunks or use more catalogue blocks"
        )

    def _index(self, record: Record, block_index: int, slot: int) -> None:
        self._records[record.chunk_key] = record
        self._slot_of[record.chunk_key] = (block_index, slot)
        self._keys[block_index][slot] = record.chunk_key

    def _forget(self, record: Record) -> int:
        block_index, slot = self._slot_of.pop(record.chunk_key)
        del self._records[record.chunk_key]
        self._durable.discard(record.sequence)
        self._keys[block_index][slot] = None
        return block_index
