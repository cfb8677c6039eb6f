# SPDX-License-Identifier: Apache-2.0
"""Words in registered memory that feed counters: what a kernel writes instead of ringing a doorbell."""

from __future__ import annotations

import numpy as np
import pytest

from nicemu.errors import NicemuError, UsageError
from nicemu.host import Memory
from nicemu.nic.arena import MAX_FOLLOWED
from tests.unit.nic.conftest import Bench


@pytest.fixture
def flags(bench: Bench) -> Memory:
    return bench.nic.allocate((8,), np.uint64)


def look(bench: Bench) -> None:
    bench.simulation.run_until(lambda: True, 0)
    bench.here.settle()


def test_every_step_of_a_word_counts_its_size(bench: Bench, flags: Memory) -> None:
    (tokens,) = bench.nic.counters("tokens")
    flags.array[0] = 5
    tokens.follow(bench.nic.register(flags)[0:8])
    look(bench)
    assert tokens.success == 0, "what it holds is where it starts from"
    flags.array[0] = 8
    look(bench)
    flags.array[0] = 9
    look(bench)
    assert tokens.success == 4


def test_a_flag_counts_once_when_it_gets_there(bench: Bench, flags: Memory) -> None:
    (layers,) = bench.nic.counters("layers")
    span = bench.nic.register(flags)
    for layer in range(8):
        layers.follow(span[8 * layer : 8 * layer + 8], at_least=3)
    for value in (1, 2, 3, 4, 100):
        flags.array[2] = value
        look(bench)
    assert layers.success == 1
    flags.array[:] = 7
    look(bench)
    assert layers.success == 8, "flag 2 went backwards, and had counted"
    assert bench.here.statistics()["flags.backwards"] == 1


def test_a_flag_that_is_there_already_counts_at_once(bench: Bench, flags: Memory) -> None:
    """As a threshold that is met already fires when it is armed: the kernel may have been quicker."""
    (ready,) = bench.nic.counters("ready")
    flags.array[0] = 5
    ready.follow(bench.nic.register(flags)[:8], at_least=4)
    look(bench)
    flags.array[0] = 6
    look(bench)
    assert ready.success == 1


def test_a_flag_fires_what_is_armed(bench: Bench, flags: Memory) -> None:
    ready, done = bench.nic.counters("ready", "done")
    ready.follow(bench.nic.register(flags)[:8], at_least=1)
    with bench.nic.program("behind a flag") as program:
        program.when(ready >= 1).add(done)
    program.arm()
    look(bench)
    assert done.success == 0
    flags.array[0] = 1
    look(bench)
    assert done.success == 1


def test_a_word_that_is_followed_no_more_counts_no_more(bench: Bench, flags: Memory) -> None:
    (tokens,) = bench.nic.counters("tokens")
    followed = tokens.follow(bench.nic.register(flags)[:8])
    flags.array[0] = 1
    look(bench)
    followed.close()
    flags.array[0] = 2
    look(bench)
    assert tokens.success == 1
    tokens.close()


def test_memory_and_counter_of_a_followed_word_are_taken_back_only_by_force(
    bench: Bench, flags: Memory
) -> None:
    (tokens,) = bench.nic.counters("tokens")
    span = bench.nic.register(flags)
    tokens.follow(span[:8])
    with pytest.raises(UsageError, match="EBUSY"):
        bench.nic.deregister(span)
    with pytest.raises(UsageError, match="EBUSY"):
        tokens.close()
    bench.nic.deregister(span, force=True)
    flags.array[0] = 9
    look(bench)
    assert tokens.success == 0
    tokens.close()


@pytest.mark.parametrize("part", [slice(0, 16), slice(4, 12), slice(0, 4)])
def test_a_word_is_8_aligned_bytes(bench: Bench, flags: Memory, part: slice) -> None:
    (tokens,) = bench.nic.counters("tokens")
    with pytest.raises(UsageError, match="8 bytes"):
        tokens.follow(bench.nic.register(flags)[part])


def test_a_process_follows_no_memory_of_another(bench: Bench) -> None:
    _, other = bench.open()
    theirs = other.register(other.allocate((8,)))
    (tokens,) = bench.nic.counters("tokens")
    with pytest.raises(NicemuError, match="not one of this process"):
        tokens.follow(theirs)
    other.close()


def test_words_that_can_be_followed_are_finite(bench: Bench) -> None:
    (tokens,) = bench.nic.counters("tokens")
    span = bench.nic.register(bench.nic.allocate((8 * MAX_FOLLOWED + 8,)))
    for place in range(MAX_FOLLOWED):
        tokens.follow(span[8 * place : 8 * place + 8])
    with pytest.raises(NicemuError, match="ENOSPC"):
        tokens.follow(span[8 * MAX_FOLLOWED :])


def test_the_write_back_entry_can_lie_in_registered_memory(bench: Bench, flags: Memory) -> None:
    """C15: moving it takes effect at once; a counter that is closed leaves it alone."""
    (tokens,) = bench.nic.counters("tokens")
    span = bench.nic.register(flags)
    tokens.add(3)
    tokens.publish_in(span)
    assert int(flags.array[0]) == 1 << 63 | 3
    tokens.add(2, errors=1)
    assert int(flags.array[0]) == 1 << 63 | 1 << 48 | 5
    assert flags.array[1:3].tolist() == [5, 1]
    with pytest.raises(UsageError, match="EBUSY"):
        bench.nic.deregister(span)
    tokens.close()
    bench.nic.deregister(span)
