# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of work: requests, completions and deferred work, as people write them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from nicemu.errors import VerbsStatus

MAX_SGE = 2
"""Local scatter/gather elements a work request may carry (it is 64 bytes in shared memory)."""


class Opcode(enum.IntEnum):
    """What a work request, posted or deferred, does."""

    RDMA_WRITE = 1
    RDMA_WRITE_WITH_IMM = 2
    RDMA_READ = 3
    SEND = 4
    SEND_WITH_IMM = 5
    COMPARE_SWAP = 6
    FETCH_ADD = 7
    RECV = 8
    COUNTER_ADD = 16
    COUNTER_SET = 17
    FIRMWARE_EVENT = 18


class Access(enum.IntFlag):
    """Rights of a memory region. Source: ibv_reg_mr(3)."""

    LOCAL_READ = 0
    LOCAL_WRITE = 1
    REMOTE_WRITE = 2
    REMOTE_READ = 4
    REMOTE_ATOMIC = 8


@dataclass(frozen=True, slots=True)
class Sge:
    """One piece of local memory: `address` is a bus address, `lkey` the region that covers it."""

    address: int
    length: int
    lkey: int


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """One operation for a queue pair.

    `remote_address` is the iova that the peer's region `rkey` covers; `imm_data` is 32 bits, delivered with
    the *_WITH_IMM opcodes. For atomics the one `sge` (8 bytes) receives the old value; `compare_add` is the
    value to add (FETCH_ADD) or to compare with (COMPARE_SWAP), `swap` the value to store.
    """

    opcode: Opcode
    sges: tuple[Sge, ...] = ()
    remote_address: int = 0
    rkey: int = 0
    imm_data: int = 0
    compare_add: int = 0
    swap: int = 0
    wr_id: int = 0
    signaled: bool = False

    @property
    def length_bytes(self) -> int:
        """Bytes of all local pieces together."""
        return sum(sge.length for sge in self.sges)


@dataclass(frozen=True, slots=True)
class WorkCompletion:
    """What comes back from a work request. Source: ibv_poll_cq(3)."""

    wr_id: int
    status: VerbsStatus
    opcode: Opcode
    byte_len: int = 0
    qp_num: int = 0
    imm_data: int | None = None


@dataclass(frozen=True, slots=True)
class DeferredWork:
    """Work that fires once, when success plus errors of counter `trigger` reach `threshold`.

    `completion` names the counter that counts the operation's end (None: nobody). Counter operations take
    their target in `target` and their operand in `value`; they have no completion counter.
    Source: fi_trigger(3), DEFERRED WORK QUEUES.
    """

    trigger: int
    threshold: int
    opcode: Opcode
    work: WorkRequest | None = None
    qp_num: int = 0
    completion: int | None = None
    target: int = 0
    value: int = 0
    cookie: int = field(default=0)
