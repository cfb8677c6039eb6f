# SPDX-License-Identifier: Apache-2.0
"""A catalogue record is whole, free, or recognised as neither."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.kv import (
    RECORDS_PER_BLOCK,
    ChunkKey,
    Record,
    RecordError,
    RecordState,
    RecordVersionError,
    decode_block,
    decode_record,
    encode_block,
    encode_record,
)

RECORD = Record(ChunkKey(0x0102), 0x1122, 1, 8192, 0xA1B2C3D4, 77, RecordState.COMMITTED)


@st.composite
def records(draw: st.DrawFn) -> Record:
    length_bytes = draw(st.integers(1, (1 << 32) - 1))
    return Record(
        ChunkKey(draw(st.integers(0, (1 << 128) - 1))),
        draw(st.integers(0, (1 << 64) - 1)),
        (length_bytes - 1) // 4096,
        length_bytes,
        draw(st.integers(0, (1 << 32) - 1)),
        draw(st.integers(0, (1 << 64) - 1)),
        RecordState.COMMITTED,
    )


def sealed(fields: bytes) -> bytes:
    return fields + zlib.crc32(fields).to_bytes(4, "little")


@given(records())
def test_a_record_comes_out_of_its_slot_as_it_went_in(record: Record) -> None:
    data = encode_record(record)
    assert len(data) == 64
    assert decode_record(data) == record


def test_the_bytes_are_laid_out_as_documented() -> None:
    assert encode_record(RECORD) == sealed(
        bytes(14)
        + bytes.fromhex("0102 2211000000000000 01000000 00200000 d4c3b2a1 4d00000000000000 0200 0100")
        + bytes(12)
    )


def test_nlb_is_zero_based() -> None:
    assert RECORD.nlb == 1
    assert RECORD.block_count == 2


def test_a_slot_of_zeros_is_free() -> None:
    assert decode_record(bytes(64)) is None


@given(records(), records(), st.integers(1, 63))
def test_a_record_torn_between_old_and_new_is_one_of_them_or_refused(
    old: Record, new: Record, written_bytes: int
) -> None:
    torn = encode_record(new)[:written_bytes] + encode_record(old)[written_bytes:]
    if torn in (encode_record(old), encode_record(new)):
        return
    with pytest.raises(RecordError) as refused:
        decode_record(torn)
    assert refused.value.reason == "torn"


@given(st.integers(0, 511))
def test_a_flipped_bit_is_recognised(bit: int) -> None:
    data = bytearray(encode_record(RECORD))
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RecordError):
        decode_record(bytes(data))


@given(st.binary(max_size=80))
def test_any_bytes_are_free_or_refused(data: bytes) -> None:
    if data == bytes(64):
        assert decode_record(data) is None
        return
    with pytest.raises(RecordError):
        decode_record(data)


@pytest.mark.parametrize(
    ("position", "byte"),
    [(44, 1), (44, 0), (59, 1), (24, 0), (24, 2)],
    ids=["pending", "0", "tail", "0", "3"],
)
def test_a_whole_record_that_contradicts_itself_is_refused(position: int, byte: int) -> None:
    fields = bytearray(encode_record(RECORD)[:60])
    fields[position] = byte
    with pytest.raises(RecordError) as refused:
        decode_record(sealed(bytes(fields)))
    assert refused.value.reason == "content"


def test_a_whole_record_of_another_version_is_told_apart_from_a_corrupt_one() -> None:
    fields = bytearray(encode_record(RECORD)[:60])
    fields[46] = 2
    with pytest.raises(RecordVersionError, match="version 2"):
        decode_record(sealed(bytes(fields)))
    with pytest.raises(RecordVersionError):
        decode_block(sealed(bytes(fields)) + bytes(63 * 64))


@pytest.mark.parametrize(
    "changes",
    [
        {"state": RecordState.PENDING},
        {"sequence": 1 << 64},
        {"slba": -1},
        {"chunk_key": ChunkKey(1 << 128)},
        {"nlb": 2},
        {"length_bytes": 0},
        {"payload_crc32": 1 << 32},
    ],
)
def test_a_record_that_decoding_would_refuse_is_not_encoded(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        encode_record(dataclasses.replace(RECORD, **changes))


def test_a_block_holds_64_records_and_a_faulty_one_hides_no_other() -> None:
    slots: list[Record | None] = [
        dataclasses.replace(RECORD, sequence=slot) if slot % 3 else None for slot in range(RECORDS_PER_BLOCK)
    ]
    data = bytearray(encode_block(slots))
    assert len(data) == 4096
    assert decode_block(bytes(data)) == (slots, [])
    data[64 * 5 + 17] ^= 0xFF
    found, faults = decode_block(bytes(data), block_index=3)
    assert found == [None if slot == 5 else record for slot, record in enumerate(slots)]
    assert [(fault.block_index, fault.slot, fault.reason) for fault in faults] == [(3, 5, "torn")]


def test_a_block_of_another_size_is_refused() -> None:
    with pytest.raises(UsageError, match="4095 bytes"):
        decode_block(bytes(4095))
    with pytest.raises(UsageError, match="63 were given"):
        encode_block([None] * 63)
