# SPDX-License-Identifier: Apache-2.0
"""Interrupts as memory writes: the message of each vector of a controller that is the NIC's own.

Source: PCI Express Base Specification 5.0, "MSI-X Capability and Table Structure" (Per Vector Mask, Pending
Bits); NVM Express over PCIe Transport Specification 1.0, "Interrupts".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from nicemu.errors import UsageError
from nicemu.pcie import AddressSpace, store_u32


class Messages(Protocol):
    """The interrupt vectors of a controller, each masked at first. `OutsideController` has them, too."""

    def set_message(self, vector: int, bus_address: int, data: int) -> None:
        """Let interrupt `vector` store the 32 bits `data` at `bus_address` from its next message on."""
        ...

    def mask(self, vector: int) -> None:
        """Let interrupt `vector` send nothing until its next `set_message`."""
        ...


class MessageTable:
    """The vectors of a controller in this process; a masked one stays pending until it is set."""

    def __init__(self, memory: AddressSpace, vector_count: int) -> None:
        self._memory = memory
        self._vector_count = vector_count
        self._set: dict[int, tuple[int, int]] = {}
        self._pending: set[int] = set()

    def set_message(self, vector: int, bus_address: int, data: int) -> None:
        """Let a vector store 32 bits in memory; one that is pending does it at once.

        Raises: UsageError for a vector that there is not, an address that is not mapped or no multiple of 4.
        """
        if not 0 <= vector < self._vector_count or bus_address % 4:
            raise UsageError(
                f"MSI-X vector {vector}, message to {bus_address:#x}; there are {self._vector_count} "
                "vectors, and a message goes to a multiple of 4"
            )
        self._memory.find(bus_address, 4)
        self._set[vector] = bus_address, data & 0xFFFF_FFFF
        if vector in self._pending:
            self._pending.discard(vector)
            self.send((vector,))

    def mask(self, vector: int) -> None:
        """Let a vector send nothing until its next `set_message`."""
        self._set.pop(vector, None)

    def send(self, vectors: Iterable[int]) -> None:
        """Send the messages of vectors with new completion queue entries."""
        for vector in vectors:
            if vector not in self._set:
                self._pending.add(vector)
                continue
            bus_address, data = self._set[vector]
            window = self._memory.find(bus_address, 4)
            store_u32(window.backing.address + bus_address - window.bus_address, data)
