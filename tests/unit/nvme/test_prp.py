# SPDX-License-Identifier: Apache-2.0
import enum
import struct
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import NvmeCommandError, NvmeStatus, UsageError
from nicemu.nvme import build_prp, list_page_count, walk_prp
from nicemu.pcie import AddressSpace, Backing

PAGE = 4096
DATA = 0x100_0000
LISTS = 0x800_0000
GUARD = 0xA5

WINDOW = Backing.anonymous(2048 * PAGE)
LIST_WINDOW = Backing.anonymous(16 * PAGE)


def new_memory() -> AddressSpace:
    memory = AddressSpace()
    memory.add(DATA, "nic", WINDOW)
    memory.add(LISTS, "nic", LIST_WINDOW)
    return memory


def page_taker(first: int = LISTS) -> tuple[list[int], Callable[[], int]]:
    taken: list[int] = []

    def take() -> int:
        taken.append(first + len(taken) * PAGE)
        return taken[-1]

    return taken, take


def brute_force_bytes(prp1: int, prp2: int, length_bytes: int, memory: AddressSpace) -> list[int]:
    """Every page's piece by the book, one entry at a time, nothing merged, as the address of every dword."""
    pieces = []
    left = length_bytes
    here = min(left, PAGE - prp1 % PAGE)
    pieces.append((prp1, here))
    left -= here
    if 0 < left <= PAGE:
        pieces.append((prp2, left))
        left = 0
    cursor = prp2
    while left:
        (entry,) = struct.unpack("<Q", memory.read(cursor, 8))
        if (cursor + 8) % PAGE == 0 and left > PAGE:
            cursor = entry
            continue
        pieces.append((entry, min(left, PAGE)))
        left -= min(left, PAGE)
        cursor += 8
    return [address + i for address, piece in pieces for i in range(0, piece, 4)]


def spread(segments: list[tuple[int, int]]) -> list[int]:
    return [address + i for address, piece in segments for i in range(0, piece, 4)]


@given(
    offset=st.integers(0, 1023).map(lambda words: words * 4),
    pages=st.lists(st.integers(0, 2047), min_size=1, max_size=40),
    tail_words=st.integers(1, 1024),
    list_slot=st.integers(0, 511),
)
def test_the_walk_is_the_brute_force_walk(
    offset: int, pages: list[int], tail_words: int, list_slot: int
) -> None:
    memory = new_memory()
    addresses = [DATA + page * PAGE for page in pages]
    prp1 = addresses[0] + offset
    if len(pages) == 1:
        length_bytes, prp2 = min(tail_words * 4, PAGE - offset), 0xDEAD
    else:
        length_bytes = PAGE - offset + (len(pages) - 2) * PAGE + tail_words * 4
        prp2 = addresses[1]
    if len(pages) > 2:
        prp2 = cursor = LISTS + list_slot * 8
        next_page = LISTS + PAGE
        for place, entry in enumerate(addresses[1:], start=1):
            if (cursor + 8) % PAGE == 0 and place < len(addresses) - 1:
                memory.write(cursor, struct.pack("<Q", next_page))
                cursor, next_page = next_page, next_page + PAGE
            memory.write(cursor, struct.pack("<Q", entry))
            cursor += 8
    segments = walk_prp(prp1, prp2, length_bytes, memory)
    assert sum(length for _, length in segments) == length_bytes
    assert spread(segments) == brute_force_bytes(prp1, prp2, length_bytes, memory)
    assert all(a + length != b for (a, length), (b, _) in pairwise(segments))


@given(offset=st.integers(0, 3 * 1024).map(lambda words: words * 4), length_bytes=st.integers(1, 2040 * PAGE))
def test_a_contiguous_buffer_comes_back_as_one_segment(offset: int, length_bytes: int) -> None:
    memory = new_memory()
    taken, take = page_taker()
    prp = build_prp(DATA + offset, length_bytes, memory, take)
    assert list_page_count(DATA + offset, length_bytes) == len(taken) == len(prp.list_pages)
    assert walk_prp(prp.prp1, prp.prp2, length_bytes, memory) == [(DATA + offset, length_bytes)]


