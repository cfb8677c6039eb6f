# SPDX-License-Identifier: Apache-2.0
"""Transfers on their way: when they land, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.abi import Opcode
from nicemu.hot import interpreted
from nicemu.model import read_profile, timings_of
from nicemu.nic.pacing import STAGES_A_NIC, drop_flights, leave, new_pace, next_landed, send_frame, stages_of
from nicemu.timing import Cost, Timings
from nicemu.trigger import NONE

PHYSICAL = timings_of(read_profile("physical"))
LEAVE, NEXT, FRAME = interpreted(leave), interpreted(next_landed), interpreted(send_frame)
SLOTS = np.zeros(64, [("qp", "u4")]).view(np.recarray)


@dataclass
class Stage:
    """A stage that is busy until what it was given last has passed."""

    cost: Cost
    free_ns: float = 0.0


def reference(timings: Timings, transfers: list[tuple[int, bool, int]]) -> list[float]:
    """When transfers (begin, whether a read, bytes) between two NICs land: in words, with nothing clever."""
    costs = [timings.memory, *[timings.dma] * 2, *[timings.nic] * 2, *[timings.link] * 2]
    own, peer = ([Stage(cost) for cost in costs] for _ in range(2))
    matched, ends = 0.0, []
    for begin, reads, length in transfers:
        matched = max(matched, begin) + timings.trigger_ns
        out = [[own[0]], [own[1]], [own[3]], [own[5], peer[6]], [peer[4]], [peer[2]]]
        home = [[peer[1]], [peer[3]], [peer[5], own[6]], [own[4]], [own[2]], [own[0]]]
        head = tail = matched + timings.request_ns if reads else matched
        for together in home if reads else out:
            rate, latency = together[0].cost.ns_per_byte, together[0].cost.latency_ns
            start = max(head, *(stage.free_ns for stage in together))
            for stage in together:
                stage.free_ns = start + length * rate
            packet = min(length, timings.packet_bytes) * rate
            head = start + latency + packet  # the first packet goes on
            tail = max(start + length * rate, tail + packet) + latency
        ends.append(tail)
    return ends


@given(
    st.lists(st.tuples(st.integers(0, 50_000), st.booleans(), st.integers(0, 1 << 21)), max_size=20),
    st.sampled_from([PHYSICAL, Timings(link=Cost(1000, 0.1)), timings_of(read_profile("seed"))]),
)
def test_transfers_of_different_queue_pairs_land_when_stages_let_them(
    given_transfers: list[tuple[int, bool, int]], timings: Timings
) -> None:
    transfers = sorted(given_transfers, key=lambda transfer: transfer[0])
    pacing = new_pace(timings, 64, 64, None)
    for slot, (begin, reads, length) in enumerate(transfers):
        pacing.pace[0].now_ns = begin
        opcode = Opcode.RDMA_READ if reads else Opcode.RDMA_WRITE
        LEAVE(pacing, slot, slot, 0, int(opcode), np.uint64(length))
    count = len(transfers)
    lands = {int(flight.slot): int(flight.lands_ns) for flight in pacing.flights[:count]}
    wanted = reference(timings, transfers)
    assert [lands[slot] for slot in range(count)] == pytest.approx(wanted, abs=1)
    pacing.pace[0].now_ns = 1 << 60
    order = [int(NEXT(pacing)) for _ in range(count)]
    assert order == sorted(order, key=lambda slot: (lands[slot], slot))
    assert NEXT(pacing) == NONE


def test_a_transfer_lands_no_sooner_than_its_time() -> None:
    pacing = new_pace(Timings(link=Cost(1000, 0.0)), 8, 8, None)
    LEAVE(pacing, 3, 1, 0, int(Opcode.SEND), np.uint64(0))
    for now_ns, wanted in ((0, NONE), (999, NONE), (1000, 3), (1000, NONE)):
        pacing.pace[0].now_ns = now_ns
        assert NEXT(pacing) == wanted


def test_transfers_of_one_queue_pair_land_in_the_order_in_which_they_left() -> None:
    pacing = new_pace(PHYSICAL, 8, 8, None)
    LEAVE(pacing, 0, 5, 0, int(Opcode.RDMA_READ), np.uint64(1 << 20))
    LEAVE(pacing, 1, 5, 0, int(Opcode.RDMA_WRITE), np.uint64(1))
    LEAVE(pacing, 2, 6, 0, int(Opcode.RDMA_WRITE), np.uint64(1))
    pacing.pace[0].now_ns = 1 << 60
    assert [int(NEXT(pacing)) for _ in range(3)] == [2, 0, 1]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1 << 16)), max_size=30), st.integers(1, 3))
def test_dropping_those_of_a_queue_pair_keeps_all_others_in_order(
    transfers: list[tuple[int, int]], gone: int
) -> None:
    pacing = new_pace(PHYSICAL, 64, 8, None)
    slots = SLOTS.copy()
    for slot, (qp, length) in enumerate(transfers):
        slots[slot].qp = qp
        LEAVE(pacing, slot, qp, 0, int(Opcode.RDMA_WRITE), np.uint64(length))
    lands = {int(flight.slot): int(flight.lands_ns) for flight in pacing.flights[: len(transfers)]}
    dropped = drop_flights(pacing, slots, gone)
    assert sorted(dropped) == [slot for slot, (qp, _) in enumerate(transfers) if qp == gone]
    pacing.pace[0].now_ns = 1 << 60
    kept = [slot for slot, (qp, _) in enumerate(transfers) if qp != gone]
    assert [int(NEXT(pacing)) for _ in kept] == sorted(kept, key=lambda slot: (lands[slot], slot))
    assert NEXT(pacing) == NONE


def test_nics_that_share_a_table_contend_for_the_link_into_one_of_them() -> None:
    timings = Timings(link=Cost(0, 1.0))
    table = stages_of([timings] * 3)
    first, second = (new_pace(timings, 8, 8, (table, place)) for place in (0, 1))
    target = 2 * STAGES_A_NIC
    assert [int(FRAME(nic, target, 1000, 0)) for nic in (first, second, first)] == [1000, 2000, 3000]
    assert int(FRAME(second, 0, 1000, 0)) == 3000  # its own way out is taken until 2000


def test_what_costs_nothing_is_not_paced() -> None:
    pacing = new_pace(Timings(nvme_read=Cost(1, 1.0), firmware_step_ns=5), 8, 8, None)
    assert pacing.pace[0].on == 0
    assert len(pacing.flights) == 0
    assert new_pace(Timings(trigger_ns=1), 8, 8, None).pace[0].on == 1
