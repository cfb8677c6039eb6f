# SPDX-License-Identifier: Apache-2.0
"""The stepper under a profile takes as long as the model says: a transfer, many, reads, drives."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.model import PROFILES, Operation, Profile, Way, nvme_s, read_profile, timings_of, transfer_s
from nicemu.timing import Resource
from tests.conformance.modelled_world import computes

WITHIN = 0.01


def took_s(profile: Profile, folder: Path, operation: Operation, length_bytes: int, count: int = 1) -> float:
    """Seconds of virtual time until transfers of `count` compute NICs that start together are complete."""
    with computes(profile, folder, count, length_bytes) as (simulation, hosts):
        for host in hosts:
            host.arm(operation)
        begin_ns = simulation.clock.now_ns()
        for host in hosts:
            host.go.add()
        for host in hosts:
            host.done.wait(1)
        return 1e-9 * (simulation.clock.now_ns() - begin_ns)


@pytest.mark.parametrize("completion", ["nic", "remote_memory"])
@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("length_bytes", [1, 4096, 65536, 1 << 20, 16 << 20])
def test_a_transfer_takes_what_the_formula_says(
    name: str, operation: Operation, completion: str, length_bytes: int, tmp_path: Path
) -> None:
    # A transfer is one chunk: one match of a trigger.
    profile = read_profile(name).having({"transfer.completion": completion, "software.chunk_bytes": 0})
    formula_s = transfer_s(profile, Way.TRIGGERED, operation, length_bytes)
    assert took_s(profile, tmp_path, operation, length_bytes) == pytest.approx(formula_s, rel=WITHIN)


@pytest.mark.parametrize("operation", Operation)
def test_nics_contend_for_the_link_of_the_one_that_all_talk_to(operation: Operation, tmp_path: Path) -> None:
    profile = read_profile("physical")
    alone_s, together_s = (took_s(profile, tmp_path, operation, 1 << 20, count) for count in (1, 8))
    more_s = 7 * (1 << 20) * profile.number("link.s_per_byte")
    assert together_s == pytest.approx(alone_s + more_s, rel=WITHIN)


def test_eight_transfers_of_one_nic_pass_its_link_one_after_another(tmp_path: Path) -> None:
    profile, length_bytes = read_profile("seed"), 1 << 20
    with computes(profile, tmp_path, 1, length_bytes) as (simulation, (host,)):
        host.arm(Operation.STORE, 8)
        begin_ns = simulation.clock.now_ns()
        host.go.add()
        host.done.wait(8)
        took = 1e-9 * (simulation.clock.now_ns() - begin_ns)
    more_s = 7 * length_bytes * profile.number("link.s_per_byte")
    alone_s = transfer_s(profile, Way.TRIGGERED, Operation.STORE, length_bytes)
    assert took == pytest.approx(alone_s + more_s, rel=WITHIN)


def test_nothing_is_written_before_it_lands(tmp_path: Path) -> None:
    with computes(read_profile("physical"), tmp_path, 1, 4096) as (simulation, (host,)):
        host.arm(Operation.STORE)
        host.go.add()
        lands_s = transfer_s(read_profile("physical"), Way.TRIGGERED, Operation.STORE, 4096)
        simulation.run_until(lambda: False, round(1e9 * lands_s) - 10)
        assert host.done.read() == (0, 0)
        assert simulation.nics["compute0"].statistics()["writes"] == 0
        simulation.run_until(lambda: False, 20)
        assert host.done.read() == (1, 0)
        assert simulation.nics["compute0"].statistics()["writes"] == 1


def test_what_is_on_its_way_is_gone_with_its_queue_pair(tmp_path: Path) -> None:
    with computes(read_profile("physical"), tmp_path, 1, 4096) as (simulation, (host,)):
        host.arm(Operation.STORE, 3)
        host.go.add()
        device = simulation.nics["compute0"]
        assert device.unit.slots_in_use == 3
        host.nic.close()
        simulation.run_until_idle()
        assert device.unit.slots_in_use == 0
        assert device.statistics()["writes"] == 0


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=12))
@settings(max_examples=20, deadline=None)
def test_transfers_that_run_ahead_land_as_those_that_are_stepped_through(
    tmp_path_factory: pytest.TempPathFactory, work: list[tuple[int, bool]]
) -> None:
    """`run_until_idle` lets a NIC go on by itself; a host that waits has it stepped through."""
    ends = []
    for waits in (True, False):
        with computes(read_profile("physical"), tmp_path_factory.mktemp("ahead"), 1, 8192) as (
            simulation,
            (host,),
        ):
            with host.nic.program("chain") as program:
                for threshold, reads in work:  # what is done makes more due
                    counter = host.go if threshold == 0 else host.done
                    step = program.when(counter >= max(threshold, 1))
                    if reads:
                        step.read(host.local, host.far, then=host.done)
                    else:
                        step.write(host.local, host.far, then=host.done)
            program.arm()
            host.go.add()
            if waits:
                simulation.run_until(lambda: False, 1_000_000)
            simulation.run_until_idle()
            device = simulation.nics["compute0"]
            ends.append((host.done.read(), device.unit.slots_in_use, int(device.arena.pacing.last.max())))
            host.nic.close()
    assert ends[0] == ends[1]


@pytest.mark.parametrize("reading", ["fixed_and_rate", "latency_alone"])
@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("length_bytes", [4096, 1 << 20])
def test_a_drive_takes_what_the_reading_says(reading: str, operation: Operation, length_bytes: int) -> None:
    profile = read_profile("seed").having({"nvme.reading": reading})
    timings = timings_of(profile)
    cost = timings.nvme_write if operation is Operation.STORE else timings.nvme_read
    done_ns = Resource(cost).complete_at(length_bytes, 0)
    assert 1e-9 * done_ns == pytest.approx(nvme_s(profile, operation, length_bytes), rel=1e-3)
