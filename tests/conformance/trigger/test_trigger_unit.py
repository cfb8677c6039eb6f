# SPDX-License-Identifier: Apache-2.0
"""C48: the trigger unit, compiled and interpreted, against the naive model of the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from nicemu.abi import DeferredWork, FiringOrder, Limits, Opcode, WorkRequest
from nicemu.errors import NicemuError, VerbsStatus
from nicemu.trigger import TriggerUnit
from tests.conformance.trigger.firing_loop import BUSY, LATER, FiringLoop
from tests.conformance.trigger.naive_model import Counter, NaiveUnit, Refused, Work

MAX_SUCCESS, MAX_ERRORS, COUNTERS, SLOTS, FAIRNESS = 30, 7, 4, 20, 2
OUTCOMES = {"ok": VerbsStatus.SUCCESS.value, "error": VerbsStatus.REM_ACCESS_ERR.value, "later": LATER}
numbers = st.integers(0, COUNTERS)  # one more than there are
operands = st.sampled_from([0, 1, 1, 1, 2, 2, 3, 4, 5, 9, MAX_SUCCESS, MAX_SUCCESS + 1])
errors_counted = st.sampled_from([0, 0, 0, 0, 1, 2, 3, MAX_ERRORS, MAX_ERRORS + 1])


@st.composite
def programs(draw: st.DrawFn, counters: dict[int, Counter], owner: int) -> list[Work]:
    """Up to six operations, most of them on the owner's counters and with thresholds near their values."""
    program: list[Work] = []
    own = [number for number, counter in counters.items() if counter.owner == owner]
    names: st.SearchStrategy[int] = numbers
    if len(own) > 0 and draw(st.integers(0, 9)) > 0:
        names = st.sampled_from(own)
    for _ in range(draw(st.integers(1, 6))):
        trigger = draw(names)
        value = counters[trigger].value if trigger in counters else 0
        kind = draw(st.sampled_from(["write", "write", "add", "set", "event"]))
        completes = kind == "write" or not draw(st.integers(0, 19))
        program.append(
            Work(
                trigger,
                max(0, value + draw(st.integers(-2, 5))),
                kind,
                draw(st.none() | names) if completes else None,
                draw(names),
                draw(operands) if not draw(st.integers(0, 9)) else draw(st.integers(0, 3)),
                draw(st.sampled_from(list(OUTCOMES))),
            )
        )
    return program


def deferred(work: Work) -> DeferredWork:
    """The same work in the vocabulary of the ABI; the outcome travels in `wr_id`."""
    if work.kind == "write":
        request = WorkRequest(Opcode.RDMA_WRITE, wr_id=list(OUTCOMES).index(work.outcome))
        return DeferredWork(
            work.trigger, work.threshold, Opcode.RDMA_WRITE, request, 1, completion=work.completion
        )
    opcodes = {"add": Opcode.COUNTER_ADD, "set": Opcode.COUNTER_SET, "event": Opcode.FIRMWARE_EVENT}
    return DeferredWork(
        work.trigger,
        work.threshold,
        opcodes[work.kind],
        completion=work.completion,
        target=work.target,
        value=work.value,
    )


