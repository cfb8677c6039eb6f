# SPDX-License-Identifier: Apache-2.0
"""A NIC's log as events of the graph: counters step by step, operations from firing to end, arrivals."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

from nicemu.abi import Event

from .graph import Graph
from .host_history import Hosts
from .observed import Observation
from .operation import ON_QUEUE_PAIR, RECEIVES, Cause, Count, Operation

_SET = 2

Step = tuple[list[Count], int]
"""A segment of a counter, and the place in it of one of its steps."""


@dataclass(slots=True)
class CounterHistory:
    """All steps of one counter between its allocation and the next one of its number.

    Within a segment both values only grow; a set that lowers them begins another one.
    """

    name: str
    since_ns: int
    segments: list[list[Count]] = field(default_factory=lambda: [[]])

    @property
    def last(self) -> Count | None:
        """The step that was taken last."""
        return self.segments[-1][-1] if self.segments[-1] else None

    def take(self, count: Count, begins: bool) -> None:
        """Add a step, which may begin another segment."""
        if begins:
            self.segments.append([])
        self.segments[-1].append(count)

    def reached(self, threshold: int) -> Step | None:
        """Return the step that made success plus errors reach a threshold, the last time that they did."""
        for segment in reversed(self.segments):
            place = bisect_left(segment, threshold, key=lambda count: count.success + count.errors)
            if place < len(segment):
                return segment, place
        return None

    def seen(self, success: int, errors: int, ns: int, is_later: bool) -> Step | None:
        """Return the step after which the values were at least these, for somebody who looked at `ns`.

        That is one of the segment of that time; or of a later one, for somebody who went on waiting; or of an
        earlier one, for somebody who saw what had been published last.
        """
        now = max((number for number, one in enumerate(self.segments) if one and one[0].ns <= ns), default=0)
        later = range(now + 1, len(self.segments)) if is_later else range(0)
        order: list[int] = [now, *later, *range(now - 1, -1, -1)]
        for number in order:
            segment = self.segments[number]
            place = max(
                bisect_left(segment, success, key=lambda count: count.success),
                bisect_left(segment, errors, key=lambda count: count.errors),
            )
            if place < len(segment):
                return segment, place
        return None


@dataclass(slots=True)
class Arrival:
    """A peer's operation that was told here."""

    qp: int
    opcode: str
    imm_data: int
    length_bytes: int
    is_consuming: bool
    event: int
    told: list[tuple[str, Count]] = field(default_factory=list)


@dataclass(slots=True)
class NicHistory:
    """What one NIC did."""

    name: str
    counters: dict[int, list[CounterHistory]] = field(default_factory=dict)
    operations: dict[int, Operation] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)
    pairs: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    into_firmware: list[tuple[int, int]] = field(default_factory=list)
    """(ns, event): the firmware comes after it."""
    from_firmware: list[tuple[int, int]] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    """Operations that fired because a counter had got somewhere."""

    def counter(self, number: int, ns: int) -> CounterHistory | None:
        """Return the history of a counter as it was at a time."""
        known = [one for one in self.counters.get(number, []) if one.since_ns <= ns]
        return known[-1] if known else None


