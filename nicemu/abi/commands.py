# SPDX-License-Identifier: Apache-2.0
"""Encodings in shared memory, version 1: 64-byte work, 128-byte armed work, 64-byte commands and completions.

All little-endian and naturally aligned. A ring entry becomes visible by its last word, `ready`, which is
stored last with release order and holds the entry's number plus one, so that a stale entry of an earlier lap
is never taken.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np

from nicemu.errors import UsageError

from .operands import shown, whole, yes_or_no
from .work import MAX_SGE, AtomicOperation, DeferredWork, Opcode, Sge, WorkRequest

ABI_VERSION = 1
SIGNALED = 1
"""Flag of a work request: its completion enters the completion queue."""

TRANSMITTED = 2
"""Flag: the operation completes when its last byte has left."""
POSTED = 4
"""Flag: posted for now, not deferred; the NIC's own."""
OPERATION_SHIFT = 4
"""Bits 4 to 6 of `options` are an ATOMIC's operation."""

NOBODY = -1
"""No completion counter."""

WORK = np.dtype(
    [
        ("opcode", "u1"),
        ("options", "u1"),
        ("sge_count", "u1"),
        ("cq", "u1"),
        ("qp", "u4"),
        ("remote_address", "u8"),
        ("rkey", "u4"),
        ("imm_data", "u4"),
        ("sge0_address", "u8"),
        ("sge0_length", "u4"),
        ("sge0_lkey", "u4"),
        ("sge1_address", "u8"),
        ("sge1_length", "u4"),
        ("sge1_lkey", "u4"),
        ("wr_id", "u8"),
    ]
)
"""One work request. Atomics keep `compare_add` in `sge1_address` and `swap` in the two words behind it;
counter operations keep the operand in `remote_address` and the target counter in `rkey`; a firmware event its
cookie in `wr_id` and its value in `remote_address`; NVMe operations the first block in `remote_address` and
the namespace in `rkey`; tagged work the tag in `remote_address` and, receiving, the bits to ignore in
`sge1_address`."""

ARMED = np.dtype(
    [
        *[(name, WORK.fields[name][0]) for name in WORK.names],  # type: ignore[index,union-attr]
        ("threshold", "u8"),
        ("sequence", "u8"),
        ("trigger", "i4"),
        ("completion", "i4"),
        ("child", "i4"),
        ("next", "i4"),
        ("prev", "i4"),
        ("owner", "i4"),
        ("state", "u1"),
        ("padding", "u1", 7),
        ("window", "u4"),
        ("spare", "u4"),
        ("key", "u8"),
    ]
)
"""Deferred work: the work, when it fires, and (for the NIC alone) its links in the trigger unit."""

COMMAND = np.dtype([("opcode", "u2"), ("flags", "u2"), ("tag", "u4"), ("words", "u8", 6), ("ready", "u8")])
RESPONSE = np.dtype([("tag", "u4"), ("status", "i4"), ("value", "u8"), ("words", "u8", 5), ("ready", "u8")])
COMPLETION = np.dtype(
    [
        ("wr_id", "u8"),
        ("status", "u4"),
        ("opcode", "u4"),
        ("byte_len", "u8"),
        ("qp", "u4"),
        ("imm_data", "u4"),
        ("has_imm", "u4"),
        ("cq", "u4"),
        ("words", "u8", 2),
        ("ready", "u8"),
    ]
)
assert (WORK.itemsize, ARMED.itemsize) == (64, 128)
assert COMMAND.itemsize == RESPONSE.itemsize == COMPLETION.itemsize == 64


_WORDS = {
    "qp": "qp_num",
    **{
        f"sge{place}_{name}": f"sges[{place}].{name}"
        for place in (0, 1)
        for name in ("address", "length", "lkey")
    },
}
"""What a field of a record is called in the work that it is filled from, where that is something else."""
_NO_WORDS: dict[str, str] = {}
_ATOMICS = (Opcode.COMPARE_SWAP, Opcode.FETCH_ADD, Opcode.ATOMIC)
_ONE_PIECE = (Opcode.RECV, Opcode.TAGGED_RECV)
_NVME = (Opcode.NVME_READ, Opcode.NVME_WRITE)
_TAGGED = (Opcode.TAGGED_SEND, Opcode.TAGGED_RECV)
_WITHOUT_WORK = (Opcode.COUNTER_ADD, Opcode.COUNTER_SET, Opcode.FIRMWARE_EVENT, Opcode.WRITE_BACK)


