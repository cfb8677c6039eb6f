# SPDX-License-Identifier: Apache-2.0
"""The KV journey has no races: store, evict, come back, with every access of the host declared."""

from __future__ import annotations

import pytest

from nicemu.nic import NicConfig
from nicemu.run import Simulation
from nicemu.testing import RaceKind, check_races
from tests.conformance import test_stepped_journey
from tests.conformance.stepped_world import World

TRANSPORTS = pytest.mark.parametrize("transport", ["direct", "port"])


def _name(number: int) -> bytes:
    return number.to_bytes(16, "big")


@TRANSPORTS
def test_sessions_that_leave_and_come_back_race_with_nothing(transport: str) -> None:
    world = World(transport, slots=4, check_races=True)
    for number in range(6):
        world.leave(_name(number), 17 + number)
    for number in (3, 5, 1):
        world.resume.offer()
        slot = world.fetch(_name(number))
        assert slot is not None
        assert world.bytes_of(slot) == world.kv[_name(number)].data
        world.poison(slot)
        world.resume.drop(slot)
    assert world.fetch(_name(0)) is None, "no slot was offered"
    world.simulation.run_until_idle()
    report = check_races(world.simulation)
    assert report.races == [], str(report)
    assert report.is_whole
    assert report.operations > 30
    assert report.declared > 30


@TRANSPORTS
def test_the_serving_host_and_its_kernels_race_with_nothing(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Simulation] = []

    def checked(configs: list[NicConfig]) -> Simulation:
        ran.append(Simulation(configs, check_races=True))
        return ran[-1]

    monkeypatch.setattr(test_stepped_journey, "Simulation", checked)
    test_stepped_journey.serve(transport, evict=True)
    report = check_races(ran[0])
    assert report.races == [], str(report)
    assert report.is_whole
    assert report.declared > 50


@TRANSPORTS
def test_a_host_that_looks_into_a_slot_that_it_has_offered_is_found(transport: str) -> None:
    world = World(transport, check_races=True)
    world.leave(_name(1))
    slot = world.resume.offer()
    world.come_back(_name(1))
    world.simulation.run_until_idle()
    world.bytes_of(slot)  # it has landed, but nobody has said so
    assert world.receive() is not None
    world.bytes_of(slot)
    report = check_races(world.simulation)
    assert {race.kind for race in report.races} == {RaceKind.LANDING_NOT_OBSERVED}, str(report)
    assert {race.accesses[0].what for race in report.races} == {"the host's read"}
