# SPDX-License-Identifier: Apache-2.0
"""Operations and accesses as the logs show them: when they begin and end, and what people call them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Actor = Literal["host", "stream", "operation"]

ATOMICS = ("COMPARE_SWAP", "FETCH_ADD", "ATOMIC")
WRITES = ("RDMA_WRITE", "RDMA_WRITE_WITH_IMM")
SENDS = ("SEND", "SEND_WITH_IMM", "TAGGED_SEND")
RECEIVES = ("RECV", "TAGGED_RECV")
LOCAL_READERS = (*WRITES, *SENDS, "NVME_WRITE")
LOCAL_WRITERS = ("RDMA_READ", *ATOMICS, "NVME_READ")
ON_QUEUE_PAIR = (*WRITES, *SENDS, *ATOMICS, "RDMA_READ")


@dataclass(eq=False, slots=True)
class Cause:
    """What made a counter change: in words, where, and the event of the host that did it."""

    text: str
    place: str = ""
    event: int | None = None
    by_hand: bool = False
    """The host counted itself, behind no stream."""


@dataclass(eq=False, slots=True)
class Count:
    """One step of a counter. The doorbell rings of one look of the NIC are a step each.

    `more`: what it added to both values, or set them to. `causes`: the events that it comes after.
    `joined`: an event that comes after this step and those before it.
    """

    success: int
    errors: int
    event: int
    ns: int
    cause: Cause
    more: tuple[int, int]
    causes: tuple[int, ...]
    joined: int
    is_set: bool = False
    enough: int | None = None
    """Where others count in no order with it: the success value when all of them have."""


@dataclass(eq=False, slots=True)
class Operation:
    """A fired operation: `fired` ≤ `moved` (its bytes are there) ≤ `ended` (its end is told), as events."""

    nic: str
    sequence: int
    opcode: str
    owner: int
    qp: int
    pieces: list[list[int]]
    remote: int
    rkey: int
    imm_data: int
    fired: int
    moved: int | None = None
    ended: int | None = None
    status: int | None = None
    peer: str = ""
    remote_qp: int = 0
    armed: int | None = None
    program: str = ""
    step: int = 0
    place: str = ""
    cause: Cause | None = None
    completion: str = ""
    """The completion counter's name."""
    told: list[tuple[str, Count]] = field(default_factory=list)
    """Counters that tell its end, and the step that did."""
    arrived: list[tuple[str, Count]] = field(default_factory=list)
    """Counters at the peer that tell that its bytes are there, likewise."""

    @property
    def length_bytes(self) -> int:
        """Bytes that it moves."""
        return 8 if self.opcode in ATOMICS else sum(piece[1] for piece in self.pieces)

    @property
    def name(self) -> str:
        """What people call it."""
        kind = self.opcode.lower().replace("_", " ")
        if self.owner == 0:
            return f"{kind} of the firmware of {self.nic}"
        if self.program:
            return f'step {self.step} of program "{self.program}" ({kind})'
        return kind


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes of a NIC's memory map that somebody reads or writes between two events.

    `end` None: not before the end of the log. `key`: the memory key that an operation uses.
    """

    nic: str
    first: int
    end_address: int
    mode: str
    start: int
    end: int | None
    actor: Actor
    process: int
    label: str
    place: str
    operation: Operation | None = None
    is_landing: bool = False
    is_atomic: bool = False
    line: tuple[str, int] | None = None
    """The queue pair in whose order the bytes are touched: at the target, or by what comes back."""
    host_event: int | None = None
    """The event of the host that did it, or put it into a stream."""


@dataclass(frozen=True, slots=True)
class Deregistration:
    """A key was taken back."""

    nic: str
    key: int
    event: int
    place: str
    process: int


@dataclass(frozen=True, slots=True)
class Armed:
    """An operation that was armed and had not fired when the log ended."""

    nic: str
    sequence: int
    pieces: list[list[int]]
    event: int
    name: str
    place: str
    cancelled: int | None
