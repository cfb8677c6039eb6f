# SPDX-License-Identifier: Apache-2.0
"""What people write by mistake is refused with a sentence, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nicemu.abi import Limits
from nicemu.errors import UsageError
from nicemu.host import HostStream, Nic
from nicemu.nic import NicConfig
from nicemu.run import Simulation


@pytest.fixture
def world() -> Simulation:
    configs = [NicConfig("near", "127.0.1.1"), NicConfig("far", "127.0.1.2")]
    return Simulation([*configs, NicConfig("slingshot", "127.0.1.3", limits=Limits.named("cassini"))])


@pytest.fixture
def nic(world: Simulation) -> Iterator[Nic]:
    with Nic(world.open_nic("near")) as nic:
        yield nic


def test_a_counter_of_another_nic_is_not_taken_for_the_one_with_its_number(
    world: Simulation, nic: Nic
) -> None:
    near, other = nic.counters("near", "other")
    with Nic(world.open_nic("far")) as far_nic:
        (far,) = far_nic.counters("far")
        with nic.program("mixed") as program:
            with pytest.raises(UsageError, match="counter far is another NIC's"):
                program.when(near >= 1).add(far)
            with pytest.raises(UsageError, match="counter far is another NIC's"):
                program.when(far >= 1).add(near)
        with pytest.raises(UsageError, match="another NIC's"):
            nic.cancel_counter(far)
    assert program.work == []
    assert other.read() == (0, 0)


@pytest.mark.parametrize("by", [-1, 1.5, 1 << 64, "1", None])
def test_a_ring_that_counts_no_number_rings_nothing(world: Simulation, nic: Nic, by: object) -> None:
    (counter,) = nic.counters("counter")
    stream = world.stream()
    counter.trigger_after(stream, by=2)
    with pytest.raises(UsageError, match="EINVAL"):
        counter.trigger_after(stream, by=by)  # type: ignore[arg-type]
    counter.trigger_after(stream)
    world.run_until_idle()
    assert counter.success == 3


def test_two_conditions_do_not_make_one(nic: Nic) -> None:
    a, b = nic.counters("a", "b")
    with nic.program("both") as program, pytest.raises(UsageError, match="one step has one condition"):
        program.when(a >= 1 and b >= 1).add(a)


@pytest.mark.parametrize("count", [0, -1, 1.5, "1"])
def test_the_next_count_is_in_the_future(nic: Nic, count: object) -> None:
    (a,) = nic.counters("a")
    with pytest.raises(UsageError, match="EINVAL"):
        a.next(count)  # type: ignore[arg-type]


def test_numpy_s_whole_numbers_are_thresholds(nic: Nic) -> None:
    (a,) = nic.counters("a")
    with nic.program("numpy") as program:
        program.when(a >= np.int64(5)).add(a)  # type: ignore[arg-type]
    assert program.work[0].threshold == 5


@pytest.mark.parametrize("value", [1.5, -1, "x"])
def test_a_count_is_a_whole_number(nic: Nic, value: object) -> None:
    (a,) = nic.counters("a")
    with nic.program("count") as program, pytest.raises(UsageError, match="unsigned count"):
        program.when(a >= 1).add(a, value)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is no counter"):
        program.when(a >= 1).add(3)  # type: ignore[arg-type]


def test_a_refusal_says_which_operation_and_why(world: Simulation) -> None:
    with Nic(world.open_nic("slingshot")) as nic:
        (a,) = nic.counters("a")
        span = nic.register(nic.allocate((64,)))
        with nic.program("wrong for Cassini") as program:
            program.when(a >= 1).add(a)
            program.when(a >= 5).receive(span, 1)
        with pytest.raises(UsageError, match=r"2 operations cannot be armed; nothing was \(error \[R21\]"):
            program.arm()


def test_a_closed_stream_takes_no_work_and_waits_for_nobody() -> None:
    stream = HostStream()
    stream.close()
    stream.close()
    for call in (stream.synchronize, lambda: stream.submit(int), lambda: stream.launch("kernel")):
        with pytest.raises(UsageError, match="the stream is closed"):
            call()
