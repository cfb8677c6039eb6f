# SPDX-License-Identifier: Apache-2.0
"""What the catalogue said is durable is found after a crash, with its data; nothing ever shares a block."""

from __future__ import annotations

import dataclasses
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import ResourceError, UsageError
from nicemu.kv import (
    BLOCK_BYTES,
    RECORD_BYTES,
    RECORDS_PER_BLOCK,
    BlockWrite,
    Catalogue,
    ChunkKey,
    Record,
    RecordState,
    encode_block,
    encode_record,
)


def store(catalogue: Catalogue, key: int, length_bytes: int = 8192, payload_crc32: int = 0) -> BlockWrite:
    """Place and commit a chunk and report its block as written."""
    write = catalogue.commit(catalogue.place(ChunkKey(key), length_bytes), payload_crc32)
    catalogue.written(write.block_index)
    return write


def block_of(*records: Record) -> bytes:
    return encode_block([*records, *[None] * (RECORDS_PER_BLOCK - len(records))])


def committed(key: int, slba: int, block_count: int, sequence: int) -> Record:
    length_bytes = block_count * BLOCK_BYTES
    return Record(ChunkKey(key), slba, block_count - 1, length_bytes, 0, sequence, RecordState.COMMITTED)


def extent(record: Record) -> set[int]:
    return set(range(record.slba, record.slba + record.block_count))


def assert_nothing_overlaps(catalogue: Catalogue) -> None:
    taken: set[int] = set()
    for record in catalogue.committed():
        assert not taken & extent(record)
        taken |= extent(record)


class Medium:
    """A namespace that can lose power: writes of a block happen in order, the last one perhaps in part.

    Its first catalogue block is almost full already, so that the chunks of a test use both.
    """

    def __init__(self, free_data_blocks: int) -> None:
        catalogue_blocks = 2
        self.data_blocks = free_data_blocks + RECORDS_PER_BLOCK - 2
        fillers = [
            committed(1000 + slot, catalogue_blocks + slot, 1, slot) for slot in range(RECORDS_PER_BLOCK - 2)
        ]
        self.blocks = [bytearray(block_of(*fillers)), bytearray(BLOCK_BYTES)]
        self.data: dict[int, tuple[int, int]] = {}
        for filler in fillers:
            self.write_data(filler)
        self.queued: list[list[bytes]] = [[] for _ in range(catalogue_blocks)]

    def write_data(self, record: Record) -> None:
        self.data.update(dict.fromkeys(extent(record), (record.chunk_key, record.sequence)))

    def queue(self, write: BlockWrite) -> None:
        self.queued[write.block_index].append(write.data)

    def finish_oldest(self, block_index: int) -> None:
        self.blocks[block_index][:] = self.queued[block_index].pop(0)

    def lose_power(self, draw: st.DataObject) -> None:
        """Let some of the queued writes of each block happen whole, and 64-byte pieces of the next."""
        for index, queued in enumerate(self.queued):
            whole = draw.draw(st.integers(0, len(queued)))
            for data in queued[:whole]:
                self.blocks[index][:] = data
            if whole < len(queued):
                pieces = draw.draw(st.integers(0, (1 << 12) - 1))
                for slot in range(RECORDS_PER_BLOCK):
                    if pieces >> slot % 12 & 1:
                        piece = slice(slot * RECORD_BYTES, (slot + 1) * RECORD_BYTES)
                        self.blocks[index][piece] = queued[whole][piece]
            queued.clear()


@given(st.data())
def test_a_crash_at_any_point_loses_nothing_durable_and_overlaps_nothing(data: st.DataObject) -> None:
    """Several lives on one medium: each ends in a crash, and the next starts from what reached the medium."""
    medium = Medium(free_data_blocks=9)
    promised: dict[ChunkKey, Record] = {}
    for _ in range(data.draw(st.integers(1, 4))):
        catalogue = Catalogue.load([bytes(block) for block in medium.blocks], medium.data_blocks)
        assert_nothing_overlaps(catalogue)
        for key, record in promised.items():
            assert catalogue.find(key) == record
            assert catalogue.is_durable(key)
        for record in catalogue.committed():
            assert {medium.data[block] for block in extent(record)} == {(record.chunk_key, record.sequence)}
        for write in catalogue.repairs():
            medium.queue(write)
            medium.finish_oldest(write.block_index)
            catalogue.written(write.block_index)
        live(catalogue, medium, promised, data)
        medium.lose_power(data)


