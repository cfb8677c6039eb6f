# SPDX-License-Identifier: Apache-2.0
"""How long transfers take: stages that are busy until what they were given last has passed, and the transfers
that are on their way through them.

A transfer between NICs of one machine is one copy. Where its stages cost time it leaves when its operation
fires and lands, which is when the copy is made and the end is told, when its last byte is through: virtual
time in the stepper, the machine's own in a live NIC. Stages are pipelined by packets, as in the model of
`nicemu.model.transfer_s`, which one transfer through idle stages agrees with. NICs that share one table of
stages contend for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nicemu.abi import Opcode
from nicemu.hot import Flag, Int, Records, hot
from nicemu.rdma import MAX_PEERS
from nicemu.timing import Timings
from nicemu.trigger import NONE

STAGE = np.dtype([("free_ns", "f8"), ("latency_ns", "f8"), ("ns_per_byte", "f8")], align=True)
FLIGHT = np.dtype([("lands_ns", "u8"), ("number", "u8"), ("slot", "i8")], align=True)
PACE = np.dtype(
    [
        ("on", "u1"),  # transfers between NICs of one machine take time
        ("own", "i8"),  # where the NIC's own stages begin
        ("packet_bytes", "f8"),
        ("request_ns", "f8"),
        ("trigger_ns", "f8"),
        ("trigger_free_ns", "f8"),
        ("now_ns", "u8"),
        ("head_ns", "f8"),  # of the transfer that is looked at: when its first packet is through,
        ("tail_ns", "f8"),  # and when its last one is
        ("count", "i8"),  # transfers on their way
        ("number", "u8"),  # transfers that have left
        ("told_peer", "u1"),  # something landed that a peer has to hear of
    ],
    align=True,
)
_MEMORY, _OUT_OF_MEMORY, _INTO_MEMORY, _NIC_OUT, _NIC_IN, _LINK_OUT, _LINK_IN = range(7)
STAGES_A_NIC = 7
NO_STAGE = -1
OUTWARDS, HOMEWARDS = 0, 1
"""Which way the bytes of a transfer go, seen from who starts it: writes and sends, or reads and atomics."""
_OWN, _PEER = 0, 1
_READ, _COMPARE_SWAP = int(Opcode.RDMA_READ), int(Opcode.COMPARE_SWAP)
_FETCH_ADD, _ATOMIC = int(Opcode.FETCH_ADD), int(Opcode.ATOMIC)
_ONE = np.uint64(1)


class PaceState(NamedTuple):
    """pace: one PACE. stages: STAGE, STAGES_A_NIC for each NIC that is known. peers: int64[MAX_PEERS], where
    the stages of a peer begin. routes: int64[way, step, 2], a stage and whose it is. flights: FLIGHT, a heap
    by landing. last: uint64[queue pair], when its last transfer lands.
    """

    pace: Records
    stages: Records
    peers: np.ndarray
    routes: np.ndarray
    flights: Records
    last: np.ndarray


def stages_of(timings: Sequence[Timings]) -> Records:
    """Return a table of idle stages for NICs, in their order."""
    table = np.zeros(len(timings) * STAGES_A_NIC, STAGE)
    for place, timing in enumerate(timings):
        costs = (timing.memory, timing.dma, timing.dma, timing.nic, timing.nic, timing.link, timing.link)
        for stage, cost in enumerate(costs, start=place * STAGES_A_NIC):
            table[stage] = 0, cost.latency_ns, cost.ns_per_byte
    return table.view(np.recarray)


def new_pace(
    timings: Timings, slot_count: int, queue_pair_count: int, shared: tuple[Records, int] | None
) -> PaceState:
    """Return the state of a NIC. `shared`: a table of stages, and the NIC's place in it; without, a NIC knows
    of its peers only that they are as it is.
    """
    pace = np.zeros(1, PACE).view(np.recarray)
    pace["on"] = timings.paces_transfers
    pace["packet_bytes"], pace["request_ns"] = timings.packet_bytes, timings.request_ns
    pace["trigger_ns"] = timings.trigger_ns
    peers = np.arange(1, MAX_PEERS + 1, dtype=np.int64) * STAGES_A_NIC
    flights = np.zeros(slot_count if timings.paces_transfers else 0, FLIGHT).view(np.recarray)
    stages, place = shared or (stages_of([timings] * (MAX_PEERS + 1)), 0)
    pace["own"] = place * STAGES_A_NIC
    last = np.zeros(queue_pair_count, np.uint64)
    return PaceState(pace, stages, peers, _routes(timings.to_memory), flights, last)


def _routes(to_memory: bool) -> np.ndarray[Any, Any]:
    far = [(_INTO_MEMORY, _PEER)] if to_memory else []
    out = [
        (_MEMORY, _OWN),
        (_OUT_OF_MEMORY, _OWN),
        (_NIC_OUT, _OWN),
        (_LINK_OUT, _OWN),
        (_NIC_IN, _PEER),
        *far,
    ]
    far = [(_OUT_OF_MEMORY, _PEER)] if to_memory else []
    home = [
        *far,
        (_NIC_OUT, _PEER),
        (_LINK_OUT, _PEER),
        (_NIC_IN, _OWN),
        (_INTO_MEMORY, _OWN),
        (_MEMORY, _OWN),
    ]
    none = [(NO_STAGE, _OWN)]
    return np.array([(route + none * 7)[:7] for route in (out, home)], np.int64)


@hot
def _through(state: PaceState, length: Int, stage: Int, other: Int) -> None:
    """Pass bytes through a stage, or through two that move them at once (`other`, unless NO_STAGE)."""
    pace = state.pace[0]
    record = state.stages[stage]
    start = pace.head_ns
    if record.free_ns > start:
        start = record.free_ns
    ns_per_byte = record.ns_per_byte
    if other != NO_STAGE:
        if state.stages[other].free_ns > start:
            start = state.stages[other].free_ns
        if state.stages[other].ns_per_byte > ns_per_byte:
            ns_per_byte = state.stages[other].ns_per_byte
    first = length
    if first > pace.packet_bytes:
        first = pace.packet_bytes
    end = start + length * ns_per_byte
    record.free_ns = end
    if other != NO_STAGE:
        state.stages[other].free_ns = end
    tail = pace.tail_ns + first * ns_per_byte
    if end > tail:
        tail = end
    pace.head_ns = start + record.latency_ns + first * ns_per_byte
    pace.tail_ns = tail + record.latency_ns


@hot
def _pass(state: PaceState, way: Int, peer: Int, length: Int, start_ns: Int) -> None:
    """Pass bytes from one memory to the other; `peer`: where its stages begin. `tail_ns` is their end."""
    pace = state.pace[0]
    pace.head_ns = start_ns
    pace.tail_ns = start_ns
    for step in range(state.routes.shape[1]):
        stage = state.routes[way, step, 0]
        if stage == NO_STAGE:
            break
        base, receiver = pace.own, peer
        if state.routes[way, step, 1] == _PEER:
            base, receiver = peer, pace.own
        other: Int = NO_STAGE
        if stage == _LINK_OUT:
            other = receiver + _LINK_IN
        _through(state, length, base + stage, other)


@hot
def send_frame(state: PaceState, peer: Int, length: Int, now_ns: Int) -> Int:
    """Pass a frame to a peer, whose stages begin at `peer`; return when its last byte is in memory there."""
    _pass(state, OUTWARDS, peer, np.float64(length), np.float64(now_ns))
    return np.uint64(state.pace[0].tail_ns + 0.5)


@hot
def _before(state: PaceState, one: Int, other: Int) -> Flag:
    a = state.flights[one]
    b = state.flights[other]
    if a.lands_ns != b.lands_ns:
        return a.lands_ns < b.lands_ns
    return a.number < b.number


@hot
def _swap(state: PaceState, one: Int, other: Int) -> None:
    a = state.flights[one]
    b = state.flights[other]
    lands_ns, number, slot = a.lands_ns, a.number, a.slot
    a.lands_ns, a.number, a.slot = b.lands_ns, b.number, b.slot
    b.lands_ns, b.number, b.slot = lands_ns, number, slot


@hot
def leave(state: PaceState, slot: Int, qp: Int, peer: Int, opcode: Int, length: Int) -> None:
    """Send a transfer off now: note when it lands. Those of one queue pair land in the order of leaving."""
    pace = state.pace[0]
    start = np.float64(pace.now_ns)
    if pace.trigger_free_ns > start:
        start = pace.trigger_free_ns
    start += pace.trigger_ns
    pace.trigger_free_ns = start
    way = OUTWARDS
    if opcode in (_READ, _COMPARE_SWAP, _FETCH_ADD, _ATOMIC):
        way = HOMEWARDS
        start += pace.request_ns
    _pass(state, way, state.peers[peer], np.float64(length), start)
    lands_ns: Int = np.uint64(pace.tail_ns + 0.5)
    if state.last[qp] > lands_ns:
        lands_ns = state.last[qp]
    state.last[qp] = lands_ns
    place: Int = pace.count
    flight = state.flights[place]
    flight.lands_ns, flight.number, flight.slot = lands_ns, pace.number, slot
    pace.number += _ONE
    pace.count += 1
    while place > 0 and _before(state, place, (place - 1) // 2):
        _swap(state, place, (place - 1) // 2)
        place = (place - 1) // 2


@hot
def next_landed(state: PaceState) -> Int:
    """Take the transfer that has landed first by now off the way; return its slot, NONE if none has."""
    pace = state.pace[0]
    if pace.count == 0 or state.flights[0].lands_ns > pace.now_ns:
        return NONE
    slot = state.flights[0].slot
    pace.count -= 1
    count = pace.count
    _swap(state, 0, count)
    place: Int = 0
    while True:
        least = place
        for child in range(2 * place + 1, 2 * place + 3):
            if child < count and _before(state, child, least):
                least = child
        if least == place:
            break
        _swap(state, place, least)
        place = least
    return slot


def drop_flights(state: PaceState, slots: Records, qp: int) -> list[int]:
    """Take the transfers of a queue pair off the way, which will not land; return their slots."""
    pace = state.pace[0]
    flights = state.flights[: int(pace.count)]
    of_pair = slots["qp"][flights["slot"]] == qp
    dropped = [int(slot) for slot in flights["slot"][of_pair]]
    kept = np.sort(flights[~of_pair], order=("lands_ns", "number"))  # an ascending list is a heap
    state.flights[: len(kept)] = kept
    pace.count = len(kept)
    state.last[qp] = 0
    return dropped
