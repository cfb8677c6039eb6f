# SPDX-License-Identifier: Apache-2.0
"""What is wrong with deferred work, said before a provider hears of it: a provider believes every number.

Source: fi_trigger(3), DEFERRED WORK QUEUES: what cannot be carried out may be refused when it is queued.
"""

from __future__ import annotations

from nicemu.abi import AtomicOperation, DeferredWork, Opcode, Sge, WorkRequest, shown
from nicemu.errors import UsageError, counted

RECEIVES = frozenset({Opcode.RECV, Opcode.TAGGED_RECV})
COUNTER_OPERATIONS = frozenset({Opcode.COUNTER_ADD, Opcode.COUNTER_SET})
ATOMICS = frozenset({Opcode.FETCH_ADD, Opcode.COMPARE_SWAP, Opcode.ATOMIC})
IMMEDIATES = frozenset({Opcode.RDMA_WRITE_WITH_IMM, Opcode.SEND_WITH_IMM})
REMOTE = ATOMICS | {Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM, Opcode.RDMA_READ}
OPERATIONS = COUNTER_OPERATIONS | RECEIVES | REMOTE | {Opcode.SEND, Opcode.SEND_WITH_IMM, Opcode.TAGGED_SEND}
"""What libfabric can defer."""
WORD_BYTES = 8
U32_MAX, U64_MAX = (1 << 32) - 1, (1 << 64) - 1


def check_number(value: object, most: int, what: str) -> int:
    """Return a number from 0 to `most`. Raises: UsageError (EINVAL)."""
    if type(value) is not int or not 0 <= value <= most:
        raise UsageError(f"{what} {shown(value)}; it must lie in 0..{most} here (EINVAL)")
    return value


def check_deferred(item: object) -> DeferredWork:
    """Return deferred work whose fields are what they are said to be. Raises: UsageError (EINVAL)."""
    if not isinstance(item, DeferredWork) or not isinstance(item.opcode, Opcode):
        raise UsageError(f"{shown(item)} is no deferred work (EINVAL); a program's operations are")
    names = (item.trigger, item.qp_num, item.target, 0 if item.completion is None else item.completion)
    wrong = [name for name in names if type(name) is not int]
    if wrong:
        raise UsageError(f"counters and queue pairs are named by numbers, not {shown(wrong[0])} (EINVAL)")
    return item


def check_request(request: object, opcode: Opcode, max_tag: int) -> WorkRequest:
    """Return the work request of an operation, if a provider can be given it. Raises: UsageError (EINVAL)."""
    if not isinstance(request, WorkRequest) or request.opcode is not opcode:
        raise UsageError(f"{opcode.name} needs a work request of its own kind (EINVAL), not {shown(request)}")
    sges = request.sges
    if not isinstance(sges, tuple) or not all(isinstance(sge, Sge) for sge in sges):
        raise UsageError(f"local memory is a tuple of Sge, not {shown(sges)} (EINVAL)")
    for sge in sges:
        check_number(sge.address, U64_MAX, "local address")
        check_number(sge.length, U64_MAX, "length")
        check_number(sge.lkey, U64_MAX, "local key")
    if opcode in REMOTE:
        check_number(request.remote_address, U64_MAX, "remote address")
        check_number(request.rkey, U64_MAX, "remote key")
    if opcode in ATOMICS:
        _check_atomic(request)
    check_number(request.imm_data, U32_MAX, "immediate")
    check_number(request.tag, max_tag, "tag")
    check_number(request.ignore, U64_MAX, "mask of ignored bits")
    check_number(request.wr_id, U64_MAX, "number of the work request")
    return request


def _check_atomic(request: WorkRequest) -> None:
    if not isinstance(request.operation, AtomicOperation):
        known = ", ".join(AtomicOperation.__members__)
        raise UsageError(f"{shown(request.operation)} is no AtomicOperation (EINVAL); there are {known}")
    wrong = [sge for sge in request.sges if sge.length != WORD_BYTES]
    if wrong or (request.opcode is not Opcode.ATOMIC and not request.sges):
        raise UsageError("an atomic takes one local piece, of 8 bytes, for the old value (EINVAL)")
    check_number(request.compare_add, U64_MAX, "operand")
    check_number(request.swap, U64_MAX, "value to swap in")


def check_size(request: WorkRequest, local_pieces: int, max_message_bytes: int) -> None:
    """Refuse more pieces or bytes than one operation takes. Raises: UsageError (EINVAL)."""
    most = 1 if request.opcode in (ATOMICS | RECEIVES) else local_pieces
    if len(request.sges) > most:
        raise UsageError(f"{counted(len(request.sges), 'local piece')}; at most {most} here (EINVAL)")
    if request.length_bytes > max_message_bytes:
        raise UsageError(f"{request.length_bytes} bytes; at most {max_message_bytes} (EINVAL)")
