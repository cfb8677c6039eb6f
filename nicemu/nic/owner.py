# SPDX-License-Identifier: Apache-2.0
"""A host process at the NIC: its BAR, its counters, memory, keys and queue pairs, and its packet rings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nicemu.abi import ABI_VERSION, registers
from nicemu.errors import ResourceError, UsageError
from nicemu.pcie import Backing, load_u64, store_u32, store_u64

from .arena import NO_CELL, TRANSMIT_CELL, Arena
from .memory import Piece

_PAYLOAD = registers.PACKET_BYTES - registers.PACKET_HEADER_BYTES
MAX_PACKET_BYTES = _PAYLOAD


@dataclass(eq=False, slots=True)
class Owner:
    """What one host process has open; all of it goes when the process does."""

    number: int
    bar: Backing
    pd: int
    counters: dict[int, str] = field(default_factory=dict)
    pieces: dict[int, Piece] = field(default_factory=dict)
    keys: set[int] = field(default_factory=set)
    queue_pairs: set[int] = field(default_factory=set)
    cells: dict[int, int] = field(default_factory=dict)
    events: dict[int, str] = field(default_factory=dict)
    published: dict[int, int] = field(default_factory=dict)
    """Counters whose write-back entry lies in registered memory, with its key."""
    io_in_flight: int = 0
    listening: bool = False
    interrupt: Callable[[], object] = bool
    received: int = 0
    transmitted: int = 0

    def enter(self, arena: Arena) -> None:
        """Take the owner's places in an arena, empty; the datapath looks at them once it is active there."""
        queues = arena.rdma.completion_queues
        for position in range(registers.QUEUE_COUNT):
            queue = queues[self.number * registers.QUEUE_COUNT + position]
            place = position * registers.COMPLETION_COUNT * 64
            queue.ring = self.bar.address + registers.COMPLETIONS + place
            word = registers.WORD_COMPLETIONS + position
            queue.consumer = self.bar.address + registers.HOST_WORDS + word * registers.WORD_STRIDE
            queue.tail = queue.error = 0
            queue.open = 1
        arena.doorbells[self.number] = NO_CELL
        arena.doorbells[self.number, registers.TRANSMIT_DOORBELL] = TRANSMIT_CELL
        arena.rung[self.number] = 0
        record = arena.owners[self.number]
        record.pd, record.bar = self.pd, self.bar.address
        record.commands = record.responses = 0
        record.doorbells = self.cells_in_use

    @classmethod
    def create(cls, number: int) -> Owner:
        """Return an owner with a BAR of its own, its identity page filled."""
        bar = Backing.memfd(f"nicemu-bar-{number}", registers.OWNER_BAR_BYTES)
        store_u64(bar.address + registers.IDENTITY, registers.MAGIC)
        store_u32(bar.address + registers.IDENTITY + 8, ABI_VERSION)
        store_u32(bar.address + registers.IDENTITY + 12, number)
        return cls(number, bar, 16 + number)

    def write_back_entry(self, counter: int) -> int:
        """Raw address of a counter's write-back entry in this BAR."""
        return self.bar.address + registers.WRITE_BACK + counter * registers.WRITE_BACK_BYTES

    def open_cell(self, counter: int) -> int:
        """Return a doorbell cell that rings `counter`.

        Raises: ResourceError if all cells are open.
        """
        first = registers.TRANSMIT_DOORBELL + 1
        for cell in range(first, registers.DOORBELL_COUNT):
            if cell not in self.cells:
                self.cells[cell] = counter
                return cell
        count = registers.DOORBELL_COUNT - first
        raise ResourceError(f"all {count} doorbells of this process are open (ENOSPC)")

    @property
    def cells_in_use(self) -> int:
        """Doorbell cells that the NIC has to look at: one more than the highest that is open."""
        return max(self.cells, default=registers.TRANSMIT_DOORBELL) + 1

    def check_counter(self, counter: int) -> None:
        """Raise UsageError unless the counter is this owner's."""
        if counter not in self.counters:
            raise UsageError(f"counter {counter} is not one of this process (EINVAL)")

    # Packet rings

    def deliver(self, frame: bytes, info: tuple[int, ...]) -> str:
        """Put a packet into the receive ring; return why it could not be, or ""."""
        head_word = registers.HOST_WORDS + registers.WORD_RECEIVE * registers.WORD_STRIDE
        if len(frame) > _PAYLOAD:
            return "host.packet_too_long"
        if self.received - load_u64(self.bar.address + head_word) >= registers.PACKET_COUNT:
            return "host.receive_ring_full"
        place = registers.RECEIVE_RING + self.received % registers.PACKET_COUNT * registers.PACKET_BYTES
        entry = self.bar.address + place
        store_u32(entry, len(frame))
        store_u32(entry + 4, len(info))
        for position in range(6):
            store_u64(entry + 8 + 8 * position, info[position] if position < len(info) else 0)
        start = place + registers.PACKET_HEADER_BYTES
        self.bar.view[start : start + len(frame)] = frame
        self.received += 1
        store_u64(entry + 56, self.received)
        self.interrupt()
        return ""

    def take_transmits(self) -> list[bytes]:
        """Take the packets that stand in the transmit ring."""
        frames = []
        while True:
            place = (
                registers.TRANSMIT_RING + self.transmitted % registers.PACKET_COUNT * registers.PACKET_BYTES
            )
            entry = self.bar.address + place
            if load_u64(entry + 56) != self.transmitted + 1:
                break
            length = min(load_u64(entry) & 0xFFFFFFFF, _PAYLOAD)
            start = place + registers.PACKET_HEADER_BYTES
            frames.append(bytes(self.bar.view[start : start + length]))
            self.transmitted += 1
            head = registers.NIC_WORDS + registers.WORD_TRANSMIT * registers.WORD_STRIDE
            store_u64(self.bar.address + head, self.transmitted)
        return frames
