# SPDX-License-Identifier: Apache-2.0
"""What a case can see and do inside a NIC of ours, beyond what every target has."""

from __future__ import annotations

from typing import Protocol

from nicemu.abi import Span
from nicemu.host import Counter, Nic
from nicemu.trigger import TriggerUnit


class Inside(Protocol):
    """A stepped NIC of ours, from within."""

    @property
    def nic(self) -> Nic:
        """The target, by its own type."""
        ...

    @property
    def unit(self) -> TriggerUnit:
        """The NIC's trigger unit; what it changes from outside is carried out by `settle`."""
        ...

    @property
    def compiled(self) -> bool:
        """Whether its hot functions are."""
        ...

    def ring(self, counter: Counter, *steps: int) -> None:
        """Let a stream ring a counter's doorbell once for each step, all before the NIC looks."""

    def write_back(self, counter: Counter) -> int:
        """Return the write-back word of a counter, as whoever maps the BAR reads it."""

    def peer_write(self, span: Span, imm_data: int | None = None) -> None:
        """Let the peer's firmware write zeroes over all of `span`, memory that this process registered."""

    def counted(self, name: str) -> int:
        """Return one of the NIC's statistics."""

    def slots_in_use(self) -> int:
        """Return how many trigger slots hold work."""
