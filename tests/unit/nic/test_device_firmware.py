# SPDX-License-Identifier: Apache-2.0
"""Firmware that fails: its packet reaches the host as a miss, the fault is counted, what it held comes
back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from nicemu.firmware import FirmwareOverrun
from nicemu.kv import Request, decode
from tests.unit.nic.conftest import LIMITS, SESSION, Bench, request_frame

HOLD = "slot = nic.take_landing_slot()\ncounter = nic.allocate_counter(slot.pd)\n"
EVENT_TIMEOUT_NS = 2_000_000_000


def expect_miss(bench: Bench) -> None:
    """The next packet of the host is SESSION's request, and nothing was done for it."""
    packet = bench.nic.receive(0.0)
    assert packet is not None
    request = decode(packet.payload)
    assert isinstance(request, Request)
    assert (request.session, packet.info) == (SESSION, (0,))
    assert bench.nic.receive(0.0) is None, "the packet came twice"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (HOLD + "raise KeyError('x')", "firmware.KeyError"),
        (HOLD + "raise SystemExit", "firmware.SystemExit"),
        (HOLD + "await Mailbox(1).get()", "firmware.timeout"),
        (HOLD + "await counter.reaches(1)", "firmware.timeout"),
        (HOLD + "await nic.delay(1 << 60)", "firmware.timeout"),
        (HOLD + "await 5", "firmware.TypeError"),
        (HOLD + "nic.read(0, 8)", "firmware.UsageError"),
        (HOLD + "nic.allocate(1 << 40)", "firmware.ResourceError"),
        (HOLD + "nic.send('nobody', b'')", "firmware.UsageError"),
        (HOLD + "await nic.nvme_read(1, 0, 1, 0)", "firmware.UsageError"),
        (HOLD + "while True:\n    await counter.reaches(1, timeout_ns=1000)", "firmware.timeout"),
    ],
)
def test_a_task_that_fails_gives_back_what_it_held(bench: Bench, body: str, fault: str) -> None:
    key = bench.offer_slot()
    bench.handle_follow_ups(body)
    bench.arrive(request_frame())
    bench.simulation.run_until_idle()
    assert bench.drops() == {fault: 1}
    expect_miss(bench)
    (slot,) = bench.here.card.landing
    assert slot.index == 0
    assert slot.key != key, "who learnt the key could still write there"
    assert key not in bench.here.memory.table.regions
    assert not bench.here.scheduler.tasks
    assert not bench.here.card.held


def test_counters_of_failed_tasks_never_run_out_and_no_peer_can_bump_them(bench: Bench) -> None:
    bench.offer_slot()
    bench.handle_follow_ups(HOLD + "raise ValueError")
    for _ in range(3 * LIMITS.counter_count):
        bench.arrive(request_frame())
        assert bench.nic.receive(0.0) is not None
    assert bench.drops() == {"firmware.ValueError": 3 * LIMITS.counter_count}
    counters = bench.here.unit.state.counters
    assert not ((counters["allocated"] != 0) & (counters["remote"] != 0)).any()


def test_waits_that_time_out_leave_no_trigger_slot_behind(bench: Bench) -> None:
    bench.offer_slot()
    bench.handle_follow_ups(
        HOLD
        + "for _ in range(5):\n    try:\n        await counter.reaches(1, timeout_ns=1000)\n"
        + "    except Exception:\n        nic.count('waited')\n"
        + "nic.free_counter(counter)\nnic.return_landing_slot(slot)\nnic.miss(event)"
    )
    bench.arrive(request_frame())
    bench.simulation.run_until_idle()
    assert bench.drops() == {"waited": 5}
    assert bench.here.unit.slots_in_use == 0
    assert bench.here.card.signals == {}
    expect_miss(bench)


def overrunning(task_name: str, bench: list[Bench]) -> Callable[[], AbstractContextManager[None]]:
    """A guard that finds that steps of one task do not return in time."""

    @contextmanager
    def guard() -> Any:  # noqa: ANN401
        yield
        current = bench[0].here.scheduler.current
        if current is not None and current.name == task_name:
            raise FirmwareOverrun("too long")

    return guard


