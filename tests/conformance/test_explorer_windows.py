# SPDX-License-Identifier: Apache-2.0
"""Windows under the explorer: whichever comes first, doorbells, the arming of the next, or the cancelling."""

from __future__ import annotations

import pytest

from nicemu.abi import Limits
from nicemu.testing.choices import Schedule
from nicemu.testing.explorer import explore
from nicemu.testing.worlds import PeerMemory, World

SMALL = Limits(counter_count=64, slot_count=64)
OPERATIONS = 6


def _holds(schedule: Schedule, kind: str, seen: int, found: set[int]) -> bool:
    """Whether each operation of a windowed program has fired or was cancelled, and none did both."""
    world = World("compute0", "peer0", limits=SMALL, peer_bytes=4096)
    try:
        nic = world["compute0"]
        peer: PeerMemory = world.peer()
        local = nic.register(nic.allocate((8,)))
        go, done = nic.counters("go", "done")
        with nic.program("window") as program:
            for number in range(OPERATIONS):
                step = program.when(go >= number + 1)
                if number % 2:
                    step.write(local, peer.span[0:8], then=done)
                else:
                    step.add(done)
        program.window(2)
        for stream in (world.stream(), world.stream()):
            for _ in range(2):
                go.trigger_after(stream)
        world.simulation.step_by(schedule)
        done.wait(seen)
        if kind == "program":
            cancelled = program.cancel()
        else:
            cancelled = nic.flush() if kind == "flush" else nic.cancel_counter(go)
        world.simulation.run_until_idle()
        settled = done.read()
        found.add(cancelled)
        go.add(OPERATIONS)
        world.simulation.run_until_idle()
        return settled == done.read() == (OPERATIONS - cancelled, 0) and nic.flush() == 0
    finally:
        world.close()


@pytest.mark.parametrize("seen", [1, 3])
@pytest.mark.parametrize("kind", ["program", "flush", "counter"])
def test_in_every_order_each_operation_of_a_window_fires_or_is_cancelled(kind: str, seen: int) -> None:
    found: set[int] = set()
    exploration = explore(lambda schedule: _holds(schedule, kind, seen, found), 24)
    assert exploration.failure is None
    assert exploration.schedules > 1
    assert seen < 3 or len(found) > 1, "the cancelling comes between different operations"
