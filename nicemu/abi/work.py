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
    ATOMIC = 9
    """An `AtomicOperation` on 8 bytes of a peer, with or without the old value."""
    TAGGED_SEND = 10
    TAGGED_RECV = 11
    COUNTER_ADD = 16
    COUNTER_SET = 17
    FIRMWARE_EVENT = 18
    WRITE_BACK = 19
    """Publish the triggering counter's values again. Source: fi_cxi(7), FI_CXI_CNTR_WB."""
    NVME_READ = 20
    NVME_WRITE = 21


class AtomicOperation(enum.IntEnum):
    """What an atomic does with the unsigned 64-bit value it finds. Source: fi_atomic(3)."""

    SUM = 0
    AND = 1
    OR = 2
    XOR = 3
    MIN = 4
    MAX = 5
    SWAP = 6
    COMPARE_SWAP = 7


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
    operand (FETCH_ADD, ATOMIC) or what to compare with (COMPARE_SWAP), `swap` the value to store. An ATOMIC
    without a piece fetches nothing. Tagged work carries its `tag`; a tagged receive ignores the bits of
    `ignore`. `transmitted`: it completes when its last byte has left, not when it has been delivered.
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
    operation: AtomicOperation = AtomicOperation.SUM
    tag: int = 0
    ignore: int = 0
    transmitted: bool = False

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
    their target in `target` and their operand in `value`; they have no completion counter. NVMe operations
    move the pieces of `work` to or from the blocks of namespace `nsid` from `slba` on. A FIRMWARE_EVENT hands
    `cookie` and `value` to the NIC's firmware.
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
    nsid: int = 0
    slba: int = 0