@pytest.mark.parametrize(
    ("data_pages", "list_pages"),
    [(1, 0), (2, 0), (3, 1), (512, 1), (513, 1), (514, 2), (1024, 2), (1025, 3)],
)
def test_a_list_page_is_chained_only_when_its_last_slot_does_not_do(data_pages: int, list_pages: int) -> None:
    memory = new_memory()
    taken, take = page_taker()
    prp = build_prp(DATA, data_pages * PAGE, memory, take)
    assert len(taken) == list_pages
    assert walk_prp(prp.prp1, prp.prp2, data_pages * PAGE, memory) == [(DATA, data_pages * PAGE)]


def test_building_a_list_writes_nothing_but_its_entries() -> None:
    memory = new_memory()
    lists = memory.view(LISTS, 16 * PAGE)
    lists[:] = bytes([GUARD]) * len(lists)
    _, take = page_taker(LISTS + PAGE)
    build_prp(DATA, 520 * PAGE, memory, take)
    assert set(lists[:PAGE]) == {GUARD}
    assert set(lists[2 * PAGE + 8 * 8 :]) == {GUARD}


def test_lists_are_read_by_the_named_initiator() -> None:
    memory = new_memory()
    _, take = page_taker()
    prp = build_prp(DATA, 10 * PAGE, memory, take)
    walk_prp(prp.prp1, prp.prp2, 10 * PAGE, memory, initiator="nvme")
    assert memory.traffic == {("nvme", "nic"): 9 * 8}


def test_adjacent_pages_of_two_windows_are_two_segments() -> None:
    memory = AddressSpace()
    memory.add(DATA, "nic", Backing.anonymous(PAGE))
    memory.add(DATA + PAGE, "gpu", Backing.anonymous(PAGE))
    assert walk_prp(DATA, DATA + PAGE, 2 * PAGE, memory) == [(DATA, PAGE), (DATA + PAGE, PAGE)]


def refusal(prp1: int, prp2: int, length_bytes: int) -> enum.IntEnum:
    with pytest.raises(NvmeCommandError) as caught:
        walk_prp(prp1, prp2, length_bytes, new_memory())
    return caught.value.status


def test_a_first_entry_off_a_dword_is_refused() -> None:
    assert refusal(DATA + 2, 0, 4) is NvmeStatus.PRP_OFFSET_INVALID


def test_a_second_page_with_an_offset_is_refused() -> None:
    assert refusal(DATA, DATA + PAGE + 512, 2 * PAGE) is NvmeStatus.PRP_OFFSET_INVALID


def test_a_list_off_a_qword_is_refused() -> None:
    assert refusal(DATA, LISTS + 4, 3 * PAGE) is NvmeStatus.PRP_OFFSET_INVALID


def test_a_list_entry_with_an_offset_is_refused() -> None:
    new_memory().write(LISTS, struct.pack("<QQ", DATA + PAGE, DATA + 2 * PAGE + 4))
    assert refusal(DATA, LISTS, 3 * PAGE) is NvmeStatus.PRP_OFFSET_INVALID


def test_a_pointer_to_the_next_list_page_with_an_offset_is_refused() -> None:
    new_memory().write(LISTS + PAGE - 8, struct.pack("<Q", LISTS + PAGE + 8))
    assert refusal(DATA, LISTS + PAGE - 8, 3 * PAGE) is NvmeStatus.PRP_OFFSET_INVALID


@pytest.mark.parametrize("prp2", [0, 0x7000_0000_0000])
def test_an_entry_or_a_list_outside_all_memory_is_refused(prp2: int) -> None:
    assert refusal(DATA, prp2, 2 * PAGE) is NvmeStatus.DATA_TRANSFER_ERROR
    assert refusal(DATA, prp2, 3 * PAGE) is NvmeStatus.DATA_TRANSFER_ERROR


def test_no_bytes_have_no_segments() -> None:
    assert walk_prp(DATA, 0, 0, new_memory()) == []


@pytest.mark.parametrize(("address", "length_bytes"), [(DATA, 0), (DATA + 2, 8)])
def test_a_buffer_that_no_entries_can_describe_is_refused(address: int, length_bytes: int) -> None:
    _, take = page_taker()
    with pytest.raises(UsageError, match="cannot be described"):
        build_prp(address, length_bytes, new_memory(), take)
