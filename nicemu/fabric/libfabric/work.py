# SPDX-License-Identifier: Apache-2.0
"""Deferred work as libfabric takes it: one piece of memory an operation, which points only into itself.

A provider keeps pointers into deferred work until it has ended, so it must neither move nor be freed before;
`QueuedWork` owns it, and the memory regions that it uses.
Sources: fi_trigger(3), DEFERRED WORK QUEUES; fi_msg(3), fi_tagged(3), fi_rma(3), fi_atomic(3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nicemu.abi import AtomicOperation, DeferredWork, Limits, Opcode, Sge, WorkRequest
from nicemu.errors import UsageError, counted

from . import abi as fi
from .abi import AtomicOp, Libfabric, OpType
from .checks import (
    ATOMICS,
    COUNTER_OPERATIONS,
    IMMEDIATES,
    RECEIVES,
    check_deferred,
    check_number,
    check_request,
    check_size,
)
from .counter import LibfabricCounter
from .domain import Endpoint, Region

_ATOMIC_OPS = {
    AtomicOperation.SUM: AtomicOp.SUM,
    AtomicOperation.AND: AtomicOp.BAND,
    AtomicOperation.OR: AtomicOp.BOR,
    AtomicOperation.XOR: AtomicOp.BXOR,
    AtomicOperation.MIN: AtomicOp.MIN,
    AtomicOperation.MAX: AtomicOp.MAX,
    AtomicOperation.SWAP: AtomicOp.ATOMIC_WRITE,
    AtomicOperation.COMPARE_SWAP: AtomicOp.CSWAP,
}
_POINTED_TO = (
    "op",
    "remote",
    "remote_word",
    "operand",
    "result",
    "compare",
    "operand_value",
    "result_value",
    "compare_value",
)
UNCOUNTED, UNCOUNTED_RECEIVES = -1, -2
"""The target's own counters. Data operations always need one: without, `sockets` ends the process."""


@dataclass(frozen=True, slots=True)
class QueuePair:
    """What `qp_num` names: a local endpoint, and a peer's number in the address vector."""

    number: int
    endpoint: Endpoint
    peer: int


@dataclass(eq=False, slots=True)
class QueuedWork:
    """Work that the provider has, or is about to have, and what must stay where it is until it has ended."""

    deferred: DeferredWork
    memory: Any
    regions: tuple[Region, ...]
    context: int
    """Where its context is, by which the completion queue names it."""
    sequence: int = 0
    reached: bool = False
    """Its threshold was seen to be reached."""

    @property
    def completion(self) -> int:
        """The counter that counts its end; where nobody asked for one, one of the target's own."""
        if self.deferred.completion is not None:
            return self.deferred.completion
        return UNCOUNTED_RECEIVES if self.deferred.opcode in RECEIVES else UNCOUNTED

    @property
    def counts_only(self) -> bool:
        """Whether it is a counter operation, which ends when it fires."""
        return self.deferred.opcode in COUNTER_OPERATIONS


