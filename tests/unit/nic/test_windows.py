# SPDX-License-Identifier: Apache-2.0
"""Programs armed a window at a time: the NIC arms the next operation whenever one has fired."""

from __future__ import annotations

import numpy as np
import pytest

from nicemu.abi import DeferredWork, Limits, Opcode
from nicemu.errors import NicemuError, UsageError
from nicemu.host import Counter, Nic
from nicemu.nic import NicConfig
from nicemu.run import Simulation
from tests.unit.nic.conftest import Bench


@pytest.fixture(params=[False, True], ids=["interpreted", "compiled"])
def world(request: pytest.FixtureRequest) -> Simulation:
    limits = Limits.named("cassini", slot_count=32, service_slots=8)
    return Simulation([NicConfig("compute0", "127.0.1.1", limits=limits)], compiled=request.param)


def in_use(simulation: Simulation) -> int:
    return simulation.nics["compute0"].unit.slots_in_use


def test_a_program_longer_than_the_table_fires_whole_through_a_window(world: Simulation) -> None:
    with Nic(world.open_nic("compute0")) as nic:
        layer, done = nic.counters("layer", "done")
        with nic.program("forty") as program:
            for number in range(40):
                program.when(layer >= number + 1).add(done)
        program.window(4)
        assert in_use(world) == 4
        for number in range(40):
            layer.add()
            assert done.success == number + 1
            assert in_use(world) == min(4, 39 - number)
        assert not world.nics["compute0"].windows._open, "a window that is through is forgotten"


def test_a_jump_over_all_thresholds_fires_all_in_order(world: Simulation) -> None:
    with Nic(world.open_nic("compute0")) as nic:
        layer, done = nic.counters("layer", "done")
        with nic.program("values") as program:
            for number in range(20):
                program.when(layer >= number + 1).set(done, number)
        program.window(3)
        layer.add(20)
        assert done.success == 19


def test_a_window_is_armed_whole_or_not_at_all(world: Simulation) -> None:
    with Nic(world.open_nic("compute0")) as nic:
        layer, done = nic.counters("layer", "done")
        with nic.program("ten") as program:
            for _ in range(10):
                program.when(layer >= 1).add(done)
        with pytest.raises(NicemuError, match=r"a window of 9 operations, 8 trigger slots free \(ENOSPC\)"):
            program.window(9)
        assert in_use(world) == 0


def test_what_cannot_be_armed_is_refused_also_behind_the_window(world: Simulation) -> None:
    with Nic(world.open_nic("compute0")) as nic:
        layer, done = nic.counters("layer", "done")
        (gone,) = nic.counters("gone")
        gone.close()
        targets = (done.index, done.index, gone.index)
        work = [
            DeferredWork(layer.index, number, Opcode.COUNTER_ADD, target=target, value=1)
            for number, target in enumerate(targets, 1)
        ]
        with pytest.raises(UsageError, match="an operation of the program cannot be armed: invalid"):
            nic.arm_window(work, 2)
        assert in_use(world) == 0
        layer.add(3)
        assert done.success == 0


@pytest.mark.parametrize("ending", ["program.cancel", "nic.flush"])
def test_cancelling_takes_also_what_the_window_has_not_armed_yet(world: Simulation, ending: str) -> None:
    with Nic(world.open_nic("compute0")) as nic:
        layer, done = nic.counters("layer", "done")
        with nic.program("ten") as program:
            for number in range(10):
                program.when(layer >= number + 1).add(done)
        program.window(4)
        layer.add(3)
        assert (program.cancel() if ending == "program.cancel" else nic.flush()) == 7
        layer.add(10)
        assert done.success == 3
        assert in_use(world) == 0
        assert program.cancel() == 0


@pytest.fixture
def roomy(request: pytest.FixtureRequest) -> Simulation:
    return Simulation([NicConfig("compute0", "127.0.1.1")])


def two_layers(nic: Nic, size: int) -> tuple[Counter, Counter, Counter]:
    """Arm a window of a program that waits for two counters in turn, five times each."""
    even, odd, done = nic.counters("even", "odd", "done")
    with nic.program("in turn") as program:
        for number in range(5):
            program.when(even >= number + 1).add(done)
            program.when(odd >= number + 1).add(done, 100)
    program.window(size)
    return even, odd, done


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_a_window_goes_on_with_what_a_cancelled_counter_leaves(roomy: Simulation, size: int) -> None:
    with Nic(roomy.open_nic("compute0")) as nic:
        even, odd, done = two_layers(nic, size)
        assert nic.cancel_counter(even) == 5
        even.add(5)
        odd.add(5)
        assert done.success == 500
        assert not roomy.nics["compute0"].windows._open, "a window that is through is forgotten"


def test_cancelling_a_counter_where_that_takes_all_takes_the_windows_too(world: Simulation) -> None:
    with Nic(world.open_nic("compute0")) as nic:
        even, odd, done = two_layers(nic, 4)
        assert nic.cancel_counter(even) == 10
        odd.add(5)
        assert done.success == 0
        assert in_use(world) == 0


