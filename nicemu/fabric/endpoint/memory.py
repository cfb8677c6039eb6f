# SPDX-License-Identifier: Apache-2.0
"""Memory of this process that an engine reaches, each region of it under a key and addresses of its own."""

from __future__ import annotations

import random
from dataclasses import dataclass

from nicemu.abi import Access, registers
from nicemu.arguments import check_type, check_whole
from nicemu.errors import ResourceError, UsageError
from nicemu.pcie import Backing
from nicemu.rdma import MAX_BACKINGS, MemoryRegionTable, new_state

ALL_RIGHTS = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
_FIRST_ADDRESS = 0x7000_0000_0000
_ADDRESS_STEP = 1 << 32


@dataclass(frozen=True, slots=True)
class RegisteredRegion:
    """A registration: `key` is lkey and rkey, `address` what work requests name, `view` the bytes."""

    key: int
    address: int
    view: memoryview
    number: int


class RegisteredMemory:
    """Registers memory of zeros; `state` is where an engine finds it."""

    def __init__(self, rng: random.Random) -> None:
        self._public = Backing.anonymous(registers.PUBLIC_BYTES)
        self._table = MemoryRegionTable(self._public.address + registers.REGION_TABLE, rng)
        self._free = list(range(MAX_BACKINGS - 1, -1, -1))
        self._is_closed = False
        self._backings: dict[int, tuple[int, Backing]] = {}
        self.state = new_state(self._public.address)

    def register(self, length_bytes: int, access: Access = ALL_RIGHTS, pd: int = 1) -> RegisteredRegion:
        """Register new memory of zeros.

        Raises: UsageError for a value out of range (a region has up to 4 GiB); ResourceError if there are too
        many regions, or there is no memory.
        """
        check_whole("length_bytes", length_bytes, 1, _ADDRESS_STEP)
        check_whole("access", access, 0, int(ALL_RIGHTS))
        check_whole("pd", pd, 0, (1 << 32) - 1)
        if self._is_closed:
            raise UsageError("this memory is closed, and its endpoint with it; open another")
        if not self._free:
            raise ResourceError(f"{MAX_BACKINGS} regions are registered already; deregister one")
        number = self._free[-1]
        address = _FIRST_ADDRESS + number * _ADDRESS_STEP
        try:
            backing = Backing.anonymous(length_bytes)
        except OSError as error:
            raise ResourceError(
                f"no memory for {length_bytes} bytes: {error.strerror}; ask for less"
            ) from error
        self.state.backings[number] = backing.address
        region = self._table.register(pd, address, length_bytes, access, number, 0)
        self._free.pop()
        self._backings[number] = region.key, backing
        return RegisteredRegion(region.key, address, backing.view, number)

    def deregister(self, region: RegisteredRegion) -> None:
        """Take a key back and give the memory back; views of it must be gone.

        Raises: UsageError if the region is not registered.
        """
        check_type("region", region, RegisteredRegion, "what register() returned")
        self._table.deregister(region.key)
        self.state.backings[region.number] = 0
        region.view.release()
        self._backings.pop(region.number)[1].close()
        self._free.append(region.number)

    def close(self) -> None:
        """Take all keys back, and give the memory behind them back.

        The table of keys stays as long as this object does, so that an engine that goes on finds no key.
        """
        self._is_closed = True
        for number, (key, backing) in self._backings.items():
            self._table.deregister(key)
            self.state.backings[number] = 0
            backing.close()
        self._backings.clear()
