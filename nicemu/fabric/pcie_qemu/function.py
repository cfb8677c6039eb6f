# SPDX-License-Identifier: Apache-2.0
"""A PCI function behind a host bridge: configuration space, base address registers, MSI-X.

Source: PCI Local Bus Specification 3.0, "Configuration Mechanism", "Base Addresses", "MSI-X Capability and
Table Structure"; PCI Express Base Specification 5.0, "PCI-Compatible Configuration Registers".
"""

from __future__ import annotations

from typing import Final

from nicemu.errors import ProtocolError, UsageError

from .link import QtestLink

_ADDRESS_PORT: Final = 0xCF8
_DATA_PORT: Final = 0xCFC
_ENABLE: Final = 1 << 31
_ID: Final = 0x00
_COMMAND: Final = 0x04
_BAR0: Final = 0x10
_CAPABILITIES: Final = 0x34
_MEMORY_SPACE, _BUS_MASTER, _NO_INTX = 1 << 1, 1 << 2, 1 << 10
_BAR_IS_64_BITS: Final = 0b100
_MSIX: Final = 0x11
_MSIX_ENABLE: Final = 1 << 31
_MSIX_ENTRY_BYTES: Final = 16
_MASKED: Final = 1


class PciFunction:
    """Function 0 of `device` on bus 0.

    Raises: ProtocolError if there is none.
    """

    def __init__(self, link: QtestLink, device: int) -> None:
        self._link = link
        self._device = device
        if self.read_config(_ID) & 0xFFFF == 0xFFFF:
            raise ProtocolError(f"there is no PCI function {device:#04x}.0 on bus 0")

    def read_config(self, offset: int) -> int:
        """Return the 32 bits of configuration space at `offset`, a multiple of 4."""
        self._link.out32(_ADDRESS_PORT, _ENABLE | self._device << 11 | offset)
        return self._link.in32(_DATA_PORT)

    def write_config(self, offset: int, value: int) -> None:
        """Store 32 bits of configuration space at `offset`, a multiple of 4."""
        self._link.out32(_ADDRESS_PORT, _ENABLE | self._device << 11 | offset)
        self._link.out32(_DATA_PORT, value)

    def place(self, bar: int, bus_address: int) -> int:
        """Give the 64-bit BAR number `bar` (0 to 4) its address and return its length in bytes.

        Raises: ProtocolError if it is no 64-bit memory BAR or `bus_address` does not suit its size.
        """
        low = _BAR0 + 4 * bar
        self.write_config(low, 0xFFFF_FFFF)
        self.write_config(low + 4, 0xFFFF_FFFF)
        mask = self.read_config(low) | self.read_config(low + 4) << 32
        length_bytes = (~mask & (1 << 64) - 1 | 0xF) + 1
        if mask & 0b111 != _BAR_IS_64_BITS or bus_address % length_bytes:
            raise ProtocolError(
                f"BAR {bar} of {self._device:#04x}.0 reads {mask:#x}; it cannot lie at {bus_address:#x}"
            )
        self.write_config(low, bus_address & 0xFFFF_FFFF)
        self.write_config(low + 4, bus_address >> 32)
        return length_bytes

    def enable(self) -> None:
        """Let the function answer to its BARs and do DMA; it keeps its interrupt pin still."""
        self.write_config(_COMMAND, _MEMORY_SPACE | _BUS_MASTER | _NO_INTX)

    def find_capability(self, number: int) -> int:
        """Return where a capability lies in configuration space. Raises: ProtocolError if there is none."""
        place = self.read_config(_CAPABILITIES) & 0xFC
        for _ in range(48):
            if not place:
                break
            header = self.read_config(place)
            if header & 0xFF == number:
                return place
            place = header >> 8 & 0xFC
        raise ProtocolError(f"PCI function {self._device:#04x}.0 has no capability {number:#04x}")


class MsixTable:
    """The MSI-X vectors of a function whose BAR 0 lies at `bar_address`; each masked until `set_message`."""

    def __init__(self, link: QtestLink, function: PciFunction, bar_address: int) -> None:
        self._link = link
        place = function.find_capability(_MSIX)
        control, table = function.read_config(place), function.read_config(place + 4)
        if table & 7:
            raise ProtocolError(f"the MSI-X table lies in BAR {table & 7}; only BAR 0 is known here")
        self.vector_count = (control >> 16 & 0x7FF) + 1
        self._table = bar_address + (table & ~7)
        function.write_config(place, control | _MSIX_ENABLE)

    def set_message(self, vector: int, bus_address: int, data: int) -> None:
        """Let `vector` store the 32 bits `data` at `bus_address`, from its next message on; unmask it.

        Raises: UsageError for a vector that there is not, or an address that is no multiple of 4.
        """
        if not 0 <= vector < self.vector_count or bus_address % 4:
            raise UsageError(
                f"MSI-X vector {vector}, message to {bus_address:#x}; there are {self.vector_count} vectors, "
                "and a message goes to a multiple of 4"
            )
        entry = self._entry(vector)
        self._link.write32(entry + 12, _MASKED)
        self._link.write64(entry, bus_address)
        self._link.write32(entry + 8, data & 0xFFFF_FFFF)
        self._link.write32(entry + 12, 0)

    def mask(self, vector: int) -> None:
        """Let `vector` send nothing until its next `set_message`."""
        self._link.write32(self._entry(vector) + 12, _MASKED)

    def _entry(self, vector: int) -> int:
        return self._table + vector * _MSIX_ENTRY_BYTES