def test_a_counter_that_a_window_will_name_is_closed_by_force_alone(roomy: Simulation) -> None:
    with Nic(roomy.open_nic("compute0")) as nic:
        even, odd, done = two_layers(nic, 1)
        message = r"is named by 5 operations that no window has armed yet \(EBUSY\)"
        with pytest.raises(UsageError, match=message):
            odd.close()
        odd.close(force=True)
        even.add(5)
        assert done.success == 5
        assert not roomy.nics["compute0"].windows._open


def test_closing_the_counter_that_a_window_counts_at_ends_its_program(roomy: Simulation) -> None:
    with Nic(roomy.open_nic("compute0")) as nic:
        even, odd, done = two_layers(nic, 3)
        done.close(force=True)
        (again,) = nic.counters("again")
        even.add(5)
        odd.add(5)
        assert again.index == done.index
        assert again.success == 0
        assert in_use(roomy) == 0
        assert not roomy.nics["compute0"].windows._open


def test_what_a_windows_operations_name_goes_by_force_alone(bench: Bench) -> None:
    nic = bench.nic
    (go,) = nic.counters("go")
    peer = nic.connect("there")
    span = nic.register(nic.allocate((8,)))
    remote = peer.span(peer.private_data["address"], 8, peer.private_data["rkey"])
    with nic.program("writes") as program:
        program.when(go >= 1).add(go)
        for _ in range(3):
            program.when(go >= 3).write(span, remote)
    program.window(1)
    message = r"is named by 3 operations that no window has armed yet \(EBUSY\)"
    with pytest.raises(UsageError, match=f"key .* {message}"):
        nic.deregister(span)
    with pytest.raises(UsageError, match=r"queue pair \d+ is named by 3 armed operations \(EBUSY\)"):
        nic.disconnect(peer)
    nic.disconnect(peer, force=True)
    nic.deregister(span)
    go.add(3)
    assert go.success == 4


def test_what_is_on_its_way_to_be_armed_is_cancelled_with_its_window(roomy: Simulation) -> None:
    """The datapath may not have read yet what the control side wants armed: it is neither fired nor lost."""
    with Nic(roomy.open_nic("compute0")) as nic:
        even, odd, done = two_layers(nic, 1)
        device = roomy.nics["compute0"]
        (number,) = device.windows._open
        with device.rings.paused():
            device.windows.fired(number)  # as if the first had fired: the next is on its way
        assert nic.cancel_counter(odd) == 5
        assert nic.flush() == 5
        even.add(5)
        assert done.success == 0
        assert in_use(roomy) == 0


def test_a_window_that_finds_no_free_slot_goes_on_when_there_is_one(world: Simulation) -> None:
    """Another process takes the slot that an operation of the window gave back."""
    with Nic(world.open_nic("compute0")) as nic, Nic(world.open_nic("compute0")) as other:
        layer, done = nic.counters("layer", "done")
        (far,) = other.counters("far")
        with nic.program("three") as program:
            for number in range(3):
                program.when(layer >= number + 1).add(done)
        program.window(1)
        device = world.nics["compute0"]
        free = device.unit.free_slots
        device.unit.free_slots = lambda owner: 0  # type: ignore[method-assign]
        layer.add(3)
        assert done.success == 1
        assert device.next_deadline_ns() is not None
        device.unit.free_slots = free  # type: ignore[method-assign]
        world.run_until(lambda: done.success == 3, 10_000_000)
        assert done.success == 3
        assert far.success == 0


def test_windows_end_with_their_process(world: Simulation) -> None:
    with Nic(world.open_nic("compute0")) as nic:
        layer, done = nic.counters("layer", "done")
        with nic.program("ten") as program:
            for number in range(10):
                program.when(layer >= number + 1).add(done)
        program.window(2)
    device = world.nics["compute0"]
    assert in_use(world) == 0
    assert not device.windows._open
    assert not np.any(device.arena.windows)


def test_a_process_cannot_close_the_window_of_another(bench: Bench) -> None:
    (layer,) = bench.nic.counters("layer")
    with bench.nic.program("two") as program:
        program.when(layer >= 1).add(layer)
        program.when(layer >= 2).add(layer)
    program.window(1)
    _, other = bench.open()
    assert other.cancel_window(1) == 0
    assert bench.nic.flush() == 2
    other.close()


@pytest.mark.parametrize(
    ("operands", "sentence"), [({"size": 0}, "at least one"), ({"key": 5}, "registered")]
)
def test_a_window_that_makes_no_sense_is_refused(
    bench: Bench, operands: dict[str, int], sentence: str
) -> None:
    asked = {"address": 0, "key": 0, "count": 1, "size": 1, **operands}
    with pytest.raises(NicemuError, match=sentence):
        bench.connection.request("window_open", **asked)
