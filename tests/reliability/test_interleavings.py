# SPDX-License-Identifier: Apache-2.0
"""Requester and responder against a naive model, over every interleaving of a small window.

After every step of every interleaving: completions are in order, what has completed has been executed, once,
and lies where it belongs, byte for byte. Where nothing can happen any more, all work has completed: all of it
well, or up to where an end gave up after its retries, and flushed from there.
Source: InfiniBand Architecture Specification Volume 1, "Reliable Service", "Timeouts and retries".
"""

from __future__ import annotations

import pytest
from hypothesis import settings

from nicemu.errors import VerbsStatus
from nicemu.hot import JIT
from nicemu.rdma.roce import ArrivalKind, QpState
from tests.reliability.interleavings import QP, Explored, Scenario, World, explore
from tests.reliability.naive_model import (
    CompareSwap,
    FetchAdd,
    NaiveModel,
    Operation,
    Read,
    Receive,
    Send,
    Write,
)

OK = VerbsStatus.SUCCESS
GIVEN_UP = (VerbsStatus.RETRY_EXC_ERR, VerbsStatus.RNR_RETRY_EXC_ERR)


class Judge:
    """Holds a world against the naive model: after every step, and at the end."""

    def __init__(self, world: World) -> None:
        scenario = world.scenario
        near, far = world.initial
        self.operations = scenario.operations
        self.model = NaiveModel(near, far, scenario.operations, scenario.receives)

    def arrival(self, number: int) -> tuple[ArrivalKind, int, int]:
        operation = self.operations[number]
        taken = self.model.taken[number]
        wr_id = 0 if taken is None else taken + 1
        match operation:
            case Write(_, _, length, imm):
                return (ArrivalKind.WRITE if imm is None else ArrivalKind.WRITE_WITH_IMM), length, wr_id
            case Send(_, length, imm):
                return (ArrivalKind.SEND if imm is None else ArrivalKind.SEND_WITH_IMM), length, wr_id
            case Read(_, _, length):
                return ArrivalKind.READ, length, 0
        return ArrivalKind.ATOMIC, 8, 0

    def executed(self, world: World) -> int:
        """Return how many operations the far end has executed: in order, and each once."""
        arrived = [(a.kind, a.byte_len, a.wr_id) for a in world.ends[1].arrivals]
        expected = [self.arrival(number) for number in range(len(self.operations))]
        reads = [one for one in expected if one[0] is ArrivalKind.READ]
        others = [one for one in expected if one[0] is not ArrivalKind.READ]
        assert [one for one in arrived if one[0] is ArrivalKind.READ] == reads[
            : sum(one[0] is ArrivalKind.READ for one in arrived)
        ]
        changes = [one for one in arrived if one[0] is not ArrivalKind.READ]
        assert changes == others[: len(changes)], "executed out of order, or twice"
        done = 0  # a READ changes nothing: those behind the last change may have been executed too
        for operation in self.operations:
            if not isinstance(operation, Read):
                if not changes:
                    break
                changes.pop()
            done += 1
        return done

    def check(self, world: World) -> None:
        """Completions are in order; what has completed has been executed and is where it belongs."""
        near, far = world.ends
        done = [c for c in near.completions if c.status is OK]
        assert [c.wr_id for c in near.completions] == list(range(len(near.completions)))
        assert [c.status for c in near.completions[: len(done)]] == [OK] * len(done)
        executed = self.executed(world)
        assert executed >= len(done), "completed, and not executed"
        for number in range(len(done)):
            self._brought(world, number, executed)
        self._memory(world, executed)
        assert not any(c.status is OK for c in far.completions)

    def _brought(self, world: World, number: int, executed: int) -> None:
        operation = self.operations[number]
        place = operation.source
        for allowed in self.model.brought(number, executed, world.scenario.path_mtu):
            length = len(next(iter(allowed)))
            assert bytes(world.ends[0].memory[place : place + length]) in allowed, (
                f"operation {number} brought"
            )
            place += length

    def _memory(self, world: World, executed: int) -> None:
        """The far memory is that of the model; what is written of the next operation is a part of it."""
        memory, before = bytes(world.ends[1].memory), self.model.far[executed]
        if memory == before:
            return
        assert executed < len(self.operations), "memory changed without an operation"
        after = self.model.far[executed + 1]
        assert len(after) == len(memory)
        mixed = [m for m, b, a in zip(memory, before, after, strict=True) if m != b and m != a]
        assert not mixed, "bytes of no operation"
        assert isinstance(self.operations[executed], Write | Send), "half an atomic"

    def end(self, world: World) -> str:
        """All work has completed: all of it well, or up to where one end gave up, and flushed from there."""
        near = world.ends[0]
        statuses = [c.status for c in near.completions]
        assert len(statuses) == len(self.operations), "an operation never completes"
        bad = [status for status in statuses if status is not OK]
        if not bad:
            assert near.engine.state(QP) is QpState.RTS
            assert world.ends[1].engine.state(QP) is QpState.RTS
            assert self.executed(world) == len(self.operations)
            assert bytes(world.ends[1].memory) == self.model.far[-1]
            assert len(world.ends[1].arrivals) == len(self.operations)
            return "all completed"
        assert bad[0] in GIVEN_UP
        assert bad[1:] == [VerbsStatus.WR_FLUSH_ERR] * (len(bad) - 1)
        assert near.engine.state(QP) is QpState.ERR
        return bad[0].name