def live(catalogue: Catalogue, medium: Medium, promised: dict[ChunkKey, Record], data: st.DataObject) -> None:
    """Store and free chunks; `promised` ends up with those whose durability the catalogue confirmed."""
    pending: list[Record] = []
    for _ in range(data.draw(st.integers(0, 20))):
        step = data.draw(st.sampled_from(["place", "commit", "free", "written", "abandon"]))
        key = ChunkKey(data.draw(st.integers(1, 6)))
        if step == "place":
            known = catalogue.find(key) is not None or any(record.chunk_key == key for record in pending)
            # The low bits of a key decide its length, as a key names one content.
            try:
                record = catalogue.place(key, (key % 3 + 1) * BLOCK_BYTES)
            except ResourceError:
                continue
            if not known:
                assert record.state is RecordState.PENDING
                for durable in promised.values():
                    assert not extent(record) & extent(durable)
                pending.append(record)
                medium.write_data(record)
        elif step == "commit" and pending:
            medium.queue(catalogue.commit(pending.pop(data.draw(st.integers(0, len(pending) - 1)))))
        elif step == "abandon" and pending:
            catalogue.abandon(pending.pop())
        elif step == "free" and catalogue.find(key) is not None:
            promised.pop(key, None)
            medium.queue(catalogue.free(key))
        elif step == "written":
            index = data.draw(st.integers(0, catalogue.catalogue_blocks - 1))
            if medium.queued[index]:
                medium.finish_oldest(index)
                catalogue.written(index)
        for record in catalogue.committed():
            if catalogue.is_durable(record.chunk_key):
                promised[record.chunk_key] = record


def test_a_placed_chunk_has_blocks_of_its_own_behind_the_catalogue() -> None:
    catalogue = Catalogue(catalogue_blocks=2, data_blocks=10)
    first, second = catalogue.place(ChunkKey(1), 8192), catalogue.place(ChunkKey(2), 4097)
    assert (first.slba, first.nlb, first.length_bytes) == (2, 1, 8192)
    assert (second.slba, second.nlb, second.length_bytes) == (4, 1, 4097)
    assert first.state is RecordState.PENDING
    assert catalogue.free_data_blocks == 6
    assert len(catalogue) == 2
    assert Catalogue(2, 10, first_data_block=100).place(ChunkKey(1), 1).slba == 100


def test_a_chunk_is_found_once_committed_and_durable_once_written() -> None:
    catalogue = Catalogue(1, 10)
    record = catalogue.place(ChunkKey(1), 8192)
    assert catalogue.find(ChunkKey(1)) is None
    write = catalogue.commit(record, zlib.crc32(b"payload"))
    expected = dataclasses.replace(record, payload_crc32=zlib.crc32(b"payload"), state=RecordState.COMMITTED)
    assert catalogue.find(ChunkKey(1)) == expected
    assert not catalogue.is_durable(ChunkKey(1))
    assert write == (0, encode_record(expected) + bytes(BLOCK_BYTES - RECORD_BYTES))
    catalogue.written(0)
    assert catalogue.is_durable(ChunkKey(1))
    assert catalogue.find(ChunkKey(9)) is None


def test_writes_of_one_block_are_taken_to_finish_in_the_order_in_which_they_were_handed_out() -> None:
    catalogue = Catalogue(1, 10)
    first = catalogue.commit(catalogue.place(ChunkKey(1), 8192))
    second = catalogue.commit(catalogue.place(ChunkKey(2), 8192))
    catalogue.written(0)
    assert (catalogue.is_durable(ChunkKey(1)), catalogue.is_durable(ChunkKey(2))) == (True, False)
    catalogue.written(0)
    assert catalogue.is_durable(ChunkKey(2))
    assert [len(Catalogue.load([write.data], 10)) for write in (first, second)] == [1, 2]


def test_a_pending_record_is_in_no_block_that_is_written() -> None:
    catalogue = Catalogue(1, 10)
    catalogue.place(ChunkKey(1), 8192)
    write = store(catalogue, 2)
    loaded = Catalogue.load([write.data], 10)
    assert [record.chunk_key for record in loaded.committed()] == [2]
    assert loaded.free_data_blocks == 8


