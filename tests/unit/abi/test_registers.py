# SPDX-License-Identifier: Apache-2.0
"""The layout of shared memory: areas lie inside their BAR, apart from each other, and hold what they must."""

from __future__ import annotations

import itertools

import pytest

from nicemu.abi import ARMED, COMMAND, COMPLETION, RESPONSE, registers

PAGE_BYTES = 4096
WORDS = 8 * registers.WORD_STRIDE
PACKETS = registers.PACKET_COUNT * registers.PACKET_BYTES
QUEUE_PAIR_RECEIVES = registers.RECEIVE_QUEUE_COUNT * registers.RECEIVE_BYTES

OWNER_AREAS = {
    "identity": (registers.IDENTITY, 16),
    "doorbells": (registers.DOORBELLS, 8 * registers.DOORBELL_COUNT),
    "host words": (registers.HOST_WORDS, WORDS),
    "NIC words": (registers.NIC_WORDS, WORDS),
    "commands": (registers.COMMANDS, registers.COMMAND_COUNT * COMMAND.itemsize),
    "responses": (registers.RESPONSES, registers.RESPONSE_COUNT * RESPONSE.itemsize),
    "staging": (registers.STAGING, registers.STAGING_COUNT * ARMED.itemsize),
    "completions": (
        registers.COMPLETIONS,
        registers.QUEUE_COUNT * registers.COMPLETION_COUNT * COMPLETION.itemsize,
    ),
    "write-back": (registers.WRITE_BACK, registers.MAX_COUNTERS * registers.WRITE_BACK_BYTES),
    "receive ring": (registers.RECEIVE_RING, PACKETS),
    "transmit ring": (registers.TRANSMIT_RING, PACKETS),
}
PUBLIC_AREAS = {
    "regions": (registers.REGION_TABLE, registers.MAX_REGIONS * registers.REGION_BYTES),
    "queue pairs": (registers.QUEUE_PAIR_TABLE, registers.MAX_QUEUE_PAIRS * registers.QUEUE_PAIR_BYTES),
    "receives": (registers.RECEIVE_QUEUES, registers.MAX_QUEUE_PAIRS * QUEUE_PAIR_RECEIVES),
}
INBOX_AREAS = {
    "head": (registers.INBOX_HEAD, 8),
    "tail": (registers.INBOX_TAIL, 8),
    "busy": (registers.INBOX_BUSY, 8),
    "records": (registers.INBOX_RECORDS, registers.INBOX_COUNT * registers.INBOX_RECORD_BYTES),
}
LAYOUTS = [
    (OWNER_AREAS, registers.OWNER_BAR_BYTES),
    (PUBLIC_AREAS, registers.PUBLIC_BYTES),
    (INBOX_AREAS, registers.INBOX_BYTES),
]
layouts = pytest.mark.parametrize(("areas", "size"), LAYOUTS, ids=["owner BAR", "public tables", "inbox"])


@layouts
def test_no_two_areas_overlap_and_none_leaves_its_memory(
    areas: dict[str, tuple[int, int]], size: int
) -> None:
    ordered = sorted(areas.items(), key=lambda area: area[1])
    for (name, (start, length)), (following, (next_start, _)) in itertools.pairwise(ordered):
        assert start + length <= next_start, f"{name} runs into {following}"
    assert all(start >= 0 and start + length <= size for start, length in areas.values())


@layouts
def test_every_area_begins_on_a_cache_line(areas: dict[str, tuple[int, int]], size: int) -> None:
    """So that no two writers share a line, and every record of 64 bytes is one line."""
    assert all(start % 64 == 0 for start, _ in areas.values())
    assert size % PAGE_BYTES == 0


@pytest.mark.parametrize("name", ["doorbells", "host words", "NIC words"])
def test_what_different_sides_write_lies_in_pages_of_its_own(name: str) -> None:
    start, length = OWNER_AREAS[name]
    assert start % PAGE_BYTES == 0
    pages = range(start // PAGE_BYTES, (start + length - 1) // PAGE_BYTES + 1)
    for other, (other_start, other_length) in OWNER_AREAS.items():
        if other != name:
            other_pages = range(other_start // PAGE_BYTES, (other_start + other_length - 1) // PAGE_BYTES + 1)
            assert not set(pages) & set(other_pages)


def test_every_ring_has_a_word_of_its_own() -> None:
    words = [
        registers.WORD_COMMANDS,
        registers.WORD_RESPONSES,
        registers.WORD_RECEIVE,
        registers.WORD_TRANSMIT,
    ]
    words += [registers.WORD_COMPLETIONS + queue for queue in range(registers.QUEUE_COUNT)]
    assert sorted(words) == list(range(8))


def test_ring_sizes_are_powers_of_two() -> None:
    """Entry numbers are 64-bit and never wrap, but a divisor of 2**64 keeps them right even if they did."""
    for count in (
        registers.COMMAND_COUNT,
        registers.RESPONSE_COUNT,
        registers.COMPLETION_COUNT,
        registers.PACKET_COUNT,
        registers.RECEIVE_QUEUE_COUNT,
        registers.INBOX_COUNT,
    ):
        assert count & (count - 1) == 0


def test_the_transmit_doorbell_is_the_first_cell_so_that_the_open_cells_lie_together() -> None:
    assert registers.TRANSMIT_DOORBELL == 0


def test_the_magic_number_reads_as_the_name_in_memory() -> None:
    assert registers.MAGIC.to_bytes(8, "little") == b"NICEMU\0\0"


def test_a_region_index_fits_the_low_bits_of_a_key() -> None:
    assert registers.MAX_REGIONS <= 1 << 12
