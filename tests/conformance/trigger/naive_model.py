# SPDX-License-Identifier: Apache-2.0
"""What fi_trigger(3) and fi_cntr(3) say about counters and deferred work, as lists that are scanned.

Nothing of the engine is used here: no heap, no links, no NumPy. Cost is of no interest.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class Refused(Exception):  # noqa: N818
    """The request is refused and nothing has changed."""


@dataclass
class Counter:
    owner: int
    success: int = 0
    errors: int = 0
    overflow: bool = False
    stalls: bool = False

    @property
    def value(self) -> int:
        """What thresholds are compared with."""
        return self.success if self.stalls else self.success + self.errors


@dataclass(frozen=True)
class Work:
    """`kind` is "write", "event", "add" or "set"; `outcome` how the write ends: "ok", "error" or "later"."""

    trigger: int
    threshold: int
    kind: str
    completion: int | None = None
    target: int = 0
    value: int = 0
    outcome: str = "ok"

    def changes(self, counter: int) -> bool:
        return self.completion == counter or (self.kind in ("add", "set") and self.target == counter)


@dataclass
class NaiveUnit:
    """Counters by number, armed work by name. `refusing`: triggers whose writes the transport refuses.

    `by_issue`: what one count makes due fires in arming order. `stalls`: errors count towards no threshold.
    """

    counter_count: int
    max_success: int
    max_errors: int
    slot_count: int
    fairness: int
    by_issue: bool = False
    stalls: bool = False
    counters: dict[int, Counter] = field(default_factory=dict)
    waiting: dict[int, Work] = field(default_factory=dict)
    due: list[tuple[int, Work]] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    in_flight: list[int | None] = field(default_factory=list)
    refusing: set[int] = field(default_factory=set)
    fired: list[int] = field(default_factory=list)

    @property
    def slots_in_use(self) -> int:
        return len(self.waiting) + len(self.due)

    def concerned(self, counter: int) -> tuple[int, int, int]:
        """How many operations a counter triggers, how many will change it, how many in flight end there."""
        armed = [*self.waiting.values(), *(work for _, work in self.due)]
        aimed = sum(
            (work.completion == counter) + (work.kind in ("add", "set") and work.target == counter)
            for work in armed
        )
        return sum(work.trigger == counter for work in armed), aimed, self.in_flight.count(counter)

    def allocate(self, owner: int) -> int:
        free = [number for number in range(self.counter_count) if number not in self.counters]
        if not free:
            raise Refused
        self.counters[free[0]] = Counter(owner, stalls=self.stalls)
        return free[0]

    def add(self, counter: int, success: int, errors: int) -> None:
        if not (0 <= success <= self.max_success and 0 <= errors <= self.max_errors):
            raise Refused
        values = self.counters[counter]
        values.overflow |= values.success + success > self.max_success
        values.overflow |= values.errors + errors > self.max_errors
        values.success = min(values.success + success, self.max_success)
        values.errors = min(values.errors + errors, self.max_errors)
        self._look_at(counter)

    def set(self, counter: int, success: int | None, errors: int | None) -> None:
        if not (0 <= (success or 0) <= self.max_success and 0 <= (errors or 0) <= self.max_errors):
            raise Refused
        values = self.counters[counter]
        values.success = values.success if success is None else success
        values.errors = values.errors if errors is None else errors
        self._look_at(counter)

    def _look_at(self, counter: int) -> None:
        """Make due what the counter's value has reached: by threshold or not, then in arming order."""
        reached = [
            (0 if self.by_issue else work.threshold, name)
            for name, work in self.waiting.items()
            if work.trigger == counter and work.threshold <= self.counters[counter].value
        ]
        for _, name in sorted(reached):
            self.due.append((name, self.waiting.pop(name)))
        if reached and counter not in self.turns:
            self.turns.append(counter)

    def arm(self, program: dict[int, Work], owner: int) -> None:
        if self.slots_in_use + len(program) > self.slot_count:
            raise Refused
        for work in program.values():
            named = [work.trigger]
            named += [work.completion] if work.completion is not None else []
            named += [work.target] if work.kind in ("add", "set") else []
            if any(number not in self.counters or self.counters[number].owner != owner for number in named):
                raise Refused
            if work.kind != "write" and work.completion is not None:
                raise Refused
            if work.threshold > self.max_success or (
                work.kind in ("add", "set") and work.value > self.max_success
            ):
                raise Refused
        for name, work in program.items():
            self.waiting[name] = work
            self._look_at(work.trigger)

    def cancel(self, name: int) -> bool:
        return self.waiting.pop(name, None) is not None

    def cancel_where(self, owner: int | None = None, trigger: int | None = None) -> int:
        gone = [
            name
            for name, work in self.waiting.items()
            if trigger in (None, work.trigger) and owner in (None, self.counters[work.trigger].owner)
        ]
        return sum(self.cancel(name) for name in gone)

    def close(self, counter: int, force: bool) -> None:
        if counter not in self.counters or counter in self.in_flight:
            raise Refused
        if force:
            for name, work in list(self.waiting.items()):
                if work.trigger == counter or work.changes(counter):
                    del self.waiting[name]
            self.due = [
                (name, work)
                for name, work in self.due
                if work.trigger != counter and not work.changes(counter)
            ]
            self.turns = [turn for turn in self.turns if any(work.trigger == turn for _, work in self.due)]
        if any(self.concerned(counter)):
            raise Refused
        del self.counters[counter]

    def complete(self, position: int, ok: bool) -> None:
        self._end(self.in_flight.pop(position), ok)

    def _end(self, completion: int | None, ok: bool) -> None:
        if completion is not None:
            self.add(completion, int(ok), int(not ok))

    def run(self, budget: int) -> None:
        """Fire what is due, a batch of one counter, then of the next; a refused write waits for its turn."""
        in_a_row = refused = 0
        while budget and self.turns:
            counter = self.turns[0]
            name, work = next(entry for entry in self.due if entry[1].trigger == counter)
            if work.kind == "write" and counter in self.refusing:
                refused, in_a_row = refused + 1, 0
                if refused == len(self.turns):
                    return
                self.turns.append(self.turns.pop(0))
                continue
            budget, refused = budget - 1, 0
            self.due.remove((name, work))
            self.fired.append(name)
            if not any(other.trigger == counter for _, other in self.due):
                self.turns.remove(counter)
            self._take_effect(work)
            in_a_row = in_a_row + 1 if self.turns and self.turns[0] == counter else 0
            if in_a_row == self.fairness:
                self.turns.append(self.turns.pop(0))
                in_a_row = 0

    def _take_effect(self, work: Work) -> None:
        if work.kind == "add":
            self.add(work.target, work.value, 0)
        elif work.kind == "set":
            self.set(work.target, work.value, None)
        elif work.kind == "write" and work.outcome == "later":
            self.in_flight.append(work.completion)
        elif work.kind == "write":
            self._end(work.completion, work.outcome == "ok")