def test_placing_a_chunk_again_returns_the_record_that_it_has() -> None:
    catalogue = Catalogue(1, 10)
    record = catalogue.place(ChunkKey(1), 8192)
    assert catalogue.place(ChunkKey(1), 8192) is record
    catalogue.commit(record)
    assert catalogue.place(ChunkKey(1), 8192).state is RecordState.COMMITTED
    assert catalogue.free_data_blocks == 8
    with pytest.raises(UsageError, match="stored with 8192 bytes, asked for with 4096"):
        catalogue.place(ChunkKey(1), 4096)


def test_a_record_is_committed_once_and_only_as_it_was_placed() -> None:
    catalogue = Catalogue(1, 10)
    record = catalogue.place(ChunkKey(1), 8192)
    with pytest.raises(UsageError, match="no such pending record"):
        catalogue.commit(dataclasses.replace(record, slba=5))
    with pytest.raises(UsageError, match="payload_crc32"):
        catalogue.commit(record, 1 << 32)
    catalogue.commit(record)
    with pytest.raises(UsageError, match="no such pending record"):
        catalogue.commit(record)


def test_the_blocks_of_a_freed_chunk_come_back_when_its_block_is_written() -> None:
    catalogue = Catalogue(1, 2)
    store(catalogue, 1)
    write = catalogue.free(ChunkKey(1))
    assert write == (0, bytes(BLOCK_BYTES))
    assert catalogue.find(ChunkKey(1)) is None
    with pytest.raises(ResourceError, match="no run of 2 data blocks is free; 0 of 2"):
        catalogue.place(ChunkKey(2), 8192)
    catalogue.written(0)
    assert catalogue.place(ChunkKey(2), 8192).slba == 1


def test_a_chunk_freed_before_its_record_was_written_never_becomes_durable() -> None:
    catalogue = Catalogue(1, 8)
    catalogue.commit(catalogue.place(ChunkKey(1), 8192))
    catalogue.free(ChunkKey(1))
    again = catalogue.place(ChunkKey(1), 8192)
    catalogue.written(0)
    assert not catalogue.is_durable(ChunkKey(1))
    catalogue.written(0)
    catalogue.commit(again)
    assert not catalogue.is_durable(ChunkKey(1))
    catalogue.written(0)
    assert catalogue.is_durable(ChunkKey(1))


def test_an_abandoned_placement_gives_its_blocks_and_its_slot_back_at_once() -> None:
    catalogue = Catalogue(1, 2)
    record = catalogue.place(ChunkKey(1), 8192)
    catalogue.abandon(record)
    assert len(catalogue) == 0
    assert catalogue.free_data_blocks == 2
    with pytest.raises(UsageError, match="no such pending record"):
        catalogue.abandon(record)
    store(catalogue, 1)
    with pytest.raises(UsageError, match="no such pending record"):
        catalogue.abandon(catalogue.place(ChunkKey(1), 8192))


def test_only_a_committed_chunk_is_freed_and_only_an_outstanding_write_reported() -> None:
    catalogue = Catalogue(1, 8)
    catalogue.place(ChunkKey(1), 1)
    for key in (1, 2):
        with pytest.raises(UsageError, match="is not committed"):
            catalogue.free(ChunkKey(key))
    for block_index in (-1, 0, 1):
        with pytest.raises(UsageError, match="outstanding"):
            catalogue.written(block_index)


def test_records_run_out_and_come_back() -> None:
    catalogue = Catalogue(1, 100)
    for key in range(RECORDS_PER_BLOCK):
        catalogue.place(ChunkKey(key), 1)
    with pytest.raises(ResourceError, match="all 64 records"):
        catalogue.place(ChunkKey(64), 1)
    assert catalogue.free_data_blocks == 36
    catalogue.abandon(catalogue.place(ChunkKey(5), 1))
    assert catalogue.place(ChunkKey(64), 1).slba == 1 + 5


def test_sequence_numbers_run_on_after_a_load_and_never_wrap() -> None:
    loaded = Catalogue.load([block_of(committed(1, 1, 1, sequence=41))], 8)
    assert loaded.place(ChunkKey(2), 1).sequence == 42
    last = Catalogue.load([block_of(committed(1, 1, 1, sequence=(1 << 64) - 1))], 8)
    with pytest.raises(ResourceError, match="sequence numbers"):
        last.place(ChunkKey(2), 1)


