# SPDX-License-Identifier: Apache-2.0
"""One NIC, one small step at a time: what could happen next, and what a step touched.

A poll of the datapath does many things in a row; a driver that looks for bugs of order wants each of them as
a step of its own, and takes them in any order that the hardware could have. Nothing is carried out twice in
two ways here: every step is the datapath's own function, held to one thing.

An operation of a `direct` queue pair is initiated in one step and takes effect in another: operations of one
queue pair take effect in the order of their initiation, those of different ones in any order, and it takes no
time: orders are looked for that some timing could have.
Source: docs/triggers.md, "Firing".
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from nicemu.abi import Opcode, registers
from nicemu.firmware import Task
from nicemu.hot import interpreted
from nicemu.pcie import load_u64
from nicemu.rdma import KIND_DIRECT
from nicemu.trigger import DUE, LANDED, NONE, put_due, rotate_ready, take_due

from .arena import NO_CELL, RING_COUNT, TRANSMIT_CELL
from .arrivals import poll_inbox
from .commands import poll_commands
from .control import Record
from .datapath import DOWN_ARM, DOWN_SET, _poll_doorbells, _poll_down, _poll_followed
from .device import SmartNic
from .firing import UP_ARRIVAL, UP_COMPLETION, UP_EVENT, UP_HOST_EVENT, UP_WINDOW, fire_due, land
from .footprint import Footprint, Step, Use
from .touched import Watch, note_effect

_PHASES = ("doorbell", "flag", "command", "inbox", "down", "queue pair", "counter", "record", "task")
"""Who can step, in the order of a poll."""

_DATA = (*range(Opcode.RDMA_WRITE, Opcode.RECV), Opcode.ATOMIC)
_SIGNALS_ALONE = (UP_EVENT, UP_COMPLETION, UP_ARRIVAL, UP_HOST_EVENT, UP_WINDOW)
_COMMAND_ADD, _COMMAND_SET = 1, 2
_NEVER_NS = (1 << 64) - 1


@cache
def _one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the source of a hot function as plain Python that takes one thing from a ring, not 64."""
    twin: Any = interpreted(function)
    namespace = {**twin.__globals__, "FAIRNESS": 1}
    return types.FunctionType(twin.__code__, namespace, twin.__name__, twin.__defaults__)