def test_a_step_that_overruns_ends_its_task(make_bench: Callable[..., Bench]) -> None:
    benches: list[Bench] = []
    benches.append(make_bench(guard=overrunning("kv_follow_up", benches)))
    (bench,) = benches
    bench.offer_slot()
    bench.handle_follow_ups(HOLD + "await counter.reaches(1)")
    bench.arrive(request_frame())
    assert bench.drops() == {"firmware.overrun": 1}
    expect_miss(bench)
    assert len(bench.here.card.landing) == 1


def test_a_full_event_queue_passes_packets_on(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(depth=2)
    bench.handle_follow_ups("await nic.delay(1000)\nnic.miss(event)")
    bench.arrive(*[request_frame()] * 5)
    assert bench.drops() == {"firmware.queue_full": 3}
    bench.simulation.run_until_idle()
    misses = 0
    while bench.nic.receive(0.0) is not None:
        misses += 1
    assert misses == 5


def test_an_event_without_a_handler_passes_its_packet_on(bench: Bench) -> None:
    bench.handle_follow_ups("nic.miss(event)")
    bench.flash(
        "here", "from nicemu.firmware import on_event\n@on_event('other')\nasync def f(nic, event): ...\n"
    )
    bench.arrive(request_frame())
    assert bench.drops() == {"firmware.no_handler": 1}
    expect_miss(bench)


def test_new_firmware_passes_on_what_the_old_one_held(bench: Bench) -> None:
    key = bench.offer_slot()
    bench.handle_follow_ups(HOLD + "await counter.reaches(1)")
    bench.arrive(request_frame())
    assert len(bench.here.scheduler.tasks) == 1
    bench.flash(
        "here", "from nicemu.firmware import on_event\n@on_event('other')\nasync def f(nic, event): ...\n"
    )
    expect_miss(bench)
    assert [slot.key != key for slot in bench.here.card.landing] == [True]
    assert bench.drops() == {}


def test_a_packet_goes_to_the_host_once_whatever_the_handler_does(bench: Bench) -> None:
    bench.handle_follow_ups("nic.miss(event)\nnic.miss(event)\nraise ValueError")
    bench.arrive(request_frame())
    expect_miss(bench)


def test_a_landed_session_that_no_host_hears_of_gives_its_slot_back(bench: Bench) -> None:
    key = bench.offer_slot()
    bench.handle_follow_ups("nic.complete(event, nic.take_landing_slot(), 1, 2, 3)")
    bench.here.owners[1].listening = False
    bench.arrive(request_frame())
    assert bench.drops() == {"host.nobody_listens": 1}
    (slot,) = bench.here.card.landing
    assert slot.key != key
    bench.nic.listen()
    bench.arrive(request_frame())
    packet = bench.nic.receive(0.0)
    assert packet is not None
    assert packet.info == (1, 0, 1, 2, 3)
    assert not bench.here.card.landing


def test_a_slot_of_a_process_that_is_gone_is_nobodys(bench: Bench) -> None:
    bench.offer_slot()
    bench.handle_follow_ups(HOLD + "await nic.delay(1000)\nnic.return_landing_slot(slot)\nraise ValueError")
    bench.arrive(request_frame())
    bench.nic.close()
    bench.simulation.run_until_idle()
    assert not bench.here.card.landing
    assert bench.drops() == {"firmware.ValueError": 1, "host.nobody_listens": 1}


def test_what_a_spawned_task_is_given_stays_held_when_its_parent_ends(bench: Bench) -> None:
    key = bench.offer_slot()
    bench.handle_follow_ups(
        HOLD
        + "async def later():\n    await nic.delay(10_000_000_000)\n"
        + "    nic.return_landing_slot(slot, rotate_key=False)\n"
        + "nic.spawn('later', later(), slot, counter)\nnic.miss(event)\n"
    )
    bench.arrive(request_frame())
    expect_miss(bench)
    assert not bench.here.card.landing
    bench.simulation.run_until_idle()
    assert [slot.key for slot in bench.here.card.landing] == [key]
    assert not bench.here.card.held
