# SPDX-License-Identifier: Apache-2.0
"""Memory regions: what a key covers, who may use it, and how it is refused.

The table lies in the NIC's public memory, so that the datapath of a peer on the same machine checks the very
entry that this NIC would check. A key is its entry's index in the low 12 bits and a tag above them that
changes with every registration, so a key that was given back names nothing.
Source: InfiniBand Architecture Specification 1.4, volume 1, "Memory Management" and "Protection Domains";
ibv_reg_mr(3).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from nicemu.abi import Access, registers
from nicemu.arguments import check_whole
from nicemu.errors import ResourceError, UsageError
from nicemu.hot import Int, hot
from nicemu.pcie import load_u32, load_u64, store_u32, store_u64

from .state import MAX_BACKINGS

KEY_INDEX_MASK = np.uint32(0xFFF)
BAD_KEY, BAD_DOMAIN, BAD_ACCESS, BAD_BOUNDS = -1, -2, -3, -4
"""Why a key is refused: unknown, of another protection domain, without the right, range not covered."""

_MASK_32, _MASK_64 = (1 << 32) - 1, (1 << 64) - 1
_ALL_ACCESS = int(Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC)
_ENTRY = np.uint64(registers.REGION_BYTES)
_COUNT = np.uint32(registers.MAX_REGIONS)
_KEY, _PD, _ACCESS, _BACKING = np.uint64(0), np.uint64(4), np.uint64(8), np.uint64(12)
_IOVA, _LENGTH, _OFFSET, _COUNTER = np.uint64(16), np.uint64(24), np.uint64(32), np.uint64(40)


@hot
def check_region(table: Int, key: Int, pd: Int, address: Int, length: Int, access: Int) -> Int:
    """Return the index of the entry that covers the range with these rights, or why not (negative)."""
    index = key & KEY_INDEX_MASK
    if index >= _COUNT or key == np.uint32(0):
        return BAD_KEY
    entry = table + np.uint64(index) * _ENTRY
    if np.uint32(load_u32(entry + _KEY)) != key:
        return BAD_KEY
    if np.uint32(load_u32(entry + _PD)) != pd:
        return BAD_DOMAIN
    if np.uint32(load_u32(entry + _ACCESS)) & access != access:
        return BAD_ACCESS
    iova = np.uint64(load_u64(entry + _IOVA))
    covered = np.uint64(load_u64(entry + _LENGTH))
    if address < iova or length > covered or address - iova > covered - length:
        return BAD_BOUNDS
    return np.int64(index)


@hot
def raw_address(table: Int, index: Int, address: Int, backings: np.ndarray) -> Int:
    """Return where a checked address lies in this process; 0 if its memory is not mapped here yet."""
    entry = table + np.uint64(index) * _ENTRY
    base = backings[np.int64(load_u32(entry + _BACKING)) & (len(backings) - 1)]
    if base == np.uint64(0):
        return np.uint64(0)
    start = np.uint64(load_u64(entry + _OFFSET))
    return base + start + (address - np.uint64(load_u64(entry + _IOVA)))


@hot
def arrival_counter(table: Int, index: Int) -> Int:
    """Return the counter that counts arrivals in a region, or -1."""
    return np.int64(load_u32(table + np.uint64(index) * _ENTRY + _COUNTER)) - 1


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """A registration. `lkey` and `rkey` are one number; `iova` is the address that work requests name."""

    key: int
    pd: int
    iova: int
    length_bytes: int
    access: Access
    backing: int

    @property
    def lkey(self) -> int:
        """Key for local use."""
        return self.key

    @property
    def rkey(self) -> int:
        """Key for a peer."""
        return self.key


class MemoryRegionTable:
    """Registers and removes memory regions in a public table at raw address `table_address`."""

    def __init__(self, table_address: int, rng: random.Random) -> None:
        self.address = table_address
        self._rng = rng
        self.regions: dict[int, MemoryRegion] = {}
        self.counters: dict[int, int] = {}
        self._free = list(range(registers.MAX_REGIONS - 1, -1, -1))
        self._tags = [0] * registers.MAX_REGIONS

    def _entry(self, key: int) -> int:
        return self.address + (key & int(KEY_INDEX_MASK)) * registers.REGION_BYTES

    def register(
        self,
        pd: int,
        iova: int,
        length_bytes: int,
        access: Access,
        backing: int,
        offset_bytes: int,
        counter: int | None = None,
    ) -> MemoryRegion:
        """Register `length_bytes` at `offset_bytes` of a backing; `counter` counts remote writes that arrive
        there.

        Raises: UsageError for a number out of range, or an empty or wrapping range of addresses;
        ResourceError if the table is full.
        """
        check_whole("pd", pd, 0, _MASK_32)
        check_whole("access", access, 0, _ALL_ACCESS)
        check_whole("backing", backing, 0, MAX_BACKINGS - 1)
        check_whole("offset_bytes", offset_bytes, 0, _MASK_64)
        check_whole("iova", iova, 0, _MASK_64)
        check_whole("length_bytes", length_bytes, 0, _MASK_64)
        if counter is not None:
            check_whole("counter", counter, 0, _MASK_32 - 1)
        if length_bytes < 1 or iova < 0 or iova + length_bytes > 1 << 64:
            raise UsageError(f"a region of {length_bytes} bytes at {iova:#x} is not a range of addresses")
        if not self._free:
            raise ResourceError(f"all {registers.MAX_REGIONS} memory regions are in use (ENOSPC)")
        index = self._free.pop()
        tag = self._rng.randrange(1, 1 << 20)
        if tag == self._tags[index]:
            tag = tag % ((1 << 20) - 1) + 1
        self._tags[index] = tag
        key = index | tag << 12
        entry = self._entry(key)
        store_u32(entry + 4, pd)
        store_u32(entry + 8, int(access))
        store_u32(entry + 12, backing)
        store_u64(entry + 16, iova)
        store_u64(entry + 24, length_bytes)
        store_u64(entry + 32, offset_bytes)
        store_u32(entry + 40, 0 if counter is None else counter + 1)
        store_u32(entry, key)
        region = MemoryRegion(key, pd, iova, length_bytes, access, backing)
        self.regions[key] = region
        if counter is not None:
            self.counters[key] = counter
        return region

    def deregister(self, key: int) -> MemoryRegion:
        """Take a key back; from here on it names nothing. Copies that began earlier may still run.

        Raises: UsageError if the key is not registered.
        """
        region = self.regions.pop(key, None)
        if region is None:
            raise UsageError(f"key {key:#x} is not registered")
        self.counters.pop(key, None)
        store_u32(self._entry(key), 0)
        self._free.append(key & int(KEY_INDEX_MASK))
        return region

    def explain(self, refusal: int, key: int, pd: int, address: int, length_bytes: int) -> str:
        """Say in a sentence why `check_region` refused."""
        region = self.regions.get(key)
        if refusal == BAD_KEY or region is None:
            return f"key {key:#x} is not registered"
        if refusal == BAD_DOMAIN:
            return f"key {key:#x} belongs to protection domain {region.pd}, not {pd}"
        if refusal == BAD_ACCESS:
            return f"key {key:#x} does not grant that access (it has {region.access!r})"
        end = region.iova + region.length_bytes
        return (
            f"key {key:#x} covers [{region.iova:#x}, {end:#x}); "
            f"{length_bytes} bytes at {address:#x} lie outside it"
        )
