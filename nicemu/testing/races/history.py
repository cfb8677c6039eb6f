# SPDX-License-Identifier: Apache-2.0
"""The whole world's history: all logs in one graph, and every access that is known."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from .graph import Graph
from .host_history import HostReader, Hosts
from .logs import Logs
from .nic_history import Arrival, NicHistory, NicReader
from .observed import Observation, Observations
from .operation import (
    ATOMICS,
    LOCAL_READERS,
    LOCAL_WRITERS,
    ON_QUEUE_PAIR,
    RECEIVES,
    SENDS,
    WRITES,
    Access,
    Armed,
    Operation,
)


@dataclass(slots=True)
class History:
    """What happened, in one graph. `contradictions`: edges that did not fit, 0 for whole logs."""

    graph: Graph
    hosts: Hosts
    nics: dict[str, NicHistory]
    accesses: list[Access] = field(default_factory=list)
    contradictions: int = 0

    @property
    def operations(self) -> list[Operation]:
        """All operations that have fired."""
        return [one for nic in self.nics.values() for one in nic.operations.values()]

    @property
    def waiting(self) -> list[Armed]:
        """Operations that were armed and never fired."""
        return [
            one
            for one in self.hosts.armed
            if one.nic not in self.nics or one.sequence not in self.nics[one.nic].operations
        ]


def put_together(logs: Logs) -> History:
    """Make one history of all logs."""
    graph, hosts = Graph(), Hosts()
    for number, log in enumerate(logs.hosts):
        HostReader(graph, hosts, number).read(log)
    nics = {name: NicHistory(name) for name in logs.nics}
    for name, log in logs.nics.items():
        NicReader(graph, hosts, nics[name]).read(log)
    history = History(graph, hosts, nics)
    landings = _join_arrivals(history)
    observations = [one for nic in nics.values() for one in nic.observations]
    waiting = _join_observers(history, observations)
    _join_firmware(history)
    history.contradictions = Observations(graph, observations).settle()
    begun = [one for one in hosts.accesses if not any(graph.is_before(event, one.start) for event in waiting)]
    history.accesses = [*begun, *landings]
    for operation in history.operations:
        history.accesses += _accesses_of(operation)
    return history


def _join_arrivals(history: History) -> list[Access]:
    """Find what each arrival was: operations of one queue pair arrive in order. Return where messages landed.

    What is told are messages, immediates, and writes into regions with a counter; the rest arrives silently.
    """
    sent: dict[tuple[str, int], deque[Operation]] = {}
    for one in history.operations:
        if one.opcode in ON_QUEUE_PAIR and one.status in (None, 0) and _is_told(history, one):
            sent.setdefault((one.peer, one.remote_qp), deque()).append(one)
    landings = []
    for nic in history.nics.values():
        posted = {
            qp: deque(receives) for (name, qp), receives in history.hosts.receives.items() if name == nic.name
        }
        for arrival in nic.arrivals:
            operation = _take_matching(sent.get((nic.name, arrival.qp)), arrival)
            if operation is not None:
                history.graph.edge(operation.moved, arrival.event)
                operation.arrived += arrival.told
            if arrival.is_consuming and posted.get(arrival.qp):
                event, piece, place = posted[arrival.qp].popleft()
                landings.append(_landing(nic.name, event, piece, place, arrival, operation))
    return landings


def _take_matching(sent: deque[Operation] | None, arrival: Arrival) -> Operation | None:
    if not sent:
        return None
    for operation in sent:
        same = operation.opcode == arrival.opcode or {operation.opcode, arrival.opcode} <= set(ATOMICS)
        if same and operation.length_bytes == arrival.length_bytes and operation.imm_data == arrival.imm_data:
            while sent.popleft() is not operation:
                pass
            return operation
    return None


def _is_told(history: History, operation: Operation) -> bool:
    if operation.opcode == "RDMA_READ":
        return False
    if operation.opcode not in ("RDMA_WRITE", *ATOMICS):
        return True
    end = operation.remote + operation.length_bytes
    return any(
        region.nic == operation.peer
        and region.counter is not None
        and region.address <= operation.remote
        and end <= region.address + region.length_bytes
        for region in history.hosts.regions
    )


def _landing(
    nic: str, event: int, piece: list[int], place: str, arrival: Arrival, operation: Operation | None
) -> Access:
    end = piece[0] + (arrival.length_bytes or piece[1])
    label = "the message that lands in a posted receive"
    return Access(
        nic,
        piece[0],
        end,
        "w",
        event,
        arrival.event,
        "operation",
        -1,
        label,
        place,
        operation,
        is_landing=True,
    )


def _join_observers(history: History, observations: list[Observation]) -> list[int]:
    """Add who has seen a counter to those who come after what it has counted.

    Returns waits of streams that were not over: what stands behind them has not begun.
    """
    waiting = []
    for seen in history.hosts.seen:
        nic = history.nics.get(seen.nic)
        counter = None if nic is None else nic.counter(seen.counter, seen.ns)
        if counter is None or not (seen.success or seen.errors):
            continue
        step = counter.seen(seen.success, seen.errors, seen.ns, seen.is_later)
        if step is not None:
            observations.append(Observation(seen.event, *step, seen.success, seen.errors))
        elif seen.is_later:
            waiting.append(seen.event)
    return waiting


def _join_firmware(history: History) -> None:
    """Take the firmware of all NICs for one actor, in the order of the machine's clock.

    It comes after what it was asked, told and has ended; what it does comes after all that. That is more
    order than there may be: nothing is reported that is none, and some of what is may be missed.
    """
    graph, nics = history.graph, history.nics.values()
    done = [(ns, False, event) for one in nics for ns, event in one.from_firmware]
    done += [(ns, False, event) for ns, event in history.hosts.answers]
    heard = [(ns, True, event) for one in nics for ns, event in one.into_firmware]
    heard += [(ns, True, event) for ns, event in history.hosts.requests]
    last: int | None = None
    for _, is_heard, event in sorted(done + heard):
        if is_heard:
            last = graph.event(last, event)
        else:
            graph.edge(last, event)


def _accesses_of(operation: Operation) -> list[Access]:
    """Return what a fired operation touches; one that ended in error has moved nothing."""
    if operation.status not in (None, 0) or operation.opcode in RECEIVES:
        return []
    found = []
    end = operation.ended if operation.opcode.startswith("NVME") else operation.moved
    if operation.opcode in LOCAL_READERS:
        found += [_local(operation, piece, "r", end) for piece in operation.pieces]
    elif operation.opcode in LOCAL_WRITERS:
        found += [_local(operation, piece, "w", operation.ended) for piece in operation.pieces]
    if operation.opcode in ON_QUEUE_PAIR and operation.opcode not in SENDS and operation.length_bytes:
        found.append(
            Access(
                operation.peer,
                operation.remote,
                operation.remote + operation.length_bytes,
                "r" if operation.opcode == "RDMA_READ" else "w",
                operation.fired,
                operation.moved,
                "operation",
                -1,
                operation.name,
                operation.place,
                operation,
                is_landing=operation.opcode in WRITES,
                is_atomic=operation.opcode in ATOMICS,
                line=(operation.nic, operation.qp),
            )
        )
    return found


def _local(operation: Operation, piece: list[int], mode: str, end: int | None) -> Access:
    return Access(
        operation.nic,
        piece[0],
        piece[0] + piece[1],
        mode,
        operation.fired,
        end,
        "operation",
        -1,
        operation.name,
        operation.place,
        operation,
        is_landing=mode == "w",
        line=(operation.nic, operation.qp) if mode == "w" and operation.qp else None,
    )
