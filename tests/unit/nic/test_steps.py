# SPDX-License-Identifier: Apache-2.0
"""Single steps of a NIC: one thing each, and what cannot take effect stays due."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nicemu.abi import DeferredWork, Opcode, WorkRequest
from nicemu.nic import Footprint, NicSteps, Step
from nicemu.testing import World


@pytest.fixture
def world() -> Iterator[World]:
    made = World("compute0", "peer0")
    yield made
    made.close()


def kinds(steps: NicSteps) -> list[str]:
    return [str(step.key[1]) for step in steps.options()]


def take(steps: NicSteps, kind: str) -> Footprint:
    (step,) = [step for step in steps.options() if step.key[1] == kind][:1]
    return steps.take(step)


def test_an_operation_is_initiated_then_takes_effect(world: World) -> None:
    nic, peer = world["compute0"], world.peer()
    go, done = nic.counters("go", "done")
    memory = nic.allocate((8,))
    memory.array[:] = 5
    local = nic.register(memory)
    with nic.program("write") as program:
        program.when(go >= 1).write(local, peer.span[0:8], then=done)
    program.arm()
    device = world.simulation.nics["compute0"]
    device.unit.add(go.index, 1)
    steps = NicSteps(device)
    assert kinds(steps) == ["counter"]
    assert device.settle() == 0, "the NIC is held"
    initiated = take(steps, "counter")
    assert initiated.needs == (("counter", "compute0", go.index), 1, 1)
    assert (kinds(steps), peer.bytes[:8]) == (["queue pair"], bytes(8))
    effect = take(steps, "queue pair")
    assert (kinds(steps), peer.bytes[:8], done.read()) == ([], b"\5" * 8, (1, 0))
    assert {(piece.nic, piece.is_written) for piece in effect.memory} == {
        ("compute0", False),
        ("peer0", True),
    }
    assert effect.counts == {("counter", "compute0", done.index): 1}
    steps.close()


def test_what_is_initiated_takes_effect_after_all_if_the_steps_are_closed(world: World) -> None:
    nic, peer = world["compute0"], world.peer()
    (go,) = nic.counters("go")
    memory = nic.allocate((24,))
    memory.array[:] = range(24)
    local, other = nic.register(memory), peer.another_queue_pair().span
    with nic.program("three") as program:
        for number, span in enumerate((peer.span, other, peer.span)):
            program.when(go >= 1).write(local[8 * number : 8 * number + 8], span[0:8])
    program.arm()
    device = world.simulation.nics["compute0"]
    device.unit.add(go.index, 1)
    steps = NicSteps(device)
    for _ in range(3):
        take(steps, "counter")
    assert device.unit.state.unit[0].fired == 3
    steps.close()
    device.settle()
    assert peer.bytes[:8] == bytes(range(16, 24)), "in the order in which they were due"
    assert device.unit.state.unit[0].fired == 3
    assert device.unit.slots_in_use == 0


def test_what_cannot_go_is_stalled_and_goes_later(world: World) -> None:
    nic, peer = world["compute0"], world.peer()
    go, done = nic.counters("go", "done")
    local = nic.register(nic.allocate((8,)))
    send = WorkRequest(Opcode.SEND, (local.sge(),))
    nic.arm([DeferredWork(go.index, 1, Opcode.SEND, send, peer.qp_num, done.index)])
    device = world.simulation.nics["compute0"]
    device.unit.add(go.index, 1)
    steps = NicSteps(device)
    take(steps, "counter")
    assert not take(steps, "queue pair").progressed
    assert kinds(steps) == []
    peer.post_receive(0, 8)
    steps.stalled.clear()
    assert take(steps, "queue pair").progressed
    assert done.read() == (1, 0)
    steps.close()


def test_one_cell_is_looked_at_and_the_others_wait(world: World) -> None:
    nic = world["compute0"]
    counters = nic.counters("a", "b")
    stream = world.stream()
    for counter in counters:
        counter.trigger_after(stream)
    device = world.simulation.nics["compute0"]
    device.held = True
    world.simulation.run_until_idle()
    steps = NicSteps(device)
    options = steps.options()
    assert [step.key[1] for step in options] == ["doorbell", "doorbell"]
    touched = steps.take(options[1])
    assert [counter.success for counter in counters] == [0, 1]
    assert touched.counts == {("counter", "compute0", counters[1].index): 1}
    assert steps.options() == [Step(options[0].key, options[0].label)]
    steps.close()
