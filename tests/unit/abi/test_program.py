# SPDX-License-Identifier: Apache-2.0
"""A program is a list of operations, each behind a condition; writing it arms nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from nicemu.abi import (
    ARMED,
    Condition,
    DeferredWork,
    Opcode,
    Program,
    RemoteSpan,
    Sge,
    Span,
    WorkRequest,
    pack_deferred,
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


def test_a_piece_of_memory_is_cut_as_a_sequence_is() -> None:
    assert LOCAL[10:30] == Span(0x100A, 20, 7)
    assert LOCAL[90:] == LOCAL[-10:] == Span(0x105A, 10, 7)
    assert REMOTE[10:30] == RemoteSpan(3, 0x900A, 20, 8)
    assert LOCAL[10:30][5:].sge() == Sge(0x100F, 15, 7)


@pytest.mark.parametrize("part", [slice(30, 30), slice(30, 10), slice(0, 100, 2), slice(100, 200)])
def test_what_is_no_piece_of_memory_is_refused(part: slice) -> None:
    for span in (LOCAL, REMOTE):
        with pytest.raises(UsageError, match="of 100 are no piece of memory"):
            span[part]


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


@pytest.mark.parametrize("condition", [Condition(1, -1), True, None])
def test_what_is_no_condition_is_refused(program: Program, condition: object) -> None:
    with pytest.raises(UsageError, match=r"write `when\(counter >= threshold\)`"):
        program.when(condition)  # type: ignore[arg-type]
