# SPDX-License-Identifier: Apache-2.0
"""A program is a list of operations, each behind a condition; writing it arms nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from nicemu.abi import (
    ARMED,
    AtomicOperation,
    Condition,
    DeferredWork,
    Opcode,
    Program,
    RemoteSpan,
    Sge,
    Span,
    Step,
    WorkRequest,
    pack_deferred,
    pack_program,
)
from nicemu.errors import UsageError


@dataclass(frozen=True)
class Numbered:
    index: int
    name: str = ""


LANDED = Numbered(5)
LOCAL, REMOTE = Span(0x1000, 100, 7), RemoteSpan(3, 0x9000, 100, 8)
WHEN = Condition(2, 4)


@pytest.fixture
def program() -> Program:
    return Program("swap_out")


def test_operations_are_listed_in_the_order_of_writing(program: Program) -> None:
    program.when(WHEN).write(LOCAL, REMOTE, then=LANDED)
    program.when(WHEN).write((LOCAL[:60], LOCAL[60:]), REMOTE, imm_data=0, signaled=True)
    program.when(WHEN).read(LOCAL, REMOTE)
    program.when(Condition(5, 1)).add(Numbered(6))
    program.when(Condition(5, 2)).set(Numbered(6), 9)
    sges = (Sge(0x1000, 100, 7),)
    halves = (Sge(0x1000, 60, 7), Sge(0x103C, 40, 7))
    write, immediate, read = Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM, Opcode.RDMA_READ
    assert program.work == [
        DeferredWork(2, 4, write, WorkRequest(write, sges, 0x9000, 8), 3, 5),
        DeferredWork(2, 4, immediate, WorkRequest(immediate, halves, 0x9000, 8, signaled=True), 3),
        DeferredWork(2, 4, read, WorkRequest(read, sges, 0x9000, 8), 3),
        DeferredWork(5, 1, Opcode.COUNTER_ADD, target=6, value=1),
        DeferredWork(5, 2, Opcode.COUNTER_SET, target=6, value=9),
    ]
    assert program.entries == 5


def test_everything_a_program_lists_can_be_encoded(program: Program) -> None:
    program.when(WHEN).write(LOCAL, REMOTE, imm_data=5, then=LANDED)
    program.when(WHEN).read(LOCAL, REMOTE, then=LANDED)
    program.when(WHEN).fetch_add(LOCAL[:8], REMOTE[:8], 3, then=LANDED)
    program.when(WHEN).add(LANDED, 2)
    program.when(WHEN).set(LANDED, 2)
    for position, work in enumerate(program.work):
        record = np.zeros(1, ARMED)[0]
        pack_deferred(record, work)
        assert int(record["opcode"]) == (2, 3, 7, 16, 17)[position]


def test_local_and_remote_memory_must_be_of_equal_length(program: Program) -> None:
    for local in (LOCAL[:99], (LOCAL, LOCAL[:1])):
        with pytest.raises(UsageError, match=r"(99|101) local bytes, 100 remote bytes; they must be equal"):
            program.when(WHEN).write(local, REMOTE)
        with pytest.raises(UsageError, match="they must be equal"):
            program.when(WHEN).read(local, REMOTE)
    assert program.work == []


@pytest.mark.parametrize("condition", [True, None, "go >= 1"])
def test_what_is_no_condition_is_refused(program: Program, condition: object) -> None:
    with pytest.raises(UsageError, match=r"write `when\(counter >= threshold\)`"):
        program.when(condition)  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [-1, 1.5, "1", True, None])
def test_a_threshold_is_a_whole_number(program: Program, threshold: object) -> None:
    with pytest.raises(UsageError, match="a threshold is a whole number, 0 or more"):
        program.when(Condition(1, threshold))  # type: ignore[arg-type]
    assert not program.unwritten


Call = Callable[[Step], None]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda step: step.write(LOCAL, REMOTE, imm_data="1"), "imm_data is a whole number, 0 to 4294967295"),
        (lambda step: step.write(LOCAL, REMOTE, imm_data=1 << 32), "imm_data is a whole number, 0 to"),
        (lambda step: step.write(LOCAL, REMOTE, imm_data=True), "imm_data is a whole number, .* not True"),
        (lambda step: step.write(LOCAL, REMOTE, signaled="no"), "signaled is True or False, not 'no'"),
        (lambda step: step.write(LOCAL, REMOTE, transmitted=1), "transmitted is True or False, not 1"),
        (lambda step: step.write(LOCAL, REMOTE, write_back=None), "write_back is True or False, not None"),
        (lambda step: step.write(LOCAL, REMOTE, then="b"), "'b' is no counter"),
        (lambda step: step.write(REMOTE, LOCAL), "no registered local memory .* local memory is named first"),
        (lambda step: step.read(LOCAL, LOCAL), "no memory of a peer .* local memory is named first"),
        (lambda step: step.write(np.zeros(100), REMOTE), r"span = nic\.register\(memory\)"),
        (lambda step: step.write((LOCAL,) * 3, REMOTE), "3 local pieces; an operation takes at most 2"),
        (lambda step: step.send(LOCAL, "1"), "qp_num is a whole number"),
        (lambda step: step.receive((LOCAL, LOCAL), 1), "takes one local piece, not 2 pieces"),
        (lambda step: step.receive(LOCAL, 1, wr_id=-1), "wr_id is a whole number, .* not -1"),
        (lambda step: step.tagged_send(LOCAL, 1, 0.5), "tag is a whole number"),
        (lambda step: step.tagged_receive(LOCAL, 1, 2, ignore=-1), "ignore is a whole number"),
        (lambda step: step.atomic(99, REMOTE[:8], 1), "99 is no AtomicOperation .* there are SUM, AND"),
        (
            lambda step: step.atomic(AtomicOperation.SUM, REMOTE, 1),
            "8 remote bytes are changed; this has 100",
        ),
        (lambda step: step.fetch_add(LOCAL[:8], REMOTE[:8], -1), "value is a whole number, .* not -1"),
        (lambda step: step.fetch_add(None, REMOTE[:8], 1), "None is no registered local memory"),
        (lambda step: step.fetch_add(LOCAL[:9], REMOTE[:8], 1), "takes 8 bytes; this one has 9"),
        (lambda step: step.compare_swap(LOCAL[:8], REMOTE[:8], 1.0, 2), "compare is a whole number"),
        (lambda step: step.compare_swap(LOCAL[:8], REMOTE[:8], 1, 1 << 64), "swap is a whole number"),
        (lambda step: step.nvme_read(LOCAL, "1", 0), "nsid is a whole number"),
        (lambda step: step.nvme_write(LOCAL, 1, -1), "slba is a whole number"),
        (lambda step: step.event("hello"), r"event \(nic\.event\(name\) returns it\) is a whole number"),
        (lambda step: step.add(LANDED, 1.0), "value is a whole number"),
        (lambda step: step.set(LANDED, True), "value is a whole number, .* not True"),
        (lambda step: step.set(LANDED, 1 << 64), "value is a whole number"),
    ],
)
def test_an_operand_that_makes_no_sense_adds_nothing_to_the_program(
    program: Program, call: Call, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        call(program.when(WHEN))
    assert program.work == []


def test_numpy_s_numbers_are_operands_and_become_plain_ones(program: Program) -> None:
    five, flag = np.uint32(5), np.True_
    program.when(Condition(2, np.int64(4))).write(LOCAL, REMOTE, imm_data=five, signaled=flag)  # type: ignore[arg-type]
    program.when(WHEN).send(LOCAL, np.uint8(3))  # type: ignore[arg-type]
    program.when(WHEN).add(LANDED, np.int16(7))  # type: ignore[arg-type]
    write, send, add = program.work
    assert write.work is not None
    found = (write.threshold, write.work.imm_data, write.work.signaled, send.qp_num, add.value)
    assert found == (4, 5, True, 3, 7)
    assert [type(value) for value in found] == [int, int, bool, int, int]


def test_a_step_on_which_no_operation_was_called_is_named(program: Program) -> None:
    program.when(Condition(2, 3, "go")).add(LANDED)
    program.when(Condition(2, 4, "go"))
    forgotten = program.when(Condition(7, 1))
    said = r"there is no operation at step 1, when\(go >= 4\), step 1, when\(counter 7 >= 1\)"
    with pytest.raises(UsageError, match=said):
        program.check_written()
    with pytest.raises(UsageError, match=said):
        program.check()
    forgotten.add(LANDED)
    with pytest.raises(
        UsageError, match=r"there is no operation at step 1, when\(go >= 4\) \(EINVAL\): none was called"
    ):
        program.check_written()


@pytest.mark.parametrize("target", [3, None, ["cassini"]])
def test_a_program_is_checked_against_a_profile_or_limits(program: Program, target: object) -> None:
    with pytest.raises(UsageError, match=r"a target is a Limits or a profile's name \(unlimited, portals"):
        program.check(target)  # type: ignore[arg-type]


def test_work_that_cannot_be_encoded_is_named_by_its_place() -> None:
    good = DeferredWork(1, 1, Opcode.COUNTER_ADD, target=2, value=1)
    with pytest.raises(UsageError, match=r"step 1: value is a whole number, .* not -1"):
        pack_program([good, replace(good, value=-1)])
    with pytest.raises(UsageError, match="step 0: 'x' is no DeferredWork"):
        pack_program(["x"])  # type: ignore[list-item]
