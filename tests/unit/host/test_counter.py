# SPDX-License-Identifier: Apache-2.0
"""Counters of the host library: what they ring, follow, publish and read, and whose they are after a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nicemu.abi import Limits, Span
from nicemu.errors import UsageError
from nicemu.host import Counter, HostStream, Memory, Nic
from nicemu.nic import NicConfig
from nicemu.pcie import load_u64
from nicemu.run import Simulation


@pytest.fixture
def world() -> Simulation:
    stalling = Limits(slot_count=64, stall_on_error=True)
    return Simulation([NicConfig("near", "127.0.1.1"), NicConfig("stalling", "127.0.1.2", limits=stalling)])


@pytest.fixture
def nic(world: Simulation) -> Iterator[Nic]:
    with Nic(world.open_nic("near")) as nic:
        yield nic


@pytest.fixture
def words(nic: Nic) -> tuple[np.ndarray, Span]:
    memory = nic.allocate((16,), np.uint64)
    return memory.array, nic.register(memory)


def test_rings_of_several_threads_are_all_counted(nic: Nic, world: Simulation) -> None:
    (counter,) = nic.counters("counter")
    stream = HostStream()

    def ring() -> None:
        for _ in range(500):
            counter.trigger_after(stream)

    threads = [threading.Thread(target=ring) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream.synchronize()
    stream.close()
    world.run_until_idle()
    assert counter.success == 2000


def _fail() -> None:
    raise ArithmeticError("a kernel that fails")


@pytest.mark.parametrize("make", [lambda world: HostStream(), lambda world: world.stream()])
def test_a_ring_behind_a_kernel_that_failed_is_never_counted(
    nic: Nic, world: Simulation, make: Callable[[Simulation], HostStream]
) -> None:
    (counter,) = nic.counters("counter")
    stream = make(world)
    counter.trigger_after(stream)
    stream.submit(_fail)
    counter.trigger_after(stream, by=100)
    with pytest.raises(Exception, match="a kernel that fails"):
        stream.synchronize()
    counter.trigger_after(stream, by=2)
    stream.synchronize()
    stream.close()
    world.run_until_idle()
    assert counter.success == 3


def test_a_flag_that_is_followed_no_more_is_not_taken_for_another_one(
    nic: Nic, world: Simulation, words: tuple[np.ndarray, Span]
) -> None:
    array, span = words
    a, b, c = nic.counters("a", "b", "c")
    first = a.follow(span[0:8])
    first.close()
    second = b.follow(span[8:16])
    first.close()
    array[1] = 2
    world.run_until_idle()
    assert b.success == 2
    b.close(force=True)
    c.follow(span[16:24])
    second.close()
    array[2] = 3
    world.run_until_idle()
    assert c.success == 3


def test_a_flag_whose_key_was_taken_back_is_not_taken_for_another_one(nic: Nic, world: Simulation) -> None:
    (a,) = nic.counters("a")
    old = nic.register(nic.allocate((8,)))
    followed = a.follow(old)
    nic.deregister(old, force=True)
    memory = nic.allocate((1,), np.uint64)
    a.follow(nic.register(memory))
    followed.close()
    memory.array[0] = 4
    world.run_until_idle()
    assert a.success == 4


def test_the_next_count_is_of_successes_where_errors_fire_nothing(world: Simulation) -> None:
    with Nic(world.open_nic("stalling")) as nic:
        (a,) = nic.counters("a")
        a.add(2, 3)
        assert a.next(1).threshold == 3


def test_a_counter_is_read_where_it_is_published(
    nic: Nic, world: Simulation, words: tuple[np.ndarray, Span]
) -> None:
    array, span = words
    (a,) = nic.counters("a")
    a.add(2)
    a.publish_in(span[64:128])
    a.add(3, 1)
    assert (a.read(), int(array[9]), a.next(1).threshold) == ((5, 1), 5, 7)
    a.wait(5)
    stream, reached = world.stream(), []
    a.wait_on(stream, 5)
    stream.submit(lambda: reached.append(True))
    stream.synchronize()
    assert reached == [True]
    nic.deregister(span, force=True)
    a.add(1)
    assert a.read() == (6, 1), "it is published in the BAR again"


def test_a_counter_that_is_published_where_nobody_here_looks_says_so(
    nic: Nic, monkeypatch: pytest.MonkeyPatch, words: tuple[np.ndarray, Span]
) -> None:
    (a,) = nic.counters("a")
    monkeypatch.setattr(nic, "mapped", lambda span: None)
    a.publish_in(words[1][0:64])
    with pytest.raises(UsageError, match="counter a is published in memory that this process does not read"):
        a.read()


def test_a_process_that_was_forked_is_refused_and_disturbs_nothing(nic: Nic) -> None:
    counter, memory, stream = _of_the_parent(nic)
    pid = os.fork()
    if pid == 0:
        os._exit(_refusals(nic, counter, memory, stream))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    counter.add(2)
    stream.synchronize()
    stream.close()
    assert counter.read() == (2, 0)
    assert load_u64(memory.shared.address) == 0


def _of_the_parent(nic: Nic) -> tuple[Counter, Memory, HostStream]:
    return nic.counters("counter")[0], nic.allocate((8,)), HostStream()


def _refusals(nic: Nic, counter: Counter, memory: Memory, stream: HostStream) -> int:
    """Return how many calls are refused in words."""
    calls: list[Callable[[], object]] = [
        counter.add,
        lambda: nic.register(memory),
        lambda: nic.completions.poll(1),
        lambda: counter.wait(1),
        stream.synchronize,
    ]
    refused = 0
    for call in calls:
        try:
            call()
        except UsageError as error:
            refused += "forked from" in str(error)
    nic.close()
    stream.close()
    return refused