class CommandCode(enum.IntEnum):
    """What a command asks for; `words` are its operands."""

    COUNTER_ADD = 1
    """words: counter, success, errors."""
    COUNTER_SET = 2
    """words: counter, success, errors, which (1 success, 2 errors, 3 both)."""
    ARM = 3
    """words: first armed-work record in the staging area, how many; all or nothing."""
    POST = 4
    """words: first record in the staging area, how many; work requests for queue pairs."""
    CANCEL = 5
    """words: slot, sequence. value: 1 if it was removed, 0 if it has fired."""
    CANCEL_COUNTER = 6
    """words: counter. value: how many were removed."""
    FLUSH = 7
    """Remove all armed work of this owner. value: how many were removed."""
    POST_RECEIVE = 8
    """words: first record in the staging area, how many."""
    ARM_PROGRAM = 9
    """words: bus address of armed-work records in memory that the owner shared, how many; all or nothing.
    value: sequence of the first; the NIC stores sequence and slot of each in its record."""


class CommandStatus(enum.IntEnum):
    """Status of a command, an errno as the specifications give it."""

    OK = 0
    NO_ENTRY = 2
    AGAIN = 11
    PERMISSION = 13
    BUSY = 16
    INVALID = 22
    NO_SPACE = 28
    NOT_SUPPORTED = 38


def _store(record: np.void, fields: dict[str, int], words: dict[str, str] = _NO_WORDS) -> None:
    """Fill fields of a record. `words`: what those are called here that have another name elsewhere."""
    for name, value in fields.items():
        try:
            record[name] = value if type(value) is int else _fitting(record, name, value, words)
        except OverflowError:
            record[name] = _fitting(record, name, value, words)


def _fitting(record: np.void, name: str, value: int, words: dict[str, str]) -> int:
    """Return a number that fits a field. Raises: UsageError for any other, or for none."""
    word = words.get(name) or _WORDS.get(name, name)
    return whole(value, word, most=int(np.iinfo(record.dtype[name]).max))


def pack_work(record: np.void, work: WorkRequest, qp_num: int, cq: int = 0) -> None:
    """Fill the work part of a WORK or ARMED record.

    Raises: UsageError for more than two pieces of local memory, an atomic without exactly one of 8 bytes, or
    something that is no number or does not fit its field.
    """
    _check_work(work)
    atomic = work.opcode in _ATOMICS
    options = SIGNALED if work.signaled else 0
    options |= TRANSMITTED if work.transmitted else 0
    options |= work.operation << OPERATION_SHIFT
    words = _NO_WORDS
    fields = {
        "opcode": int(work.opcode),
        "options": options,
        "sge_count": len(work.sges),
        "cq": cq,
        "qp": qp_num,
        "remote_address": work.remote_address,
        "rkey": work.rkey,
        "imm_data": work.imm_data,
        "wr_id": work.wr_id,
    }
    for position, sge in enumerate(work.sges):
        fields[f"sge{position}_address"] = sge.address
        fields[f"sge{position}_length"] = sge.length
        fields[f"sge{position}_lkey"] = sge.lkey
    if atomic:
        words = {"sge1_address": "compare_add"}
        swap = whole(work.swap, "swap")
        fields["sge1_address"] = work.compare_add
        fields["sge1_length"] = swap & 0xFFFFFFFF
        fields["sge1_lkey"] = swap >> 32
    if work.opcode in _TAGGED:
        words = {"remote_address": "tag", "sge1_address": "ignore"}
        fields["remote_address"] = work.tag
    if work.opcode is Opcode.TAGGED_RECV:
        fields["sge1_address"] = work.ignore
    _store(record, fields, words)


def _check_work(work: WorkRequest) -> None:
    """Raise UsageError for a work request that is none, or has pieces that its operation does not take."""
    if not isinstance(work, WorkRequest) or not isinstance(work.opcode, Opcode):
        raise UsageError(f"{shown(work)} is no WorkRequest with an Opcode (EINVAL)")
    if not type(work.signaled) is type(work.transmitted) is bool:
        yes_or_no(work.signaled, "signaled")
        yes_or_no(work.transmitted, "transmitted")
    if not isinstance(work.operation, AtomicOperation):
        raise UsageError(f"operation is an AtomicOperation, not {shown(work.operation)} (EINVAL)")
    if not isinstance(work.sges, tuple) or not all(isinstance(sge, Sge) for sge in work.sges):
        raise UsageError(
            f"sges is a tuple of Sge, as span.sge() returns them, not {shown(work.sges)} (EINVAL)"
        )
    if len(work.sges) > MAX_SGE:
        raise UsageError(f"{len(work.sges)} local pieces; a work request holds at most {MAX_SGE} (EINVAL)")
    fetches = work.opcode is not Opcode.ATOMIC
    wrong = [sge for sge in work.sges if sge.length != 8] or len(work.sges) > 1
    if work.opcode in _ATOMICS and (wrong or (fetches and not work.sges)):
        raise UsageError("an atomic takes exactly one local piece, of 8 bytes, for the old value (EINVAL)")
    if work.opcode in _ONE_PIECE and len(work.sges) > 1:
        raise UsageError(f"a {work.opcode.name} takes at most one local piece (EINVAL)")


