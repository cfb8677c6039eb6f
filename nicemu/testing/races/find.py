# SPDX-License-Identifier: Apache-2.0
"""Finding races in a history: accesses of the same bytes, one of them a write, in no order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nicemu.abi import Event

from .cure import describe, describe_armed, describe_deregistration
from .history import History, put_together
from .logs import HasLogs, Logs
from .operation import Access
from .report import Race, RaceReport

MAX_PAIRS = 2_000_000
"""Pairs of accesses that are looked at."""


def check_races(ran: HasLogs | Sequence[Sequence[Event]]) -> RaceReport:
    """Return what is in no order in the logs of something that ran with `check_races`."""
    logs = Logs.of(ran if isinstance(ran, Sequence) else ran.logs)
    history = put_together(logs)
    report = RaceReport(
        operations=sum(one.opcode != "WRITE_BACK" for one in history.operations),
        declared=history.hosts.declared,
        undeclared=history.hosts.undeclared,
        lost=logs.lost,
        cut=logs.cut,
        contradictions=history.contradictions,
    )
    known: dict[tuple[object, ...], Race] = {}
    for race in _all(history):
        places = frozenset((access.what, access.place) for access in race.accesses)
        first = known.setdefault((race.kind, places), race)
        if first is race:
            report.races.append(race)
        else:
            first.count += 1
    return report


def _all(history: History) -> Iterator[Race]:
    for one, other in _overlapping(history.accesses):
        if _conflict(one, other) and not _is_ordered(history, one, other):
            yield describe(history, one, other)
    yield from _deregistered(history)


def _overlapping(accesses: list[Access]) -> Iterator[tuple[Access, Access]]:
    """Return pairs of accesses that share bytes, a write among them."""
    pairs = 0
    places: dict[str, list[Access]] = {}
    for access in accesses:
        places.setdefault(access.nic, []).append(access)
    for there in places.values():
        open_now: list[Access] = []
        for access in sorted(there, key=lambda one: one.first):
            open_now = [one for one in open_now if one.end_address > access.first]
            for one in open_now:
                pairs += 1
                if pairs > MAX_PAIRS:
                    return
                if "w" in (one.mode, access.mode):
                    yield one, access
            open_now.append(access)


def _conflict(one: Access, other: Access) -> bool:
    """Whether two accesses of the same bytes need an order that somebody else has to make."""
    if one.actor == other.actor == "host" and one.process == other.process:
        return False
    if one.is_atomic and other.is_atomic:
        return False
    if one.line is not None and one.line == other.line:
        return False  # operations of one queue pair take effect in order
    mine, its = one.operation, other.operation
    if mine is not None and mine is its:
        return False
    return not (mine is not None and its is not None and mine.owner == its.owner == 0)


def _is_ordered(history: History, one: Access, other: Access) -> bool:
    graph = history.graph
    return graph.is_before(one.end, other.start) or graph.is_before(other.end, one.start)


def _deregistered(history: History) -> Iterator[Race]:
    graph = history.graph
    for gone in history.hosts.deregistrations:
        for operation in history.operations:
            here = operation.nic == gone.nic and any(piece[2] == gone.key for piece in operation.pieces)
            there = operation.peer == gone.nic and operation.rkey == gone.key and operation.length_bytes
            if not here and not there:
                continue
            begun = operation.armed if operation.armed is not None else operation.fired
            if not graph.is_before(operation.ended, gone.event) and not graph.is_before(gone.event, begun):
                yield describe_deregistration(history, gone, operation)
        for armed in history.waiting:
            if armed.nic != gone.nic or all(piece[2] != gone.key for piece in armed.pieces):
                continue
            if graph.is_before(armed.event, gone.event) and not graph.is_before(armed.cancelled, gone.event):
                yield describe_armed(history, gone, armed)