@pytest.mark.parametrize(
    ("records", "kept", "reason"),
    [
        ((committed(1, 1, 2, 5), committed(2, 2, 2, 6)), 2, "overlap"),
        ((committed(1, 1, 4, 6), committed(2, 2, 1, 5)), 1, "overlap"),
        ((committed(1, 1, 2, 5), committed(1, 4, 2, 6)), 1, "duplicate"),
        ((committed(1, 1, 2, 5), committed(2, 0, 1, 6)), 1, "range"),
        ((committed(1, 1, 2, 5), committed(2, 8, 2, 6)), 1, "range"),
        ((committed(1, 1, 2, 5), committed(2, (1 << 64) - 1, 1, 6)), 1, "range"),
    ],
)
def test_records_that_contradict_each_other_are_refused_and_reported(
    records: tuple[Record, Record], kept: int, reason: str
) -> None:
    catalogue = Catalogue.load([block_of(*records)], data_blocks=8)
    assert [record.chunk_key for record in catalogue.committed()] == [kept]
    assert [fault.reason for fault in catalogue.faults] == [reason]
    assert_nothing_overlaps(catalogue)


def test_after_a_load_with_faults_nothing_is_placed_or_freed_before_the_repairs_are_written() -> None:
    older, newer = committed(1, 1, 2, 5), committed(2, 2, 2, 6)
    catalogue = Catalogue.load([block_of(newer), bytes(BLOCK_BYTES), block_of(older)], 8, 3)
    assert [fault.reason for fault in catalogue.faults] == ["range", "range"]
    catalogue = Catalogue.load([block_of(older), block_of(), block_of()], 8, 3)
    assert catalogue.find(ChunkKey(1)) is None

    torn = bytearray(block_of(committed(3, 3, 2, 7), committed(4, 5, 2, 8)))
    torn[RECORD_BYTES + 20] ^= 1
    catalogue = Catalogue.load([bytes(torn), bytes(BLOCK_BYTES), bytes(BLOCK_BYTES)], 8)
    assert [(fault.block_index, fault.slot, fault.reason) for fault in catalogue.faults] == [(0, 1, "torn")]
    assert catalogue.find(ChunkKey(3)) is not None
    for refused in (lambda: catalogue.place(ChunkKey(9), 1), lambda: catalogue.free(ChunkKey(3))):
        with pytest.raises(UsageError, match="write what repairs"):
            refused()
    (write,) = catalogue.repairs()
    assert write == (0, block_of(committed(3, 3, 2, 7)))
    catalogue.written(0)
    catalogue.place(ChunkKey(9), 1)
    assert catalogue.repairs() == []


def test_a_catalogue_that_loads_without_faults_needs_no_repairs() -> None:
    catalogue = Catalogue.load([bytes(BLOCK_BYTES)] * 2, 8)
    assert catalogue.faults == ()
    assert catalogue.repairs() == []
    assert catalogue.catalogue_blocks == 2
    assert catalogue.free_data_blocks == 8


@given(st.lists(st.binary(min_size=64, max_size=64), max_size=8), st.integers(0, 64 * 64 - 1))
def test_a_catalogue_of_any_bytes_loads_and_reports_them(pieces: list[bytes], position: int) -> None:
    block = bytearray(block_of(committed(1, 1, 2, 5), committed(2, 3, 2, 6)))
    block[2 * RECORD_BYTES : (2 + len(pieces)) * RECORD_BYTES] = b"".join(pieces)
    block[position] ^= 0x10
    catalogue = Catalogue.load([bytes(block)], 8)
    assert_nothing_overlaps(catalogue)
    damaged = {slot + 2 for slot, piece in enumerate(pieces) if any(piece)} | {position // RECORD_BYTES}
    faulty = {fault.slot for fault in catalogue.faults}
    assert faulty <= damaged
    assert {record.chunk_key for record in catalogue.committed()} == {1, 2} - {slot + 1 for slot in faulty}


@pytest.mark.parametrize(
    ("catalogue_blocks", "data_blocks", "first_data_block"), [(0, 8, None), (1, 0, None), (4, 8, 3)]
)
def test_an_impossible_namespace_is_refused(
    catalogue_blocks: int, data_blocks: int, first_data_block: int | None
) -> None:
    with pytest.raises(UsageError):
        Catalogue(catalogue_blocks, data_blocks, first_data_block)


@pytest.mark.parametrize(("key", "length_bytes"), [(1, 0), (1, 1 << 32), (1 << 128, 1), (-1, 1)])
def test_a_chunk_that_no_record_can_describe_is_refused(key: int, length_bytes: int) -> None:
    with pytest.raises(UsageError):
        Catalogue(1, 8).place(ChunkKey(key), length_bytes)