class TriggerRules(RuleBasedStateMachine):
    compiled = False
    order = FiringOrder.THRESHOLD
    stalls = False

    def __init__(self) -> None:
        super().__init__()
        limits = Limits(
            COUNTERS, SLOTS, MAX_SUCCESS, MAX_ERRORS, order=self.order, stall_on_error=self.stalls
        )
        self.loop = FiringLoop(TriggerUnit(limits, self.compiled), FAIRNESS)
        self.unit = self.loop.unit
        by_issue = self.order is FiringOrder.ISSUE
        self.model = NaiveUnit(COUNTERS, MAX_SUCCESS, MAX_ERRORS, SLOTS, FAIRNESS, by_issue, self.stalls)
        self.handles: dict[int, tuple[int, int]] = {}
        self.loop.outcome = self._outcome
        for owner in (0, 0, 0, 1):
            self.allocate(owner)

    def _outcome(self, work: Any) -> int:  # noqa: ANN401
        if int(work.trigger) in self.model.refusing:
            return BUSY
        return list(OUTCOMES.values())[int(work.wr_id)]

    def both(self, engine: Callable[[], object], model: Callable[[], object]) -> None:
        """Ask both; either both refuse, or both answer alike."""
        try:
            expected = model()
        except (Refused, KeyError):
            with pytest.raises(NicemuError):
                engine()
            return
        assert engine() == expected

    def allocate(self, owner: int) -> None:
        self.both(lambda: self.unit.allocate(owner=owner), lambda: self.model.allocate(owner))

    @rule(counter=numbers, success=operands, errors=errors_counted)
    def add(self, counter: int, success: int, errors: int) -> None:
        self.both(
            lambda: self.unit.add(counter, success, errors), lambda: self.model.add(counter, success, errors)
        )

    @rule(counter=numbers, success=st.none() | operands, errors=st.none() | errors_counted)
    def set(self, counter: int, success: int | None, errors: int | None) -> None:
        self.both(
            lambda: self.unit.set(counter, success, errors), lambda: self.model.set(counter, success, errors)
        )

    @rule(data=st.data(), owner=st.sampled_from([0, 0, 0, 1]))
    def arm(self, data: st.DataObject, owner: int) -> None:
        program = data.draw(programs(self.model.counters, owner))
        named = {len(self.handles) + position: work for position, work in enumerate(program)}

        def engine() -> None:
            handles = self.loop.arm(*map(deferred, program), names=list(named), owner=owner)
            self.handles.update(zip(named, handles, strict=True))

        self.both(engine, lambda: self.model.arm(named, owner))

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def cancel_one(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.handles)))
        self.both(lambda: self.unit.cancel(self.handles[name]), lambda: self.model.cancel(name))

    @rule(
        what=st.sampled_from(["allocate", "cancel counter", "flush", "flush all", "close", "close by force"]),
        counter=numbers,
        owner=st.integers(0, 1),
    )
    def begin_or_end(self, what: str, counter: int, owner: int) -> None:
        if what == "allocate":
            self.allocate(owner)
        elif what == "cancel counter":
            self.both(
                lambda: self.unit.cancel_counter(counter),
                lambda: self.model.counters[counter] and self.model.cancel_where(trigger=counter),
            )
        elif what == "flush":
            self.both(lambda: self.unit.flush(owner), lambda: self.model.cancel_where(owner=owner))
        elif what == "flush all":
            self.both(self.unit.flush, self.model.cancel_where)
        else:
            force = what == "close by force"
            self.both(lambda: self.unit.close(counter, force), lambda: self.model.close(counter, force))
            if counter % 2:
                self.allocate(owner)

    @rule(counter=st.integers(0, COUNTERS - 1))
    def let_the_transport_change_its_mind(self, counter: int) -> None:
        self.model.refusing ^= {counter}

    @precondition(lambda self: self.model.due)
    @rule(budget=st.integers(1, 4) | st.just(1000))
    def run(self, budget: int) -> None:
        self.loop.run(budget)
        self.model.run(budget)

    @precondition(lambda self: self.model.in_flight)
    @rule(data=st.data(), ok=st.booleans())
    def complete(self, data: st.DataObject, ok: bool) -> None:
        position = data.draw(st.integers(0, len(self.model.in_flight) - 1))
        self.loop.complete_pending(position, OUTCOMES["ok" if ok else "error"])
        self.model.complete(position, ok)

    @invariant()
    def same_firing_order(self) -> None:
        assert self.loop.names_fired == self.model.fired

    @invariant()
    def same_slots_in_use(self) -> None:
        assert self.unit.slots_in_use == self.model.slots_in_use

    @invariant()
    def same_counters(self) -> None:
        for number, record in enumerate(self.unit.state.counters):
            counter = self.model.counters.get(number)
            assert bool(record.allocated) == (counter is not None)
            if counter is not None:
                assert self.unit.read(number) == (counter.success, counter.errors)
                assert bool(record.overflow) == counter.overflow
                counts = (int(record.armed), int(record.aimed), int(record.in_flight))
                assert counts == self.model.concerned(number)


class CompiledTriggerRules(TriggerRules):
    compiled = True


class IssueOrderRules(TriggerRules):
    order = FiringOrder.ISSUE


class StallingRules(TriggerRules):
    stalls = True


@pytest.mark.parametrize("examples", [25, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "rules",
    [TriggerRules, CompiledTriggerRules, IssueOrderRules, StallingRules],
    ids=["interpreted", "compiled", "in issue order", "stalling on errors"],
)
def test_the_unit_does_what_the_naive_model_does(rules: type[TriggerRules], examples: int) -> None:
    run_state_machine_as_test(
        rules,
        settings=settings(
            max_examples=examples, stateful_step_count=50, derandomize=True, deadline=None, database=None
        ),
    )
