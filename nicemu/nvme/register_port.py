# SPDX-License-Identifier: Apache-2.0
"""How a host reaches a controller's registers.

Source: NVM Express over PCIe Transport Specification 1.0, "Controller Registers" (accesses of 32 and 64
bits).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from nicemu.pcie import AddressSpace

from .controller import NvmeController
from .messages import Messages


class NvmeRegisters(Protocol):
    """A controller's registers, as memory reads and writes of the bus."""

    def read32(self, offset: int) -> int:
        """Return 32 bits."""
        ...

    def read64(self, offset: int) -> int:
        """Return 64 bits."""
        ...

    def write32(self, offset: int, value: int) -> None:
        """Store 32 bits."""
        ...

    def write64(self, offset: int, value: int) -> None:
        """Store 64 bits."""
        ...


class OutsideController(Messages, Protocol):
    """A controller that runs by itself, outside this process: it moves data by DMA of its own.

    `registers` are its registers, `reach` the windows that its DMA reaches: a command must name no other
    memory, for nobody says that a controller notices. `set_message` refuses an address outside of `reach`.
    """

    @property
    def registers(self) -> NvmeRegisters:
        """Its registers."""
        ...

    @property
    def reach(self) -> AddressSpace:
        """The memory that its DMA reaches."""
        ...

    def check(self) -> None:
        """Return while the controller is there; costs little, for it is asked while commands are under way.

        Raises: ProtocolError, which says why, once it is gone for good; then it moves nothing any more.
        """
        ...


class LocalRegisters:
    """The registers of a controller in this process; `now` tells it the time of each write."""

    def __init__(self, controller: NvmeController, now: Callable[[], int]) -> None:
        self._controller = controller
        self._now = now

    def read32(self, offset: int) -> int:
        """Return 32 bits."""
        return self._controller.read_register(offset)

    def read64(self, offset: int) -> int:
        """Return 64 bits, read by halves."""
        return self.read32(offset) | self.read32(offset + 4) << 32

    def write32(self, offset: int, value: int) -> None:
        """Store 32 bits."""
        self._controller.write_register(offset, value, self._now())

    def write64(self, offset: int, value: int) -> None:
        """Store 64 bits by halves, the low one first."""
        self.write32(offset, value & 0xFFFF_FFFF)
        self.write32(offset + 4, value >> 32)