WORK: dict[str, tuple[tuple[Operation, ...], tuple[Receive, ...]]] = {
    "a write of three packets": ((Write(0, 1024, 600),), ()),
    "write, send, atomic": ((Write(0, 1024, 8), Send(8, 8), FetchAdd(512, 0, 5)), (Receive(600, 16),)),
    "read of two packets, atomic": ((Read(0, 1024, 300), FetchAdd(512, 1024, 5)), ()),
    "three atomics": ((FetchAdd(512, 0, 5), CompareSwap(520, 8, 1, 2), FetchAdd(528, 0, 7)), ()),
    "read, write over it, read": ((Read(0, 1024, 8), Write(600, 1024, 8), Read(16, 1024, 8)), ()),
    "write of two packets, read of two": ((Write(600, 1024, 300), Read(0, 1024, 300)), ()),
}
WAITING: dict[str, tuple[tuple[Operation, ...], tuple[Receive, ...]]] = {
    "send, atomic": ((Send(0, 8), FetchAdd(512, 0, 1)), (Receive(600, 300),)),
    "send of two packets, write with immediate": (
        (Send(0, 300), Write(8, 900, 8, imm=3)),
        (Receive(600, 300), Receive(0, 0)),
    ),
}
"""Here the receives are posted at any time, so that the far end may not be ready."""
SHORT = {name: Scenario(*WORK[name], repeats=0, early_timers=False) for name in list(WORK)[:4] if JIT}
SHORT["send, atomic"] = Scenario(*WAITING["send, atomic"], late_receives=True, repeats=0, early_timers=False)
LONG = {
    f"{name}, 3 under way": Scenario(*work, late_receives=name in WAITING, early_timers=False)
    for name, work in (WORK | WAITING).items()
}
LONG |= {
    f"{name}, 2 under way, any timers": Scenario(*work, late_receives=name in WAITING, window=2)
    for name, work in (WORK | WAITING).items()
    if name in ("a write of three packets", "read of two packets, atomic", "send, atomic")
}
LONG["three atomics, 4 under way"] = Scenario(*WORK["three atomics"], window=4, early_timers=False)


def explore_all(scenario: Scenario) -> Explored:
    world = World(scenario)
    judge = Judge(world)
    explored = explore(world, judge.check, judge.end)
    assert explored.ends["all completed"]
    assert explored.ends[VerbsStatus.RETRY_EXC_ERR.name]
    assert not scenario.late_receives or explored.ends[VerbsStatus.RNR_RETRY_EXC_ERR.name]
    return explored


@pytest.mark.parametrize("scenario", SHORT.values(), ids=SHORT)
def test_however_packets_are_lost_or_reordered_each_operation_is_executed_once(scenario: Scenario) -> None:
    assert explore_all(scenario).interleavings > 500_000


@pytest.mark.slow
@pytest.mark.skipif(settings().max_examples < 1000, reason="minutes; run with --hypothesis-profile=long")
@pytest.mark.parametrize("scenario", LONG.values(), ids=LONG)
def test_however_packets_are_also_repeated_or_timers_early_it_is_executed_once(scenario: Scenario) -> None:
    explored = explore_all(scenario)
    print(f"{explored.states} states, {explored.steps} steps, {explored.interleavings} interleavings")


def test_the_search_finds_an_operation_that_is_executed_twice() -> None:
    """With a responder that forgets the results of atomics, and executes a repeated one again."""
    world = World(Scenario((FetchAdd(512, 0, 5),), repeats=1, early_timers=False))
    judge = Judge(world)
    engine = world.ends[1].engine
    take_in = engine.on_frame

    def forgetful(frame: bytes | memoryview, now_ns: int) -> None:
        engine._state.queue_pairs["expected_psn"] = world.scenario.first_psn
        take_in(frame, now_ns)

    engine.on_frame = forgetful  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="twice"):
        explore(world, judge.check, judge.end)