class WorkBuilder:
    """Checks deferred work, and lays it out. `max_tag`: the largest tag that messages carry."""

    def __init__(
        self,
        lib: Libfabric,
        limits: Limits,
        max_tag: int,
        queue_pairs: Mapping[int, QueuePair],
        regions: Mapping[int, Region],
        counters: Mapping[int, LibfabricCounter],
    ) -> None:
        ffi = lib.ffi
        self._new, self._cast = ffi.new, ffi.cast
        self._null = ffi.NULL
        self._kind, self._pointer = ffi.typeof("struct nicemu_work *"), ffi.typeof("void *")
        self._offsets = {name: ffi.offsetof("struct nicemu_work", name) for name in _POINTED_TO}
        self._limits = limits
        self._max_tag = max_tag
        self._queue_pairs = queue_pairs
        self._regions = regions
        self._counters = counters
        self._layouts: dict[Opcode, Callable[[Any, WorkRequest, QueuePair], OpType]] = {
            **dict.fromkeys((Opcode.SEND, Opcode.SEND_WITH_IMM, Opcode.RECV), self._message),
            **dict.fromkeys((Opcode.TAGGED_SEND, Opcode.TAGGED_RECV), self._tagged),
            **dict.fromkeys((Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM, Opcode.RDMA_READ), self._rma),
            **dict.fromkeys(ATOMICS, self._atomic),
        }

    def build(self, deferred: DeferredWork) -> QueuedWork:
        """Return work that can be queued. Raises: UsageError (EINVAL) for what a provider must not see."""
        check_number(check_deferred(deferred).threshold, self._limits.max_success, "threshold")
        trigger = self._counter(deferred.trigger)
        memory = self._new(self._kind)
        context = int(self._cast("uintptr_t", memory))
        work = memory.work
        work.threshold, work.triggering_cntr = deferred.threshold, trigger
        if deferred.opcode in COUNTER_OPERATIONS:
            self._count(memory, deferred)
            return QueuedWork(deferred, memory, (), context)
        request = check_request(deferred.work, deferred.opcode, self._max_tag)
        queued = QueuedWork(deferred, memory, (), context)
        work.completion_cntr = self._counter(queued.completion)
        queue_pair = self._queue_pairs.get(deferred.qp_num)
        if queue_pair is None:
            raise UsageError(f"there is no queue pair {deferred.qp_num} (EINVAL); `connect` returns one")
        queued.regions = self._pieces(memory, request)
        work.op_type = self._layouts[deferred.opcode](memory, request, queue_pair)
        work.op = self._at(memory, "op")
        return queued

    def _count(self, memory: Any, deferred: DeferredWork) -> None:
        if deferred.completion is not None or deferred.work is not None:
            raise UsageError(f"{deferred.opcode.name} has no completion counter and no work request (EINVAL)")
        check_number(deferred.value, self._limits.max_success, "operand")
        operation = memory.op.cntr
        operation.cntr, operation.value = self._counter(deferred.target), deferred.value
        adds = deferred.opcode is Opcode.COUNTER_ADD
        memory.work.op_type = OpType.CNTR_ADD if adds else OpType.CNTR_SET
        memory.work.op = self._at(memory, "op")

    def _counter(self, index: int) -> Any:
        if index not in self._counters:
            raise UsageError(f"there is no counter {index} (EINVAL); allocate one with `counters`")
        return self._counters[index].fid

    def _pieces(self, memory: Any, request: WorkRequest) -> tuple[Region, ...]:
        check_size(request, self._limits.local_pieces, self._limits.max_message_bytes)
        regions = []
        for position, sge in enumerate(request.sges):
            region = self._covering(sge)
            piece = memory.pieces[position]
            piece.iov_base, piece.iov_len = self._cast(self._pointer, sge.address), sge.length
            memory.descriptors[position] = region.descriptor
            regions.append(region)
        return tuple(regions)

    def _covering(self, sge: Sge) -> Region:
        region = self._regions.get(sge.lkey)
        if region is None:
            raise UsageError(f"key {sge.lkey:#x} names no memory of this target (EINVAL); register it")
        if not region.covers(sge.address, sge.length):
            raise UsageError(
                f"{counted(sge.length, 'byte')} at {sge.address:#x}: not within the {region.length_bytes} at "
                f"{region.address:#x} that key {sge.lkey:#x} covers (EINVAL)"
            )
        return region

    def _at(self, memory: Any, name: str) -> Any:
        """Return a pointer to a part of work's own memory."""
        return self._cast(self._pointer, int(self._cast("uintptr_t", memory)) + self._offsets[name])

    def _flags(self, request: WorkRequest, answers: bool = False) -> int:
        """Return the flags of an operation. One that `answers`, by a value that lands here, was delivered.

        Source: fi_cxi(7), ERRATA: fetching and comparing atomics take no delivery-complete there.
        """
        flags = fi.COMPLETION if request.signaled else 0
        if request.opcode in IMMEDIATES:
            flags |= fi.REMOTE_CQ_DATA
        if request.opcode not in RECEIVES and request.opcode is not Opcode.RDMA_READ and not answers:
            flags |= fi.TRANSMIT_COMPLETE if request.transmitted else fi.DELIVERY_COMPLETE
        return flags

    def _address(self, operation: Any, message: Any, memory: Any, pair: QueuePair, anyone: bool) -> None:
        operation.ep = pair.endpoint.fid
        message.addr = fi.ADDRESS_UNSPECIFIED if anyone else pair.peer
        message.context = memory  # which begins with the context, as `sockets` demands
        message.desc = memory.descriptors

    def _message(self, memory: Any, request: WorkRequest, pair: QueuePair) -> OpType:
        operation = memory.op.msg
        receives = request.opcode is Opcode.RECV
        self._address(operation, operation.msg, memory, pair, receives)
        operation.msg.msg_iov, operation.msg.iov_count = memory.pieces, len(request.sges)
        operation.msg.data, operation.flags = request.imm_data, self._flags(request)
        return OpType.RECV if receives else OpType.SEND

    def _tagged(self, memory: Any, request: WorkRequest, pair: QueuePair) -> OpType:
        operation = memory.op.tagged
        receives = request.opcode is Opcode.TAGGED_RECV
        self._address(operation, operation.msg, memory, pair, receives)
        message = operation.msg
        message.msg_iov, message.iov_count = memory.pieces, len(request.sges)
        message.tag, message.ignore = request.tag, request.ignore
        operation.flags = self._flags(request)
        return OpType.TRECV if receives else OpType.TSEND

    def _rma(self, memory: Any, request: WorkRequest, pair: QueuePair) -> OpType:
        operation, remote = memory.op.rma, memory.remote
        self._address(operation, operation.msg, memory, pair, False)
        message = operation.msg
        message.msg_iov, message.iov_count = memory.pieces, len(request.sges)
        remote.addr, remote.key, remote.len = request.remote_address, request.rkey, request.length_bytes
        message.rma_iov, message.rma_iov_count = self._at(memory, "remote"), 1
        message.data, operation.flags = request.imm_data, self._flags(request)
        return OpType.READ if request.opcode is Opcode.RDMA_READ else OpType.WRITE

    def _atomic(self, memory: Any, request: WorkRequest, pair: QueuePair) -> OpType:
        """Lay out an atomic. With an old value, or a comparison, it is one of the fetching kinds.

        A comparison always returns the old value; where nobody wants it, it lands in the work itself.
        """
        kind = {Opcode.FETCH_ADD: AtomicOperation.SUM, Opcode.COMPARE_SWAP: AtomicOperation.COMPARE_SWAP}.get(
            request.opcode, request.operation
        )
        compares = kind is AtomicOperation.COMPARE_SWAP
        memory.operand_value = request.swap if compares else request.compare_add
        memory.compare_value = request.compare_add
        for word, value in (("operand", "operand_value"), ("compare", "compare_value")):
            place = getattr(memory, word)
            place.addr, place.count = self._at(memory, value), 1
        memory.result.addr = memory.pieces[0].iov_base if request.sges else self._at(memory, "result_value")
        memory.result.count = 1
        memory.result_descriptor[0], memory.descriptors[0] = memory.descriptors[0], self._null
        fetches = bool(request.sges)
        operation = memory.op.compare if compares else memory.op.fetch if fetches else memory.op.atomic
        self._address(operation, operation.msg, memory, pair, False)
        message, remote = operation.msg, memory.remote_word
        remote.addr, remote.key, remote.count = request.remote_address, request.rkey, 1
        message.msg_iov, message.iov_count = self._at(memory, "operand"), 1
        message.rma_iov, message.rma_iov_count = self._at(memory, "remote_word"), 1
        message.datatype, message.op = fi.UINT64, _ATOMIC_OPS[kind]
        operation.flags = self._flags(request, answers=compares or fetches)
        if compares or fetches:
            operation.fetch.msg_iov, operation.fetch.iov_count = self._at(memory, "result"), 1
            operation.fetch.desc = memory.result_descriptor
        if compares:
            operation.compare.msg_iov, operation.compare.iov_count = self._at(memory, "compare"), 1
            operation.compare.desc = memory.descriptors
        return OpType.COMPARE_ATOMIC if compares else OpType.FETCH_ATOMIC if fetches else OpType.ATOMIC