def unpack_work(record: np.void) -> WorkRequest:
    """Return the work request that a WORK or ARMED record holds."""
    opcode = Opcode(int(record["opcode"]))
    sges = tuple(
        Sge(
            int(record[f"sge{position}_address"]),
            int(record[f"sge{position}_length"]),
            int(record[f"sge{position}_lkey"]),
        )
        for position in range(min(int(record["sge_count"]), MAX_SGE))
    )
    atomic = opcode in _ATOMICS
    tagged = opcode in (Opcode.TAGGED_SEND, Opcode.TAGGED_RECV)
    options = int(record["options"])
    return WorkRequest(
        opcode,
        sges,
        int(record["remote_address"]),
        int(record["rkey"]),
        int(record["imm_data"]),
        int(record["sge1_address"]) if atomic else 0,
        int(record["sge1_length"]) | int(record["sge1_lkey"]) << 32 if atomic else 0,
        int(record["wr_id"]),
        bool(options & SIGNALED),
        AtomicOperation(options >> OPERATION_SHIFT & 7),
        int(record["remote_address"]) if tagged else 0,
        int(record["sge1_address"]) if opcode is Opcode.TAGGED_RECV else 0,
        bool(options & TRANSMITTED),
    )


def pack_deferred(record: np.void, deferred: DeferredWork, cq: int = 0) -> None:
    """Fill an ARMED record.

    Raises: UsageError if a counter operation or firmware event names a completion counter or holds a work
    request, a data operation holds none or one with another opcode, or a number does not fit its field.
    Source: fi_trigger(3), DEFERRED WORK QUEUES ("completion_cntr ... must be NULL" for counter operations).
    """
    if not isinstance(deferred, DeferredWork) or not isinstance(deferred.opcode, Opcode):
        raise UsageError(f"{shown(deferred)} is no DeferredWork with an Opcode (EINVAL)")
    work, opcode = deferred.work, deferred.opcode
    if work is not None and not isinstance(work, WorkRequest):
        raise UsageError(f"{shown(work)} is no WorkRequest (EINVAL)")
    words = _NO_WORDS
    fields = {
        "opcode": int(opcode),
        "threshold": deferred.threshold,
        "trigger": deferred.trigger,
        "completion": NOBODY if deferred.completion is None else deferred.completion,
    }
    if opcode in _WITHOUT_WORK:
        if deferred.completion is not None:
            raise UsageError(f"{opcode.name} has no completion counter (EINVAL); leave it out")
        if work is not None:
            raise UsageError(f"{opcode.name} holds no work request, this one holds a {work.opcode.name}")
        if opcode is Opcode.FIRMWARE_EVENT:
            words = {"wr_id": "cookie", "remote_address": "value"}
            fields |= {"wr_id": deferred.cookie, "remote_address": deferred.value}
        else:
            words = {"remote_address": "value", "rkey": "target"}
            fields |= {"remote_address": deferred.value, "rkey": deferred.target}
    elif work is None:
        raise UsageError(f"{opcode.name} needs a work request")
    elif work.opcode is not opcode:
        raise UsageError(f"{opcode.name} cannot hold a work request for {work.opcode.name}")
    else:
        pack_work(record, work, deferred.qp_num, cq)
    if opcode in _NVME:
        words = {"remote_address": "slba", "rkey": "nsid"}
        fields |= {"remote_address": deferred.slba, "rkey": deferred.nsid}
    _store(record, fields, words)


def pack_program(work: Sequence[DeferredWork]) -> np.ndarray:
    """Return ARMED records of a whole program.

    Raises: UsageError as `pack_deferred`, with the operation's place in `work`.
    """
    records = np.zeros(len(work), ARMED)
    for place, (record, deferred) in enumerate(zip(records, work, strict=True)):
        try:
            pack_deferred(record, deferred)
        except UsageError as error:
            raise UsageError(f"step {place}: {error}") from None
    return records
