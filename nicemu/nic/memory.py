# SPDX-License-Identifier: Apache-2.0
"""The NIC's memory map: its own memory, what hosts gave it, and the regions registered over both."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nicemu.abi import Access, registers
from nicemu.errors import ResourceError, UsageError, VerbsStatus
from nicemu.pcie import PAGE_BYTES, AddressSpace, Backing, Window
from nicemu.rdma import MAX_BACKINGS, AccessError, MemoryRegion, MemoryRegionTable, RdmaState, check_region

NIC_MEMORY = 0x1_0000_0000
"""Bus address of the NIC's own memory."""
HOST_MEMORY = 0x100_0000_0000
"""Host memory is mapped from here upwards, each piece at a fresh address."""


@dataclass(slots=True, eq=False)
class Piece:
    """Shareable memory that the NIC can reach: backing number `index`, mapped at `window`."""

    index: int
    window: Window
    owner: int


class NicMemory:
    """Windows, backings and memory regions of one NIC.

    Its own memory lies in the BAR at `NIC_MEMORY` of a PCIe `fabric`, where there is one, else in a memfd.
    `on_backing(index, backing)` is called when peers have to map a new backing, before any region lies in it,
    and
    `on_removed(index)` when they have to forget it; a number in `quarantined` is not used again before they
    did. `on_registered(region, raw address)` and `on_deregistered(key)` tell of regions.
    """

    def __init__(
        self, state: RdmaState, memory_bytes: int, rng: random.Random, fabric: AddressSpace | None = None
    ) -> None:
        self.space = AddressSpace()
        self.table = MemoryRegionTable(int(state.public[0]) + registers.REGION_TABLE, rng)
        self.on_backing: Callable[[int, Backing], None] = lambda index, backing: None
        self.on_removed: Callable[[int], None] = lambda index: None
        self.on_registered: Callable[[MemoryRegion, int], None] = lambda region, address: None
        self.on_deregistered: Callable[[int], None] = lambda key: None
        self.pieces: dict[int, Piece] = {}
        self.quarantined: set[int] = set()
        self._state = state
        self._next_host = HOST_MEMORY
        self._free_from = self._kept = self._used_to = NIC_MEMORY
        own = Backing.memfd("nicemu-nic", memory_bytes) if fabric is None else _bar(fabric, memory_bytes)
        self.own = self._add(own, NIC_MEMORY, "nic", 0)

    def _add(self, backing: Backing, bus_address: int, kind: str, owner: int) -> Piece:
        free = [
            index
            for index in range(MAX_BACKINGS)
            if self._state.backings[index] == 0 and index not in self.quarantined
        ]
        if not free:
            raise ResourceError(f"{MAX_BACKINGS} pieces of memory are mapped already (ENOSPC)")
        index = free[0]
        piece = Piece(index, self.space.add(bus_address, kind, backing), owner)
        self.pieces[index] = piece
        self._state.backings[index] = backing.address
        return piece

    def add_host(self, backing: Backing, kind: str, owner: int) -> Piece:
        """Map memory of a host process at a bus address of its own."""
        piece = self._add(backing, self._next_host, kind, owner)
        self._next_host += -(-backing.length_bytes // (1 << 21)) * (1 << 21) + (1 << 21)
        self.on_backing(piece.index, backing)
        return piece

    def remove_host(self, piece: Piece) -> None:
        """Unmap memory of a host process; no region may lie in it any more."""
        self._state.backings[piece.index] = 0
        del self.pieces[piece.index]
        self.space.remove(piece.window)
        self.on_removed(piece.index)
        piece.window.backing.close()

    def allocate(self, length_bytes: int) -> int:
        """Return the bus address of page-aligned NIC memory, zeroed; `free_firmware` alone gives it back.

        Raises: ResourceError if the NIC's memory does not suffice.
        """
        rounded = -(-max(length_bytes, 1) // PAGE_BYTES) * PAGE_BYTES
        if self._free_from + rounded > self.own.window.end:
            left = self.own.window.end - self._free_from
            raise ResourceError(
                f"{length_bytes} bytes of NIC memory wanted, {left} left; raise `memory` in the topology"
            )
        address, self._free_from = self._free_from, self._free_from + rounded
        used_before = max(0, min(self._used_to, self._free_from) - address)
        self.space.view(address, rounded)[:used_before] = bytes(used_before)
        self._used_to = max(self._used_to, self._free_from)
        return address

    def keep(self) -> None:
        """What has been allocated up to here is the device's own."""
        self._kept = self._free_from

    def free_firmware(self) -> None:
        """Give back all that was allocated since `keep`; no region lies in it, nothing moves there."""
        self._free_from = self._kept

    def register(
        self, pd: int, address: int, length_bytes: int, access: Access, owner: int, counter: int | None = None
    ) -> MemoryRegion:
        """Register memory that `owner` brought (or the NIC's own, for the firmware).

        Raises: UsageError if the range is not one piece of memory of that owner, ResourceError if it cannot
        be registered.
        """
        window = self.space.find(address, length_bytes)
        piece = next(piece for piece in self.pieces.values() if piece.window is window)
        if piece.owner != owner:
            raise UsageError(f"memory at {address:#x} belongs to another process")
        offset = address - window.bus_address
        region = self.table.register(pd, address, length_bytes, access, piece.index, offset, counter)
        try:
            self.on_registered(region, window.backing.address + offset)
        except ResourceError:
            self.table.deregister(region.key)
            raise
        return region

    def deregister(self, key: int) -> MemoryRegion:
        """Take a key back."""
        region = self.table.deregister(key)
        self.on_deregistered(key)
        return region


def _bar(fabric: AddressSpace, memory_bytes: int) -> Backing:
    """Return the BAR that is NIC memory. Raises: UsageError if it is not there, or of another length."""
    bar = fabric.find(NIC_MEMORY, 1)
    if (bar.bus_address, bar.length_bytes) != (NIC_MEMORY, memory_bytes):
        raise UsageError(
            f"the BAR of NIC memory has {bar.length_bytes} bytes at {bar.bus_address:#x}; the NIC is to have "
            f"{memory_bytes} at {NIC_MEMORY:#x}"
        )
    return bar.backing


class RegionAccess:
    """Memory as the RoCEv2 engine reaches it: through keys alone."""

    def __init__(self, memory: NicMemory) -> None:
        self._memory = memory

    def _view(
        self, pd: int, key: int, address: int, length: int, access: int, status: VerbsStatus
    ) -> memoryview:
        table = self._memory.table
        verdict = check_region(
            np.uint64(table.address),
            np.uint32(key),
            np.uint32(pd),
            np.uint64(address),
            np.uint64(length),
            np.uint32(access),
        )
        if verdict < 0:
            raise AccessError(status, table.explain(int(verdict), key, pd, address, length))
        return self._memory.space.view(address, length, "rdma")

    def local(self, pd: int, address: int, length: int, lkey: int, write: bool) -> memoryview:
        """Return local memory of a work request, or raise with LOC_PROT_ERR."""
        access = int(Access.LOCAL_WRITE) if write else 0
        return self._view(pd, lkey, address, length, access, VerbsStatus.LOC_PROT_ERR)

    def remote(self, pd: int, rkey: int, address: int, length: int, access: Access) -> memoryview:
        """Return memory that a peer names, or raise with REM_ACCESS_ERR."""
        return self._view(pd, rkey, address, length, int(access), VerbsStatus.REM_ACCESS_ERR)
