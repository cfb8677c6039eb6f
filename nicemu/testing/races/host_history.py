# SPDX-License-Identifier: Apache-2.0
"""A process's log as events of the graph: what it did in order, its streams, and what others refer to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nicemu.abi import Event

from .graph import Graph
from .operation import Access, Armed, Deregistration


@dataclass(frozen=True, slots=True)
class Ring:
    """A doorbell store of a stream: its total, its event there, and that of the host that put it there."""

    total: int
    event: int
    host_event: int
    place: str
    stream: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a process."""

    event: int
    place: str
    code: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Somebody who goes on because a counter has at least these values.

    `ns`: when; with `is_later` that is when it began to wait.
    """

    event: int
    nic: str
    counter: int
    success: int
    errors: int
    ns: int
    is_later: bool


@dataclass(frozen=True, slots=True)
class Named:
    """What an armed operation is called: program, number of its step, where that was written."""

    program: str
    step: int
    place: str


@dataclass(slots=True)
class Region:
    """Registered memory of a process. `counter`: counts what arrives in it."""

    nic: str
    address: int
    length_bytes: int
    counter: int | None
    place: str


@dataclass(slots=True)
class Hosts:
    """What all processes did."""

    accesses: list[Access] = field(default_factory=list)
    deregistrations: list[Deregistration] = field(default_factory=list)
    armed: list[Armed] = field(default_factory=list)
    rings: dict[tuple[str, int, int], list[Ring]] = field(default_factory=dict)
    commands: dict[tuple[str, int, int], Command] = field(default_factory=dict)
    armings: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    names: dict[tuple[str, int], Named] = field(default_factory=dict)
    windows: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    window_names: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    receives: dict[tuple[str, int], list[tuple[int, list[int], str]]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    completions: dict[tuple[str, int, int, int], int] = field(default_factory=dict)
    requests: list[tuple[int, int]] = field(default_factory=list)
    """(ns, event) of what a process asked of a NIC: its firmware comes after it."""
    answers: list[tuple[int, int]] = field(default_factory=list)
    """(ns, event) of what firmware told a process."""
    closed: list[tuple[str, int, int]] = field(default_factory=list)
    """(nic, opened, event): all work of the process has ended."""
    regions: list[Region] = field(default_factory=list)
    declared: int = 0
    undeclared: int = 0
    """Work in streams that was put there without saying what it touches."""


_FROM_FIRMWARE = ("connect", "landing_withdraw", "window_close")


class HostReader:
    """Reads the log of one process into the graph."""

    def __init__(self, graph: Graph, hosts: Hosts, process: int) -> None:
        self._graph = graph
        self._hosts = hosts
        self._process = process
        self._last: int | None = None
        self._streams: dict[int, int] = {}
        self._opened: dict[str, int] = {}
        self._owned: dict[tuple[str, int], int] = {}
        self._keys: dict[int, Region] = {}
        self._memory: list[tuple[str, int, int]] = []
        self._waiting: dict[tuple[str, int], tuple[list[list[int]], int, int, str]] = {}
        self._cancelled: list[tuple[int, str, Any]] = []

    def read(self, log: list[Event]) -> None:
        """Read all events, in order."""
        for event in log:
            self._last = self._graph.event(self._last)
            reader = getattr(self, f"_{event['what']}", None)
            if reader is not None:
                reader(event, self._last)
        for (nic, sequence), (pieces, trigger, armed, where) in self._waiting.items():
            known = self._hosts.names.get((nic, sequence))
            name = "an operation" if known is None else f'step {known.step} of program "{known.program}"'
            place = where if known is None else known.place
            gone = self._cancelled_at(nic, sequence, trigger, armed)
            self._hosts.armed.append(Armed(nic, sequence, pieces, armed, name, place, gone))

    def _cancelled_at(self, nic: str, sequence: int, trigger: int, armed: int) -> int | None:
        for event, where, what in self._cancelled:
            fits = what is None or what == ("counter", trigger) or what == ("sequence", sequence)
            if where == nic and fits and event > armed:
                return event
        return None

    # Memory

    def _share(self, event: Event, _: int) -> None:
        self._memory.append((event["nic"], event["address"], event["length_bytes"]))

    def _nic_of(self, address: int, key: int) -> str:
        """Return the NIC that reaches memory of a span; addresses of two NICs may be the same."""
        region = self._keys.get(key)
        if region is not None and region.address <= address < region.address + region.length_bytes:
            return region.nic
        for nic, first, length in self._memory:
            if first <= address < first + length:
                return nic
        return next(iter(self._opened), "")

    def _access(self, event: Event, here: int) -> None:
        first = event["address"]
        for mode in event["mode"]:
            verb = "read" if mode == "r" else "write"
            self._hosts.accesses.append(
                Access(
                    event["nic"],
                    first,
                    first + event["length_bytes"],
                    mode,
                    here,
                    here,
                    "host",
                    self._process,
                    f"the host's {verb}",
                    event["place"],
                    host_event=here,
                )
            )
            self._hosts.declared += 1

    # Streams

    def _item(self, stream: int, here: int) -> int:
        item = self._graph.event(here, self._streams.get(stream))
        self._streams[stream] = item
        return item

    def _submit(self, event: Event, here: int) -> None:
        item = self._item(event["stream"], here)
        if not event["accesses"]:
            self._hosts.undeclared += 1
        for address, length, key, mode in event["accesses"]:
            verb = "read" if mode == "r" else "write"
            label = f"the {verb} of `{event['name']}` in stream {event['stream']}"
            nic = self._nic_of(address, key)
            where = event["place"]
            self._hosts.accesses.append(
                Access(
                    nic,
                    address,
                    address + length,
                    mode,
                    item,
                    item,
                    "stream",
                    self._process,
                    label,
                    where,
                    host_event=here,
                )
            )
            self._hosts.declared += 1

    def _synchronize(self, event: Event, here: int) -> None:
        self._graph.edge(self._streams.get(event["stream"]), here)

    def _ring(self, event: Event, here: int) -> None:
        item = self._item(event["stream"], here)
        cell = (event["nic"], event["opened"], event["cell"])
        ring = Ring(event["total"], item, here, event["place"], f"stream {event['stream']}")
        self._hosts.rings.setdefault(cell, []).append(ring)

    def _wait_on(self, event: Event, here: int) -> None:
        item = self._item(event["stream"], here)
        self._hosts.seen.append(
            Seen(item, event["nic"], event["counter"], event["success"], 0, event["ns"], True)
        )

    # What it asks and hears

    def _open(self, event: Event, _: int) -> None:
        self._opened[event["nic"]] = event["opened"]
        self._owned[event["nic"], event["owner"]] = event["opened"]

    def _close(self, event: Event, here: int) -> None:
        self._cancelled.append((here, event["nic"], None))
        self._hosts.requests.append((event["ns"], here))
        self._hosts.closed.append((event["nic"], self._opened.get(event["nic"], 0), here))

    def _request(self, event: Event, here: int) -> None:
        self._hosts.requests.append((event["ns"], here))
        if event["operation"] == "window_close":
            self._cancelled.append((here, event["nic"], None))

    def _reply(self, event: Event, here: int) -> None:
        operation, operands, nic = event["operation"], event["operands"], event["nic"]
        if operation in _FROM_FIRMWARE:
            self._hosts.answers.append((event["ns"], here))
        if operation == "register":
            region = Region(
                nic, operands["address"], operands["length_bytes"], operands.get("counter"), event["place"]
            )
            self._keys[event["reply"]["key"]] = region
            self._hosts.regions.append(region)
        elif operation == "landing_post" and operands["key"] in self._keys:
            self._keys[event["reply"]["key"]] = self._keys[operands["key"]]
        elif operation == "deregister":
            gone = Deregistration(nic, operands["key"], here, event["place"], self._process)
            self._hosts.deregistrations.append(gone)

    def _command(self, event: Event, here: int) -> None:
        which = (event["nic"], event["opened"], event["number"])
        self._hosts.commands[which] = Command(here, event["place"], event["code"])
        words = event["words"]
        gone = {
            "CANCEL": ("sequence", words[1] if len(words) > 1 else -1),
            "CANCEL_COUNTER": ("counter", words[0] if words else -1),
        }
        if event["code"] in gone or event["code"] == "FLUSH":
            self._cancelled.append((here, event["nic"], gone.get(event["code"])))

    def _armed(self, event: Event, here: int) -> None:
        command = self._hosts.commands.get((event["nic"], event["opened"], event["number"]))
        armed = here if command is None else command.event
        for sequence in event["sequences"]:
            self._hosts.armings[event["nic"], sequence] = (armed, event["place"])
        work = zip(event["sequences"], event["pieces"], event["triggers"], strict=False)
        for sequence, pieces, trigger in work:
            self._waiting[event["nic"], sequence] = (pieces, trigger, armed, event["place"])

    def _program(self, event: Event, _: int) -> None:
        steps = event["steps"]
        for position, sequence in enumerate(event.get("sequences", ())):
            place = steps[position] if position < len(steps) else ""
            self._hosts.names[event["nic"], sequence] = Named(event["name"], position + 1, place)
        if "window" in event:
            place = steps[0] if steps else ""
            self._hosts.window_names[event["nic"], event["window"]] = (event["name"], place)

    def _window(self, event: Event, here: int) -> None:
        before = max((number for _, number in self._hosts.requests if number < here), default=here)
        self._hosts.windows[event["nic"], event["window"]] = (before, event["place"])

    def _receive(self, event: Event, here: int) -> None:
        posted = self._hosts.receives.setdefault((event["nic"], event["qp"]), [])
        posted.append((here, event["piece"], event["place"]))

    def _seen(self, event: Event, here: int) -> None:
        self._hosts.seen.append(
            Seen(here, event["nic"], event["counter"], event["success"], event["errors"], event["ns"], False)
        )

    def _completion(self, event: Event, here: int) -> None:
        opened = self._owned.get((event["nic"], event["cq"] // 4), 0)
        self._hosts.completions[event["nic"], opened, event["cq"], event["tail"]] = here

    def _packet(self, event: Event, here: int) -> None:
        self._hosts.answers.append((event["ns"], here))