class NicSteps:
    """The steps of one NIC. While it is open the NIC runs nothing by itself."""

    def __init__(self, device: SmartNic) -> None:
        self.device = device
        self.name = device.config.name
        self._phase = 0
        self._records: deque[tuple[int, Record]] = deque()
        self._taken = load_u64(int(device.arena.link[0].address))
        self._initiated: dict[int, deque[tuple[int, int]]] = {}
        self._count = 0
        self._tasks: dict[Task, int] = {}
        self.stalled: set[tuple[str | int, ...]] = set()
        self._watch = Watch(device)
        device.held = True
        self._end_the_way()

    def close(self) -> None:
        """Let the NIC run by itself again; what has been initiated is due, and what came up is handled."""
        self.put_back()
        while self._records:
            self.device.handle(self._records.popleft()[1])
        self.device.held = False
        self.device.arena.pacing.pace["on"] = self.device.config.timings.paces_transfers

    def _end_the_way(self) -> None:
        """Let transfers take no time from here on; what is on its way is due once more."""
        arena = self.device.arena
        arena.pacing.pace["on"], arena.pacing.pace["now_ns"] = 0, _NEVER_NS
        arena.pacing.last[:] = 0
        _one(land)(arena)
        state = arena.trigger
        for slot in np.flatnonzero(state.slots["state"][: int(state.unit[0].touched)] == LANDED).tolist():
            state.slots[slot].state = DUE
            completion = int(state.slots[slot].completion)
            if completion != NONE:
                state.counters[completion].in_flight -= np.uint32(1)

    # What can happen

    def options(self) -> list[Step]:
        """Return what can happen next; first what a poll that goes on where it is would do."""
        self._take_records()
        by_phase: list[list[Step]] = [[] for _ in _PHASES]
        for key, label in self._all():
            if key not in self.stalled:
                by_phase[_PHASES.index(str(key[1]))].append(Step(key, f"{self.name}: {label}"))
        turned = by_phase[self._phase :] + by_phase[: self._phase]
        return [step for steps in turned for step in steps]

    def _take_records(self) -> None:
        self.device.rings.flush()
        for record in self.device.rings.take():
            self._records.append((self._taken, record))
            self._taken += 1

    def _all(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        arena, name = self.device.arena, self.name
        for owner in self.device.owners:
            cells = int(arena.owners[owner].bar) + registers.DOORBELLS
            for cell in range(int(arena.owners[owner].doorbells)):
                counter = int(arena.doorbells[owner, cell])
                if counter != NO_CELL and load_u64(cells + 8 * cell) != arena.rung[owner, cell]:
                    rung = "packets" if counter == TRANSMIT_CELL else self.counter_name(counter)
                    yield (name, "doorbell", owner, cell), f"looks at doorbell cell {cell} ({rung})"
        for place in range(int(arena.link[0].followed)):
            word = arena.followed[place]
            if word.address and load_u64(int(word.address)) != word.seen:
                yield (name, "flag", place), f"looks at the flag of {self.counter_name(int(word.counter))}"
        for owner in self.device.owners:
            record = arena.owners[owner]
            entry = int(record.bar) + registers.COMMANDS + int(record.commands) % registers.COMMAND_COUNT * 64
            if load_u64(entry + 56) == int(record.commands) + 1:
                yield (name, "command", owner), "takes a command of the host"
        for peer in self.device.queue_pairs.peers.values():
            inbox = int(arena.rdma.peers[peer.index].inbox)
            if inbox:
                head = load_u64(inbox + registers.INBOX_HEAD)
                place = head % registers.INBOX_COUNT * registers.INBOX_RECORD_BYTES
                if load_u64(inbox + registers.INBOX_RECORDS + place + 56) == head + 1:
                    yield (name, "inbox", peer.name), f"takes an arrival from {peer.name}"
        if load_u64(int(arena.link[0].address) + 24) != int(arena.link[0].down_head):
            yield (name, "down", 0), "takes a record of the control thread"
        for qp in self._initiated:
            _, slot = self._initiated[qp][0]
            yield (name, "queue pair", qp), f"{self._says(slot)} takes effect"
        for counter in self._ready():
            slot = int(arena.trigger.counters[counter].due_head)
            verb = "is initiated" if self._is_carried(slot) else "fires"
            yield (name, "counter", counter), f"{self._says(slot)} {verb}"
        if self._records:
            yield (name, "record", 0), "handles a record of the datapath"
        for task in self.device.scheduler.ready:
            number = self._tasks.setdefault(task, len(self._tasks))
            yield (name, "task", number), f"firmware task {task.name} goes on"

    def counter_name(self, counter: int) -> str:
        """What people call a counter."""
        for owner in self.device.owners.values():
            if counter in owner.counters:
                return owner.counters[counter]
        return f"counter {counter}"

    def _says(self, slot: int) -> str:
        record = self.device.arena.trigger.slots[slot]
        opcode = Opcode(int(record.opcode))
        said = opcode.name
        if opcode < Opcode.COUNTER_ADD:
            said += f" on queue pair {record.qp}"
        elif opcode in (Opcode.COUNTER_ADD, Opcode.COUNTER_SET):
            said += f" of {self.counter_name(int(record.rkey))}"
        if int(record.trigger) == self.device.arena.queue_counters[int(record.qp)] and not record.threshold:
            return f"{said} (posted)"
        return f"{said} ({self.counter_name(int(record.trigger))} >= {record.threshold})"

    def _ready(self) -> Iterator[int]:
        state = self.device.arena.trigger
        counter = int(state.unit[0].ready_head)
        while counter != NONE:
            yield counter
            counter = int(state.counters[counter].ready_next)

    def _is_carried(self, slot: int) -> bool:
        record = self.device.arena.trigger.slots[slot]
        pairs = self.device.arena.rdma.queue_pairs
        return int(record.opcode) in _DATA and int(pairs[int(record.qp)].kind) == KIND_DIRECT

    # Taking a step

    def take(self, step: Step) -> Footprint:
        """Carry a step out; return what it touched. What could not go now is stalled."""
        kind = str(step.key[1])
        self._phase = _PHASES.index(kind)
        touched = Footprint()
        before = self._watch.look()
        touched.progressed = bool(getattr(self, "_" + kind.replace(" ", "_"))(touched, *step.key[2:]))
        if kind in ("record", "task"):
            self.device.run_engines()
        if not touched.progressed:
            self.stalled.add(step.key)
        self._watch.compare(before, touched)
        return touched

    def outside(self) -> None:
        """Something came in from outside: let engines and timers see it."""
        self.device.scheduler.expire(self.device.now_ns)
        self.device.run_engines()

    def _doorbell(self, touched: Footprint, owner: int, cell: int) -> int:
        doorbells = self.device.arena.doorbells
        others = doorbells.copy()
        doorbells[:] = NO_CELL
        doorbells[owner, cell] = others[owner, cell]
        touched.use(Use.TAKE, "cell", self.name, owner, cell)
        _one(_poll_doorbells)(self.device.arena)
        doorbells[:] = others
        return 1

    def _flag(self, touched: Footprint, place: int) -> int:
        followed = self.device.arena.followed
        others = followed["address"].copy()
        self._watch.note_raw(touched, int(others[place]), 8, False)
        followed["address"] = 0
        followed["address"][place] = others[place]
        _one(_poll_followed)(self.device.arena)
        followed["address"] = others
        return 1

    def _command(self, touched: Footprint, owner: int) -> int:
        record = self.device.arena.owners[owner]
        entry = int(record.bar) + registers.COMMANDS + int(record.commands) % registers.COMMAND_COUNT * 64
        code, counter = load_u64(entry) & 0xFFFF, load_u64(entry + 8)
        if code == _COMMAND_SET:
            touched.use(Use.WRITE, "counter", self.name, counter)
        elif code != _COMMAND_ADD:
            touched.use(Use.WRITE, "unit", self.name)
            touched.use(Use.WRITE, "counters", self.name)
        return int(_one(poll_commands)(self.device.arena, owner))

    def _inbox(self, touched: Footprint, peer: str) -> int:
        inbox = self.device.arena.rdma.peers[self.device.queue_pairs.peers[peer].index].inbox
        head = load_u64(int(inbox) + registers.INBOX_HEAD)
        touched.use(Use.TAKE, "inbox", self.name, peer, head)
        return int(_one(poll_inbox)(self.device.arena, inbox))

    def _down(self, touched: Footprint, _: int) -> int:
        arena = self.device.arena
        head = int(arena.link[0].down_head)
        record = arena.down[head % RING_COUNT]
        touched.use(Use.TAKE, "down", self.name, head)
        if record.kind == DOWN_SET:
            touched.use(Use.WRITE, "counter", self.name, int(record.words[0]))
        elif record.kind == DOWN_ARM:
            touched.use(Use.WRITE, "counter", self.name, int(record.work["trigger"]))
        return int(_one(_poll_down)(arena))

    def _counter(self, touched: Footprint, counter: int) -> int:
        state = self.device.arena.trigger
        self._turn_to(counter)
        slot = int(state.counters[counter].due_head)
        record = state.slots[slot]
        touched.use(Use.READ, "unit", self.name)
        touched.use(Use.TAKE, "due", self.name, int(record.sequence))
        value = int(state.counters[counter].success) + int(state.counters[counter].errors)
        touched.needs = ("counter", self.name, counter), int(record.threshold), value
        if not self._is_carried(slot):
            if record.opcode == Opcode.COUNTER_SET:
                touched.use(Use.WRITE, "counter", self.name, int(record.rkey))
            elif record.opcode == Opcode.RECV:
                touched.use(Use.WRITE, "receives", self.name, int(record.qp))
            elif record.opcode == Opcode.WRITE_BACK:
                touched.use(Use.READ, "counter", self.name, counter)
            return int(_one(fire_due)(self.device.arena, 1))
        qp = int(record.qp)
        _one(take_due)(state)
        self._count += 1
        self._initiated.setdefault(qp, deque()).append((self._count, slot))
        touched.use(Use.MAKE, "initiated", self.name, self._count)
        touched.use(Use.WRITE, "send queue", self.name, qp)
        return 1

    def _queue_pair(self, touched: Footprint, qp: int) -> int:
        state = self.device.arena.trigger
        queue = self._initiated[qp]
        number, slot = queue[0]
        counter = int(state.slots[slot].trigger)
        touched.use(Use.TAKE, "initiated", self.name, number)
        note_effect(self.device, state.slots[slot], touched)
        self._make_due(slot)
        self._turn_to(counter)
        fired = int(_one(fire_due)(self.device.arena, 1))
        if not fired:
            self._turn_to(counter)
            _one(take_due)(state)
            return 0
        queue.popleft()
        if not queue:
            del self._initiated[qp]
        return 1

    def _turn_to(self, counter: int) -> None:
        state = self.device.arena.trigger
        while int(state.unit[0].ready_head) != counter:
            _one(rotate_ready)(state)

    def _make_due(self, slot: int) -> None:
        """Put a slot that was taken off its counter's due list back, to its head."""
        _one(put_due)(self.device.arena.trigger, slot, False)

    def put_back(self) -> None:
        """Make due again what was initiated and could not take effect; it is tried again later."""
        waiting = [entry for queue in self._initiated.values() for entry in queue]
        for _, slot in sorted(waiting, reverse=True):
            self._make_due(slot)
        self._initiated.clear()
        self.stalled.clear()

    def _record(self, touched: Footprint, _: int) -> int:
        number, record = self._records.popleft()
        touched.use(Use.TAKE, "record", self.name, number)
        if record.kind in _SIGNALS_ALONE:
            touched.use(Use.WRITE, "control", self.name)
        else:
            touched.all_of(self.name)
        self.device.handle(record)
        return 1

    def _task(self, touched: Footprint, number: int) -> int:
        scheduler = self.device.scheduler
        touched.all_of(self.name)
        numbers = [self._tasks[task] for task in scheduler.ready]
        scheduler.step(numbers.index(number), self.device.now_ns)
        return 1
