# SPDX-License-Identifier: Apache-2.0
"""The stepper in small steps: whenever several things could happen next, a chooser says which.

Choice points: which NIC, and in it which doorbell cell, flag, command, inbox, record of the control thread,
counter with due work, queue pair with initiated work, or firmware task; which event of this moment (stream
work, a frame, the end of an I/O, what a test scheduled); and when a host that waits goes on, once it may.
Events of different virtual times keep their order, and time moves when nothing is left to do now.

A host's own calls are no choice points: each is answered, and all that is due on the NICs is done, in an
order that the chooser says, before the host goes on. Streams move while the host waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nicemu.nic import Footprint, NicSteps, Step, Thing

from .stage import Chooser

if TYPE_CHECKING:
    from .simulation import Simulation


Watch = Callable[[], Callable[[], Footprint]]
"""Called before an event happens; what it returns is called afterwards, and says what was touched."""


@dataclass(frozen=True, slots=True)
class About:
    """What an event of the stepper is: whose, what people call it, and what it touches (None: anything)."""

    key: Thing
    label: str
    watch: Watch | None = None


_HOST = Step(("host",), "the host's wait is over: it goes on")
_TIMERS = Step(("timers",), "timers run out")


class SmallSteps:
    """Steps a simulation as its chooser says, until `close`."""

    def __init__(self, simulation: Simulation, chooser: Chooser) -> None:
        self._simulation = simulation
        self._chooser = chooser
        self._nics = {name: NicSteps(nic) for name, nic in simulation.nics.items()}
        self._at = 0

    def close(self) -> None:
        """Let the NICs run by themselves again."""
        for nic in self._nics.values():
            nic.close()

    def _of_nics(self) -> list[Step]:
        now_ns = self._simulation.clock.now_ns()
        nics = list(self._nics.values())
        options = []
        for nic in nics[self._at :] + nics[: self._at]:
            nic.device.now_ns = now_ns
            options += nic.options()
        return options

    def _of_this_moment(self) -> list[Step]:
        """Events of now, the first of each key, and timers."""
        now_ns = self._simulation.clock.now_ns()
        first: dict[Thing, Step] = {}
        for when_ns, _, _, about in sorted(self._simulation.events, key=lambda event: event[:2]):
            if when_ns <= now_ns:
                first.setdefault(about.key, Step(about.key, about.label))
        soonest = self._simulation.soonest_deadline_ns()
        if soonest is not None and soonest <= now_ns:
            first[_TIMERS.key] = _TIMERS
        return list(first.values())

    def _take(self, options: list[Step]) -> Step:
        step = options[self._chooser.choose(options)]
        if step is _HOST:
            touched = Footprint(by_host=True)
        elif step is _TIMERS:
            touched = self._run_timers()
        elif step.key[0] in self._nics:
            name = str(step.key[0])
            self._at = list(self._nics).index(name)
            touched = self._nics[name].take(step)
        else:
            touched = self._happen(step.key)
        self._move_effects()
        while self._simulation.look_at_awaited():
            pass
        if touched.progressed:
            for nic in self._nics.values():
                nic.stalled.clear()
        self._chooser.took(touched)
        return step

    def _happen(self, key: Thing) -> Footprint:
        events = self._simulation.events
        event = min((event for event in events if event[3].key == key), key=lambda event: event[:2])
        events.remove(event)
        heapq.heapify(events)
        _, _, action, about = event
        if about.watch is None:
            action()
            touched = self._anything()
        else:
            tell = about.watch()
            action()
            touched = tell()
        self._outside()
        return touched

    def _run_timers(self) -> Footprint:
        for nic in self._simulation.nics.values():
            nic.on_timer(self._simulation.clock.now_ns())
        self._outside()
        return self._anything()

    def _anything(self) -> Footprint:
        touched = Footprint()
        for name in self._nics:
            touched.all_of(name)
        return touched

    def _outside(self) -> None:
        for nic in self._nics.values():
            nic.device.now_ns = self._simulation.clock.now_ns()
            nic.outside()

    def _move_effects(self) -> None:
        for name, nic in self._simulation.nics.items():
            for effect in nic.take_effects():
                self._simulation.perform(name, nic, effect)

    def settle(self) -> None:
        """Do all that is due on the NICs now; what cannot go stays due."""
        self._outside()
        self._move_effects()
        while options := self._of_nics():
            self._take(options)
        for nic in self._nics.values():
            nic.put_back()

    def run_until(self, is_true: Callable[[], bool], end_ns: int) -> bool:
        """Take steps until the host may go on and does; False if it may not by `end_ns`."""
        clock = self._simulation.clock
        self._outside()
        self._move_effects()
        if is_true() and not self._of_nics():
            return True
        while True:
            host = [_HOST] if is_true() else []
            options = self._of_nics() + host + self._of_this_moment()
            if options:
                if self._take(options) is _HOST:
                    return True
                continue
            when_ns = self._simulation.next_ns()
            if when_ns is None or when_ns > end_ns:
                for nic in self._nics.values():
                    nic.put_back()
                clock.advance_to(max(end_ns, clock.now_ns()))
                return is_true()
            clock.advance_to(max(when_ns, clock.now_ns()))

    def run_until_idle(self, end_ns: int) -> bool:
        """Take steps until nothing is left to happen; False if something is left at `end_ns`."""
        clock = self._simulation.clock
        self._outside()
        self._move_effects()
        while True:
            options = self._of_nics() + self._of_this_moment()
            if options:
                self._take(options)
                continue
            for nic in self._nics.values():
                nic.put_back()
            when_ns = self._simulation.next_ns()
            if when_ns is None:
                return True
            if when_ns > end_ns:
                return False
            clock.advance_to(max(when_ns, clock.now_ns()))
