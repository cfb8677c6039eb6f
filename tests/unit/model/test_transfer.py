# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nicemu.model import Operation, Way, nvme_s, read_profile, software_s, speedup, stages_of, transfer_s

from .rows import GIB, GOLDEN, KIB, MIB, SIZES, profile_of


def digits(text: float) -> float:
    """Return by how much a printed value may be off: half of its last digit."""
    return float(0.5 * 10.0 ** -len(f"{text}".partition(".")[2]))


@pytest.mark.parametrize("row", GOLDEN)
def test_speedups_are_those_of_the_talk_s_readings(row: str) -> None:
    profile, (_, _, operation, wanted) = profile_of(row), GOLDEN[row]
    for length, value in zip(SIZES, wanted, strict=True):
        found = speedup(profile, Operation(operation), length)
        assert abs(found - value) <= 0.01 * value + digits(value), (length, found)


@pytest.mark.parametrize("row", GOLDEN)
def test_no_reading_has_the_cpu_faster(row: str) -> None:
    profile, operation = profile_of(row), Operation(GOLDEN[row][2])
    assert all(speedup(profile, operation, 1 << power) >= 1 for power in range(31))


def test_the_first_row_of_software_falls_with_the_size_and_a_node_s_rises() -> None:
    for row, sign in (("2", -1), ("5", 1)):
        found = [speedup(profile_of(row), Operation.STORE, KIB << power) for power in range(21)]
        assert found == sorted(found, reverse=sign < 0)


def test_software_sums_to_41_8_us() -> None:
    assert software_s(read_profile("seed")) == pytest.approx(41.8e-6)
    assert software_s(read_profile("physical")) == pytest.approx(41.8e-6)


def test_the_two_readings_of_the_drive_meet_where_they_are_consistent() -> None:
    """Times in ms at 4 KiB, 1 MiB and 128 MiB, write and read."""
    seed = read_profile("seed")
    alone = seed.having({"nvme.reading": "latency_alone"})
    for profile, length, write_ms, read_ms in (
        (seed, 4 * KIB, 0.005, 0.003),
        (seed, MIB, 0.45, 0.20),
        (seed, 128 * MIB, 41, 17),
        (alone, 4 * KIB, 3.3, 2.0),
        (alone, MIB, 3.7, 2.3),
        (alone, 128 * MIB, 58, 37),
    ):
        assert 1e3 * nvme_s(profile, Operation.STORE, length) == pytest.approx(write_ms, rel=0.06)
        assert 1e3 * nvme_s(profile, Operation.FETCH, length) == pytest.approx(read_ms, rel=0.12)


def test_the_drive_s_rate_grows_no_further_than_it_was_measured() -> None:
    seed = read_profile("seed")
    fast, faster = (nvme_s(seed, Operation.FETCH, length) for length in (128 * MIB, GIB))
    assert faster / fast == pytest.approx(8, rel=1e-3)
    assert 128 * MIB / fast == pytest.approx(7.82e9, rel=1e-2)


def test_a_fetch_has_a_request_before_it_and_the_drive_s_read() -> None:
    profile = read_profile("physical").having({"transfer.completion": "durable"})
    (request,) = [
        stage for stage in stages_of(profile, Way.TRIGGERED, Operation.FETCH, KIB) if stage.name == "request"
    ]
    assert request.latency_s == pytest.approx(1.21e-6 + 2 * 0.5e-6)
    store = transfer_s(profile, Way.TRIGGERED, Operation.STORE, KIB)
    fetch = transfer_s(profile, Way.TRIGGERED, Operation.FETCH, KIB)
    reads = nvme_s(profile, Operation.FETCH, KIB) - nvme_s(profile, Operation.STORE, KIB)
    assert fetch - store == pytest.approx(request.latency_s + reads)


def test_both_ways_are_complete_at_the_same_place() -> None:
    """There is one setting: nothing can charge the drive to one way alone."""
    for completion, last in (("nic", "NIC"), ("remote_memory", "PCIe"), ("durable", "NVMe")):
        profile = read_profile("seed").having({"transfer.completion": completion})
        names = {way: [stage.name for stage in stages_of(profile, way, Operation.STORE, KIB)] for way in Way}
        assert names[Way.TRIGGERED][-1] == last
        assert ("NVMe" in names[Way.CPU]) == ("NVMe" in names[Way.TRIGGERED]) == (completion == "durable")


def test_a_message_of_several_chunks_is_matched_several_times() -> None:
    profile = read_profile("physical")
    one, many = (transfer_s(profile, Way.TRIGGERED, Operation.STORE, length) for length in (MIB, MIB + 1))
    assert many - one == pytest.approx(0.2e-6, rel=0.01)