class NicReader:
    """Reads the log of one NIC into the graph."""

    def __init__(self, graph: Graph, hosts: Hosts, history: NicHistory) -> None:
        self._graph = graph
        self._hosts = hosts
        self._history = history
        self._opened: dict[int, int] = {}
        self._rung: dict[tuple[int, int], int] = {}
        self._moved: dict[int, int | None] = {}
        self._ended: dict[int, int | None] = {}
        self._followed: dict[int, int] = {}
        self._came: Arrival | None = None
        self._arrivals: dict[int, int] = {}
        self._controlled: int | None = None
        self._owners: dict[int, list[int]] = {}
        self._entries: list[tuple[int, int | None]] = []
        self._readers: dict[str, Callable[[Event], None]] = {
            "open": self._open,
            "counter": self._counter,
            "follow": self._follow,
            "pair": self._pair,
            "count": self._count,
            "fire": self._fire,
            "end": self._end,
            "entry": self._entry,
            "arrival": self._arrival,
        }

    def read(self, log: list[Event]) -> None:
        """Read all events, in order."""
        for event in log:
            if event["what"] in self._readers:
                self._readers[event["what"]](event)
        for sequence, seen in self._entries:  # an entry may be noted just before the end that it tells
            operation = self._history.operations.get(sequence)
            self._graph.edge(None if operation is None else operation.ended, seen)
        for nic, opened, closed in self._hosts.closed:
            if nic == self._history.name:
                for ended in self._owners.get(opened, []):
                    self._graph.edge(ended, closed)

    # What the control side says

    def _open(self, event: Event) -> None:
        self._opened[event["owner"]] = event["opened"]
        for cell in [cell for cell in self._rung if cell[0] == event["owner"]]:
            del self._rung[cell]

    def _counter(self, event: Event) -> None:
        made = CounterHistory(event["name"] or "a counter of the firmware", event["ns"])
        self._history.counters.setdefault(event["counter"], []).append(made)

    def _follow(self, event: Event) -> None:
        self._followed[event["place"]] = event["address"]

    def _pair(self, event: Event) -> None:
        self._history.pairs[event["qp"]] = (event["peer"], event["remote_qp"], event["owner"])

    # Counters

    def _of(self, number: int, ns: int) -> CounterHistory:
        known = self._history.counters.setdefault(number, [])
        if not known:
            known.append(CounterHistory(f"counter {number}", 0))
        return known[-1]

    def _step(
        self,
        event: Event,
        values: tuple[int, int],
        cause: Cause,
        parents: tuple[int | None, ...],
        is_set: bool = False,
    ) -> Count:
        history = self._of(event["counter"], event["ns"])
        last = history.last
        anew = is_set and last is not None and values < (last.success, last.errors)
        causes = tuple(parent for parent in parents if parent is not None)
        step = self._graph.event(*causes)
        joined = self._graph.event(step, None if anew or last is None else last.joined)
        more = values
        if last is not None and not is_set:
            more = (max(0, values[0] - last.success), max(0, values[1] - last.errors))
        count = Count(*values, step, event["ns"], cause, more, causes, joined, is_set)
        history.take(count, anew)
        return count

    def _count(self, event: Event) -> None:
        source, operands = event["source"], event["operands"]
        values = (event["success"], event["errors"])
        name = self._of(event["counter"], event["ns"]).name
        if source == "doorbell":
            self._doorbell(event, name)
        elif source == "command":
            which = (self._history.name, self._opened.get(operands[0], 0), operands[1])
            command = self._hosts.commands.get(which)
            is_set = operands[2] == _SET
            word = f"`{name}.set()`" if is_set else f"`{name}.add()`"
            cause = Cause(word) if command is None else Cause(word, command.place, command.event, True)
            self._step(event, values, cause, (cause.event,), is_set)
        elif source in ("end", "work"):
            operation = self._history.operations.get(operands[0])
            done = None if operation is None else operation.ended
            if source == "work":
                done = None if operation is None else operation.fired
            text = f"the end of {operation.name}" if operation else "the end of an operation"
            place = operation.place if operation else ""
            count = self._step(event, values, Cause(text, place), (done,), source == "work")
            if operation is not None and source == "end":
                operation.told.append((name, count))
        elif source == "arrival":
            came = self._came
            cause = Cause("what a peer wrote or sent")
            count = self._step(event, values, cause, (None if came is None else came.event,))
            if came is not None:
                came.told.append((name, count))
        elif source == "control":
            told = Cause("firmware or pipeline")
            count = self._step(event, values, told, (self._controlled,), bool(operands[0]))
            self._controlled = count.event
            self._history.from_firmware.append((event["ns"], count.event))
        elif source == "word":
            self._word(event, values)
        else:
            self._step(event, values, Cause("a receive that was flushed"), ())

    def _doorbell(self, event: Event, name: str) -> None:
        """Take the rings that one look of the NIC has found one after the other."""
        owner, cell, total = event["operands"]
        rings = self._hosts.rings.get((self._history.name, self._opened.get(owner, 0), cell), [])
        before, self._rung[owner, cell] = self._rung.get((owner, cell), 0), total
        found = [ring for ring in rings if before < ring.total <= total]
        for ring in found:
            success = max(0, event["success"] - (total - ring.total))
            text = f"the ring of `{name}` in {ring.stream}"
            cause = Cause(text, ring.place, ring.host_event)
            self._step(event, (success, event["errors"]), cause, (ring.event,))
        if not found or found[-1].total < total:
            self._step(event, (event["success"], event["errors"]), Cause(f"a ring of `{name}`"), ())

    def _word(self, event: Event, values: tuple[int, int]) -> None:
        """A flag that work in a stream or the host has raised: each declared write of it raises it by 1."""
        place, value, _ = event["operands"]
        address = self._followed.get(place, -1)
        nic = self._history.name
        writers = [
            access
            for access in self._hosts.accesses
            if access.nic == nic
            and access.mode == "w"
            and access.first <= address
            and address + 8 <= access.end_address
        ][:value]
        cause = Cause("a flag in memory", writers[-1].place) if writers else Cause("a flag in memory")
        self._step(event, values, cause, tuple(access.start for access in writers))

    # Operations

    def _fire(self, event: Event) -> None:
        nic, sequence, ns = self._history.name, event["sequence"], event["ns"]
        trigger = self._of(event["trigger"], ns)
        reached = None
        if not event["posted"] and event["threshold"] > 0:
            reached = trigger.reached(event["threshold"])
        armed, place = self._hosts.armings.get((nic, sequence), (None, ""))
        program, step = "", 0
        if event["window"]:
            armed, place = self._hosts.windows.get((nic, event["window"]), (None, ""))
            program, place = self._hosts.window_names.get((nic, event["window"]), ("", place))
        known = self._hosts.names.get((nic, sequence))
        if known is not None:
            program, step, place = known.program, known.step, known.place or place
        fired = self._graph.event(armed)
        cause = None
        if reached is not None:
            segment, at = reached
            cause = segment[at].cause
            seen = Observation(fired, segment, at, 0, 0, event["threshold"])
            self._history.observations.append(seen)
        operation = Operation(
            nic,
            sequence,
            event["opcode"],
            event["owner"],
            event["qp"],
            event["pieces"],
            event["remote"],
            event["rkey"],
            event["imm_data"],
            fired,
            armed=armed,
            program=program,
            step=step,
            place=place,
            cause=cause,
        )
        if event["completion"] >= 0:
            operation.completion = self._of(event["completion"], ns).name
        self._history.operations[sequence] = operation
        if event["owner"] == 0:
            self._history.from_firmware.append((ns, fired))
        if operation.opcode == "FIRMWARE_EVENT":
            self._history.into_firmware.append((ns, fired))
        if operation.opcode in RECEIVES:
            posted = self._hosts.receives.setdefault((nic, operation.qp), [])
            posted.append((fired, operation.pieces[0] if operation.pieces else [0, 0, 0], place))
        if operation.opcode in ON_QUEUE_PAIR:
            operation.peer, operation.remote_qp, _ = self._history.pairs.get(operation.qp, ("", 0, -1))
            operation.moved = self._graph.event(fired, self._moved.get(operation.qp))
            self._moved[operation.qp] = operation.moved
        elif operation.opcode.startswith("NVME"):
            operation.moved = self._graph.event(fired)

    def _end(self, event: Event) -> None:
        operation = self._history.operations.get(event["sequence"])
        if operation is None:
            return
        before = operation.moved if operation.moved is not None else operation.fired
        line = self._ended.get(operation.qp) if operation.opcode in ON_QUEUE_PAIR else None
        operation.ended = self._graph.event(before, line)
        operation.status = event["status"]
        if operation.opcode in ON_QUEUE_PAIR:
            self._ended[operation.qp] = operation.ended
        if operation.owner == 0:
            self._history.into_firmware.append((event["ns"], operation.ended))
        else:
            opened = self._opened.get(operation.owner, 0)
            self._owners.setdefault(opened, []).append(operation.ended)

    def _entry(self, event: Event) -> None:
        opened = self._opened.get(event["cq"] // 4, 0)
        seen = self._hosts.completions.get((self._history.name, opened, event["cq"], event["tail"]))
        if event["source"] == "end":
            self._entries.append((event["sequence"], seen))
        elif event["source"] == "arrival" and self._came is not None:
            self._graph.edge(self._came.event, seen)

    def _arrival(self, event: Event) -> None:
        came = self._came = Arrival(
            event["qp"],
            event["opcode"],
            event["imm_data"],
            event["bytes"],
            event["consumed"],
            self._graph.event(self._arrivals.get(event["qp"])),
        )
        self._arrivals[event["qp"]] = came.event
        self._history.arrivals.append(came)
        if self._history.pairs.get(event["qp"], ("", 0, 0))[2] == 0:
            self._history.into_firmware.append((event["ns"], came.event))
