# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.model import BusyStage, Operation, Way, read_profile, send, stages_of, transfer_s

SEED = read_profile("seed")
PACKET_BYTES = SEED.whole("transfer.packet_bytes")


def stages(way: Way, length_bytes: int) -> list[BusyStage]:
    found = stages_of(SEED, way, Operation.STORE, length_bytes)
    return [BusyStage(stage.name, stage.latency_s, stage.s_per_byte) for stage in found]


@given(length_bytes=st.integers(1, 1 << 30))
def test_one_transfer_through_idle_stages_takes_what_the_formula_says(length_bytes: int) -> None:
    done_s = send(0.0, length_bytes, stages(Way.TRIGGERED, length_bytes), PACKET_BYTES)
    assert done_s == pytest.approx(transfer_s(SEED, Way.TRIGGERED, Operation.STORE, length_bytes), rel=1e-9)


def test_transfers_on_one_link_end_when_its_rate_lets_them() -> None:
    link = BusyStage("link", 1e-6, 8e-11)
    nics = [BusyStage(f"NIC {number}", 0.0, 1e-11) for number in range(8)]
    done = [send(0.0, 1 << 20, (nic, link), 4096) for nic in nics]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(4096 * 1e-11 + 8 * (1 << 20) * 8e-11 + 1e-6)
    assert link.busy_s == pytest.approx(8 * (1 << 20) * 8e-11)


def test_a_slow_stage_in_front_leaves_gaps_to_others() -> None:
    link = BusyStage("link", 0.0, 1e-10)
    slow, fast = BusyStage("drive", 0.0, 1e-9), BusyStage("memory", 0.0, 1e-12)
    assert send(0.0, 10_000_000, (slow, link), 4096) == pytest.approx(0.01, rel=1e-3)
    assert send(0.0, 10_000_000, (fast, link), 4096) == pytest.approx(0.002, rel=1e-2)


def test_a_stage_is_free_until_what_waits_elsewhere_reaches_it() -> None:
    full, empty, shared = (BusyStage(name, 0.0, 1e-9) for name in ("full", "empty", "shared"))
    shared.s_per_byte = 1e-10
    full.free_at_s = 1.0
    assert send(0.0, 1_000_000, (full, shared), 1000) == pytest.approx(1.001, rel=1e-6)
    assert send(0.0, 1_000_000, (empty, shared), 1000) == pytest.approx(0.001, rel=1e-3)


def test_work_that_a_gap_does_not_hold_goes_on_behind_what_is_booked() -> None:
    stage = BusyStage("link", 0.0, 1.0)
    assert stage.book(0.0, 10.0, 5.0) == (10.0, 15.0)
    assert stage.book(0.0, 4.0, 8.0) == (4.0, 17.0)
    assert (stage.gaps, stage.busy_s) == ([(0.0, 4.0)], 13.0)
    assert stage.book(1.0, 1.0, 2.0) == (1.0, 3.0)
    assert stage.book(1.0, 2.0, 2.0) == (3.0, 18.0)


@given(
    booked=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 10)), min_size=1, max_size=40
    )
)
def test_a_stage_does_every_work_once_and_one_at_a_time(booked: list[tuple[int, int, int]]) -> None:
    stage, taken, now = BusyStage("link", 0.0, 1.0), [False] * 2000, 0
    for later, ahead, work in booked:
        now += later
        start, end = stage.book(float(now), float(now + ahead), float(work))
        slots = [place for place in range(now + ahead, 2000) if not taken[place]][:work]
        for place in slots:
            taken[place] = True
        assert (start, end) == (slots[0], slots[-1] + 1)
    assert stage.busy_s == sum(taken)
