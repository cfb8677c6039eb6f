# SPDX-License-Identifier: Apache-2.0
"""PRP entries and lists to memory segments, and back.

A physical region page (PRP) entry names one memory page. A command carries two: `prp1` may start inside its
page, `prp2` is the second page or, when more than two pages are touched, the address of a list of the
remaining ones. The last entry of a full list page points at the next list page.

Source: NVM Express Base Specification 2.0, "Physical Region Page Entry and List".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nicemu.errors import NvmeCommandError, NvmeStatus, UsageError
from nicemu.pcie import PAGE_BYTES, AddressSpace

Segment = tuple[int, int]
"""Bus address and length in bytes of a contiguous piece of memory."""

ENTRY_BYTES = 8


@dataclass(frozen=True, slots=True)
class PrpList:
    """The PRP entries of one buffer: what goes into the command, and the list pages that it occupies."""

    prp1: int
    prp2: int
    list_pages: tuple[int, ...] = ()


def walk_prp(
    prp1: int,
    prp2: int,
    length_bytes: int,
    memory: AddressSpace,
    *,
    page_bytes: int = PAGE_BYTES,
    initiator: str = "",
) -> list[Segment]:
    """Return the memory segments that a command's PRP entries describe, in transfer order.

    Physically adjacent pages are merged; no segment crosses from one window into another. List pages are read
    as `initiator`.
    Raises: NvmeCommandError with PRP_OFFSET_INVALID if an entry other than the first, or a list pointer
    inside a list, is not page-aligned, if `prp1` is not dword-aligned or the list in `prp2` not
    qword-aligned; with DATA_TRANSFER_ERROR if no memory is mapped where an entry points.
    Source: NVM Express Base Specification 2.0, "Physical Region Page Entry and List".
    """
    if length_bytes <= 0:
        return []
    if prp1 % 4:
        raise _offset_invalid("PRP entry 1", prp1, 4)
    first_bytes = page_bytes - prp1 % page_bytes
    if length_bytes <= first_bytes:
        return _mapped([(prp1, length_bytes)], memory)
    page_count = -(-(length_bytes - first_bytes) // page_bytes)
    pages = (prp2,) if page_count == 1 else _list_entries(prp2, page_count, memory, page_bytes, initiator)
    merged: list[Segment] = []
    start, end = prp1, prp1 + first_bytes
    for page in pages:
        if page != end:  # a page that continues the last one is aligned as that one is
            if page % page_bytes:
                raise _offset_invalid("a PRP entry behind the first", page, page_bytes)
            merged.append((start, end - start))
            start = page
        end = page + page_bytes
    end -= first_bytes + page_count * page_bytes - length_bytes
    merged.append((start, end - start))
    return _mapped(merged, memory)


def build_prp(
    bus_address: int,
    length_bytes: int,
    memory: AddressSpace,
    take_page: Callable[[], int],
    *,
    page_bytes: int = PAGE_BYTES,
    initiator: str = "",
) -> PrpList:
    """Describe a contiguous buffer; list pages come from `take_page`, as page-aligned bus addresses.

    `list_page_count` tells beforehand how many it will take.
    Raises: UsageError if the buffer is empty or not dword-aligned.
    """
    if length_bytes <= 0 or bus_address % 4:
        raise UsageError(
            f"a buffer of {length_bytes} bytes at {bus_address:#x} cannot be described by PRP entries; it "
            "has to have at least one byte and start on a multiple of 4"
        )
    first_page = bus_address - bus_address % page_bytes
    page_count = -(-(bus_address + length_bytes - first_page) // page_bytes)
    if page_count == 1:
        return PrpList(bus_address, 0)
    pages = range(first_page + page_bytes, first_page + page_count * page_bytes, page_bytes)
    if page_count == 2:
        return PrpList(bus_address, pages[0])
    slot_count = page_bytes // ENTRY_BYTES
    list_pages = [take_page()]
    done = 0
    while True:
        entries = list(pages[done : done + slot_count])
        place = list_pages[-1]
        is_last = done + len(entries) == len(pages)
        if not is_last:
            list_pages.append(take_page())
            entries[-1] = list_pages[-1]
            done -= 1
        done += len(entries)
        memory.write(place, struct.pack(f"<{len(entries)}Q", *entries), initiator)
        if is_last:
            return PrpList(bus_address, list_pages[0], tuple(list_pages))


def list_page_count(bus_address: int, length_bytes: int, *, page_bytes: int = PAGE_BYTES) -> int:
    """Return how many list pages `build_prp` takes for a buffer."""
    page_count = -(-(bus_address % page_bytes + length_bytes) // page_bytes)
    if page_count <= 2:
        return 0
    slot_count = page_bytes // ENTRY_BYTES
    return max(1, -(-(page_count - 2) // (slot_count - 1)))


def _list_entries(
    address: int, count: int, memory: AddressSpace, page_bytes: int, initiator: str
) -> Sequence[int]:
    """Return `count` data entries of the list at `address`, following the pointers from page to page."""
    if address % ENTRY_BYTES:
        raise _offset_invalid("the PRP list pointer", address, ENTRY_BYTES)
    entries: list[int] = []
    while True:
        slot_count = (page_bytes - address % page_bytes) // ENTRY_BYTES
        missing = count - len(entries)
        read_count = min(missing, slot_count)
        try:
            page = memory.view(address, read_count * ENTRY_BYTES, initiator)
        except UsageError as error:
            raise NvmeCommandError(NvmeStatus.DATA_TRANSFER_ERROR, f"a PRP list: {error}") from error
        entries.extend(struct.unpack(f"<{read_count}Q", page))
        if missing <= slot_count:
            return entries
        address = entries.pop()
        if address % page_bytes:
            raise _offset_invalid("a PRP list pointer inside a list", address, page_bytes)


def _mapped(segments: list[Segment], memory: AddressSpace) -> list[Segment]:
    """Return the segments, cut where one window ends and an adjacent one begins."""
    pieces: list[Segment] = []
    for address, length_bytes in segments:
        while length_bytes:
            try:
                window = memory.find(address, 1)
            except UsageError as error:
                raise NvmeCommandError(NvmeStatus.DATA_TRANSFER_ERROR, f"a PRP entry: {error}") from error
            piece_bytes = min(length_bytes, window.end - address)
            pieces.append((address, piece_bytes))
            address += piece_bytes
            length_bytes -= piece_bytes
    return pieces


def _offset_invalid(what: str, address: int, alignment: int) -> NvmeCommandError:
    return NvmeCommandError(
        NvmeStatus.PRP_OFFSET_INVALID, f"{what} is {address:#x}; it has to be a multiple of {alignment}"
    )
