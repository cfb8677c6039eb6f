# SPDX-License-Identifier: Apache-2.0
"""Encodings in shared memory, version 1: what lies where, and what cannot be encoded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu import abi
from nicemu.abi import (
    ABI_VERSION,
    ARMED,
    COMMAND,
    COMPLETION,
    NOBODY,
    RESPONSE,
    SIGNALED,
    WORK,
    AtomicOperation,
    DeferredWork,
    Opcode,
    Sge,
    WorkRequest,
    pack_deferred,
    pack_work,
    unpack_work,
)
from nicemu.errors import UsageError


def blank(kind: np.dtype[np.void]) -> np.void:
    """Return a record of zeros."""
    record: np.void = np.zeros(1, kind)[0]
    return record


WORK_GOLDEN = {
    "opcode": (0, "|u1"),
    "options": (1, "|u1"),
    "sge_count": (2, "|u1"),
    "cq": (3, "|u1"),
    "qp": (4, "<u4"),
    "remote_address": (8, "<u8"),
    "rkey": (16, "<u4"),
    "imm_data": (20, "<u4"),
    "sge0_address": (24, "<u8"),
    "sge0_length": (32, "<u4"),
    "sge0_lkey": (36, "<u4"),
    "sge1_address": (40, "<u8"),
    "sge1_length": (48, "<u4"),
    "sge1_lkey": (52, "<u4"),
    "wr_id": (56, "<u8"),
}
GOLDEN = {
    "WORK": (64, WORK_GOLDEN),
    "ARMED": (
        128,
        WORK_GOLDEN
        | {
            "threshold": (64, "<u8"),
            "sequence": (72, "<u8"),
            "trigger": (80, "<i4"),
            "completion": (84, "<i4"),
            "child": (88, "<i4"),
            "next": (92, "<i4"),
            "prev": (96, "<i4"),
            "owner": (100, "<i4"),
            "state": (104, "|u1"),
            "padding": (105, "|u1"),
            "window": (112, "<u4"),
            "spare": (116, "<u4"),
            "key": (120, "<u8"),
        },
    ),
    "COMMAND": (
        64,
        {
            "opcode": (0, "<u2"),
            "flags": (2, "<u2"),
            "tag": (4, "<u4"),
            "words": (8, "<u8"),
            "ready": (56, "<u8"),
        },
    ),
    "RESPONSE": (
        64,
        {
            "tag": (0, "<u4"),
            "status": (4, "<i4"),
            "value": (8, "<u8"),
            "words": (16, "<u8"),
            "ready": (56, "<u8"),
        },
    ),
    "COMPLETION": (
        64,
        {
            "wr_id": (0, "<u8"),
            "status": (8, "<u4"),
            "opcode": (12, "<u4"),
            "byte_len": (16, "<u8"),
            "qp": (24, "<u4"),
            "imm_data": (28, "<u4"),
            "has_imm": (32, "<u4"),
            "cq": (36, "<u4"),
            "words": (40, "<u8"),
            "ready": (56, "<u8"),
        },
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_layout_of_a_record_is_that_of_version_1(name: str) -> None:
    """Host and NIC may be of different builds: who moves a field must raise ABI_VERSION."""
    assert ABI_VERSION == 1
    record: np.dtype[np.void] = getattr(abi, name)
    assert record.fields is not None
    layout = {field: (offset, kind.base.str) for field, (kind, offset, *_) in record.fields.items()}
    assert (record.itemsize, layout) == GOLDEN[name]


def test_every_word_is_naturally_aligned() -> None:
    for record in (WORK, ARMED, COMMAND, RESPONSE, COMPLETION):
        assert record.fields is not None
        for kind, offset, *_ in record.fields.values():
            assert offset % kind.base.itemsize == 0


@pytest.mark.parametrize("record", [COMMAND, RESPONSE, COMPLETION])
def test_the_word_that_makes_a_ring_entry_visible_is_the_last(record: np.dtype[np.void]) -> None:
    assert record.fields is not None
    assert record.fields["ready"][1] == record.itemsize - 8


def test_codes_are_those_of_version_1() -> None:
    assert {opcode.name: opcode.value for opcode in Opcode} == {
        "RDMA_WRITE": 1,
        "RDMA_WRITE_WITH_IMM": 2,
        "RDMA_READ": 3,
        "SEND": 4,
        "SEND_WITH_IMM": 5,
        "COMPARE_SWAP": 6,
        "FETCH_ADD": 7,
        "RECV": 8,
        "ATOMIC": 9,
        "TAGGED_SEND": 10,
        "TAGGED_RECV": 11,
        "COUNTER_ADD": 16,
        "COUNTER_SET": 17,
        "FIRMWARE_EVENT": 18,
        "WRITE_BACK": 19,
        "NVME_READ": 20,
        "NVME_WRITE": 21,
    }
    assert [code.value for code in abi.CommandCode] == list(range(1, 10))
    assert (SIGNALED, NOBODY) == (1, -1)


u32, u64 = st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1)
sges = st.builds(Sge, u64, u32, u32)
common: dict[str, Any] = {
    "remote_address": u64,
    "rkey": u32,
    "imm_data": u32,
    "wr_id": u64,
    "signaled": st.booleans(),
    "transmitted": st.booleans(),
}
old_value = st.builds(Sge, u64, st.just(8), u32).map(lambda sge: (sge,))
operands: dict[str, Any] = {"compare_add": u64, "swap": u64, **common}
transfers = (
    st.builds(
        WorkRequest,
        st.sampled_from([opcode for opcode in Opcode if opcode <= Opcode.SEND_WITH_IMM]),
        st.lists(sges, max_size=2).map(tuple),
        **common,
    )
    | st.builds(WorkRequest, st.just(Opcode.RECV), st.lists(sges, max_size=1).map(tuple), **common)
    | st.builds(
        lambda tag, **fields: WorkRequest(tag=tag, **{**fields, "remote_address": tag}),
        u64,
        opcode=st.just(Opcode.TAGGED_RECV),
        sges=st.lists(sges, max_size=1).map(tuple),
        ignore=u64,
        **common,
    )
)
atomics = st.builds(
    WorkRequest, st.sampled_from([Opcode.COMPARE_SWAP, Opcode.FETCH_ADD]), old_value, **operands
) | st.builds(
    WorkRequest,
    st.just(Opcode.ATOMIC),
    old_value | st.just(()),
    operation=st.sampled_from(AtomicOperation),
    **operands,
)


@settings(derandomize=True)
@given(transfers | atomics, u32, st.integers(0, 255), st.sampled_from([WORK, ARMED]))
def test_a_work_request_comes_back_as_it_was_packed(
    work: WorkRequest, qp_num: int, cq: int, kind: np.dtype[np.void]
) -> None:
    record = blank(kind)
    pack_work(record, work, qp_num, cq)
    assert unpack_work(np.frombuffer(record.tobytes(), kind)[0]) == work
    assert (int(record["qp"]), int(record["cq"])) == (qp_num, cq)


def test_a_work_request_lies_in_its_bytes_as_the_layout_says() -> None:
    record = blank(WORK)
    sges = Sge(0x1122334455667788, 0x99AABBCC, 0xDDEEFF00), Sge(0x0807060504030201, 0x0C0B0A09, 0x100F0E0D)
    work = WorkRequest(Opcode.RDMA_WRITE_WITH_IMM, sges, 0x2827262524232221, 0x34333231, 0x38373635)
    pack_work(record, replace(work, wr_id=0x4847464544434241, signaled=True), 0x54535251, 3)
    assert record.tobytes().hex(" ", 8) == (
        "0201020351525354 2122232425262728 3132333435363738 8877665544332211 "
        "ccbbaa9900ffeedd 0102030405060708 090a0b0c0d0e0f10 4142434445464748"
    )


def test_an_atomic_keeps_its_operands_where_a_second_piece_would_lie() -> None:
    record = blank(WORK)
    work = WorkRequest(Opcode.COMPARE_SWAP, (Sge(1, 8, 2),), compare_add=0x1111, swap=0xAAAABBBBCCCCDDDD)
    pack_work(record, work, 1)
    operands = [int(record[name]) for name in ("sge_count", "sge1_address", "sge1_length", "sge1_lkey")]
    assert operands == [1, 0x1111, 0xCCCCDDDD, 0xAAAABBBB]


@settings(derandomize=True)
@given(
    st.sampled_from([Opcode.COUNTER_ADD, Opcode.COUNTER_SET]), u64, st.integers(0, (1 << 31) - 1), u32, u64
)
def test_a_deferred_counter_operation_keeps_its_target_and_operand(
    opcode: Opcode, threshold: int, trigger: int, target: int, value: int
) -> None:
    record = blank(ARMED)
    pack_deferred(record, DeferredWork(trigger, threshold, opcode, target=target, value=value))
    fields = ("opcode", "threshold", "trigger", "rkey", "remote_address", "completion")
    assert [int(record[name]) for name in fields] == [opcode, threshold, trigger, target, value, NOBODY]


@settings(derandomize=True)
@given(transfers | atomics, u64, st.integers(0, (1 << 31) - 1), st.none() | st.integers(0, (1 << 31) - 1))
def test_deferred_work_keeps_its_work_request_trigger_and_completion(
    work: WorkRequest, threshold: int, trigger: int, completion: int | None
) -> None:
    record = blank(ARMED)
    deferred = DeferredWork(trigger, threshold, work.opcode, work, 7, completion)
    pack_deferred(record, deferred, cq=2)
    assert unpack_work(record) == work
    assert [int(record[name]) for name in ("qp", "cq", "threshold", "trigger", "completion")] == [
        7,
        2,
        threshold,
        trigger,
        NOBODY if completion is None else completion,
    ]


def test_a_firmware_event_keeps_its_cookie() -> None:
    record = blank(ARMED)
    pack_deferred(record, DeferredWork(1, 2, Opcode.FIRMWARE_EVENT, cookie=(1 << 64) - 1))
    assert (int(record["opcode"]), int(record["wr_id"])) == (18, (1 << 64) - 1)


WRITE = WorkRequest(Opcode.RDMA_WRITE, (Sge(0, 8, 1),))
ADD = DeferredWork(0, 1, Opcode.COUNTER_ADD)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (replace(WRITE, sges=(Sge(0, 8, 1),) * 3), "3 local pieces; a work request holds at most 2"),
        (replace(WRITE, opcode=Opcode.FETCH_ADD, sges=()), "exactly one local piece, of 8 bytes"),
        (
            replace(WRITE, opcode=Opcode.FETCH_ADD, sges=(Sge(0, 4, 1),)),
            "exactly one local piece, of 8 bytes",
        ),
        (replace(WRITE, opcode=Opcode.COMPARE_SWAP, sges=(Sge(0, 8, 1),) * 2), "exactly one local piece"),
        (
            replace(WRITE, opcode=Opcode.COMPARE_SWAP, swap=1 << 64),
            "swap is a whole number, .* not 18446744073709551616",
        ),
        (
            replace(WRITE, imm_data=1 << 32),
            r"imm_data is a whole number, 0 to 4294967295, not 4294967296 \(EINVAL\)",
        ),
        (replace(WRITE, rkey=-1), "rkey is a whole number, 0 to 4294967295, not -1"),
        (
            replace(WRITE, remote_address=1 << 64),
            "remote_address is a whole number, .* not 18446744073709551616",
        ),
        (
            replace(WRITE, sges=(Sge(0, 1 << 32, 1),)),
            r"sges\[0\]\.length is a whole number, .* not 4294967296",
        ),
        (
            replace(WRITE, sges=(Sge(0, 8, 1), Sge(-1, 8, 1))),
            r"sges\[1\]\.address is a whole number, .* not -1",
        ),
    ],
)
def test_a_work_request_that_does_not_fit_is_refused(work: WorkRequest, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pack_work(blank(WORK), work, 1)


@pytest.mark.parametrize(
    ("deferred", "message"),
    [
        (replace(ADD, completion=3), r"COUNTER_ADD has no completion counter \(EINVAL\); leave it out"),
        (replace(ADD, work=WRITE), "COUNTER_ADD holds no work request, this one holds a RDMA_WRITE"),
        (
            replace(ADD, opcode=Opcode.FIRMWARE_EVENT, completion=3),
            "FIRMWARE_EVENT has no completion counter",
        ),
        (replace(ADD, opcode=Opcode.RDMA_READ), "RDMA_READ needs a work request"),
        (
            replace(ADD, opcode=Opcode.RDMA_READ, work=WRITE),
            "RDMA_READ cannot hold a work request for RDMA_WRITE",
        ),
        (replace(ADD, threshold=1 << 64), "threshold is a whole number, .* not 18446744073709551616"),
        (replace(ADD, threshold=-1), "threshold is a whole number, .* not -1"),
        (replace(ADD, trigger=1 << 31), "trigger is a whole number, 0 to 2147483647, not 2147483648"),
        (replace(ADD, value=1 << 64), "value is a whole number, .* not 18446744073709551616"),
    ],
)
def test_deferred_work_that_cannot_be_encoded_is_refused(deferred: DeferredWork, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pack_deferred(blank(ARMED), deferred)
