# SPDX-License-Identifier: Apache-2.0
"""What the device offers its firmware, and the values that pass: buffers, landing slots, errors."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Protocol

from nicemu.abi import WorkRequest
from nicemu.errors import NicemuError, NvmeStatus, VerbsStatus

from .core import Signal
from .events import Event


class CompletionError(NicemuError):
    """An operation that ended with an error status."""

    def __init__(self, status: VerbsStatus | NvmeStatus, what: str) -> None:
        super().__init__(f"{what} ended with {status.name}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Buffer:
    """Registered NIC memory: `address` is its bus address (page-aligned), `key` its lkey and rkey."""

    address: int
    length_bytes: int
    key: int


@dataclass(frozen=True, slots=True)
class LandingSlot:
    """Memory of the host (or GPU) that a fetched session may land in; `key` is the rkey that peers need."""

    index: int
    address: int
    length_bytes: int
    key: int
    pd: int


class Card(Protocol):
    """What the device offers to its firmware; addresses are bus addresses."""

    def now_ns(self) -> int:
        """The NIC's time."""
        ...

    def spawn(self, name: str, coroutine: Coroutine[Signal, None, None], *things: LandingSlot | int) -> None:
        """Start a task, which holds `things`, landing slots and numbers of counters, from here on."""
        ...

    def read_memory(self, address: int, length_bytes: int) -> bytes:
        """Copy memory."""
        ...

    def write_memory(self, address: int, data: bytes) -> None:
        """Store into memory."""
        ...

    def memory_view(self, address: int, length_bytes: int) -> memoryview:
        """Return memory itself."""
        ...

    def allocate_memory(self, length_bytes: int, remote: bool, atomic: bool) -> Buffer:
        """Return registered NIC memory."""
        ...

    def allocate_counter(self, pd: int) -> int:
        """Return a counter of the firmware."""
        ...

    def free_counter(self, counter: int) -> None:
        """Give a counter back."""
        ...

    def counter_add(self, counter: int, success: int, errors: int) -> None:
        """Count."""
        ...

    def renew_key(self, buffer: Buffer) -> Buffer:
        """Zero a buffer and give it a new key."""
        ...

    def counter_value(self, counter: int) -> tuple[int, int]:
        """Return (success, errors)."""
        ...

    def arm_signal(self, counter: int, threshold: int, signal: Signal) -> int:
        """Set a signal when a counter reaches a threshold."""
        ...

    def post_work(self, qp_num: int, work: WorkRequest, signal: Signal | None) -> None:
        """Post work; the signal gets its status."""
        ...

    def arm_work(
        self, counter: int, threshold: int, qp_num: int, work: WorkRequest, completion: int | None
    ) -> None:
        """Arm work that fires when a counter reaches a threshold; `completion` counts its end."""
        ...

    def prepare_work(self, name: str, qp_num: int, work: WorkRequest, completion: int | None) -> None:
        """Keep work that the match-action program arms by its name."""
        ...

    def nvme(
        self, opcode: str, nsid: int, slba: int, nlb: int, address: int, signal: Signal, queue: int = 1
    ) -> None:
        """Submit an NVMe command to a queue pair of the controller; the signal gets its status."""
        ...

    def count_completions(self, counter: int) -> int:
        """Return a queue pair of the NVMe controller whose completions count at a counter."""
        ...

    def stop_counting(self, queue: int) -> None:
        """Give such a queue pair back."""
        ...

    def send_message(self, peer: str, payload: bytes) -> None:
        """Send a message to a peer NIC."""
        ...

    def send_datagram(self, address: int, udp_port: int, payload: bytes) -> None:
        """Send a datagram."""
        ...

    def deliver(self, event: Event, info: tuple[int, ...]) -> bool:
        """Pass an event's packet to the host; False if the host did not get it."""
        ...

    def transmit(self, event: Event) -> None:
        """Pass an event's packet on to the network, once."""

    def take_landing_slot(self) -> LandingSlot | None:
        """Take a landing slot off the free ring."""
        ...

    def return_landing_slot(self, slot: LandingSlot, rotate_key: bool) -> None:
        """Put a landing slot back."""
        ...

    def keep_landing_slot(self, slot: LandingSlot) -> None:
        """The slot is the host's from here on."""
        ...

    def routes(self, pd: int) -> dict[int, tuple[str, int]]:
        """Connected peers of a protection domain."""
        ...

    def table_insert(
        self, table: str, keys: tuple[int, ...], action: str, parameters: tuple[int, ...]
    ) -> None:
        """Insert or replace an exact entry."""
        ...

    def table_delete(self, table: str, keys: tuple[int, ...]) -> None:
        """Delete an exact entry."""
        ...

    def namespaces(self) -> dict[int, tuple[int, int]]:
        """NVMe namespaces."""
        ...

    def count(self, name: str) -> None:
        """Count under a name."""
        ...
