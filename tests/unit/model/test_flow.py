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
