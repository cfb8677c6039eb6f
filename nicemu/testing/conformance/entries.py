# SPDX-License-Identifier: Apache-2.0
"""Cases of the trigger table: how many entries there are, what takes one, what gives it back.

Source: fi_cxi(7), "Triggered Operation"; Portals 4.3, "PtlNIInit" (max_triggered_ops).
"""

from __future__ import annotations

from contextlib import ExitStack

from nicemu.abi import AtomicOperation, DeferredWork, Opcode, ProgramTarget, Step, TargetCounter
from nicemu.errors import ResourceError

from .bench import Bench, poll_counter, rest
from .case import case
from .refusal import refused

PORTALS_ENTRIES = 256
"""Entries where the table is filled with every kind of work, so that it takes no longer than it must."""


def _add(trigger: TargetCounter, threshold: int, target: TargetCounter) -> DeferredWork:
    return DeferredWork(trigger.index, threshold, Opcode.COUNTER_ADD, target=target.index, value=1)


@case("R19", "C17")
def there_are_entries(bench: Bench) -> None:
    """A target says how many entries it has, and has them."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    assert bench.nic.limits.host_slots > 0
    count = min(64, bench.nic.limits.host_slots)
    bench.nic.arm([_add(trigger, 1, fired)] * count)
    trigger.add()
    poll_counter(bench, fired, count)


@case("R19", "R39", "C8", service_slots=64)
def a_full_table_is_said_and_a_flush_empties_it(bench: Bench) -> None:
    """64 entries are armed, the 65th is refused; after a flush 64 are armed again."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    for _ in range(3):
        for _ in range(64):
            bench.nic.arm([_add(trigger, 1, fired)])
        with refused("ENOSPC"):
            bench.nic.arm([_add(trigger, 1, fired)])
        assert bench.nic.flush() == 64


def _fill(nic: ProgramTarget, trigger: TargetCounter, most: int) -> int:
    """Arm until the table is full, or `most`; return how many were armed."""
    armed = 0
    for count in (50, 10, 1):
        try:
            while armed + count <= most:
                nic.arm([_add(trigger, 1, trigger)] * count)
                armed += count
        except ResourceError:
            continue
    return armed


@case("R19", "R39", "C9", profile="cassini")
def processes_share_the_entries(bench: Bench) -> None:
    """Five processes, four times over, never arm more than the service's 504 entries together."""
    with ExitStack() as stack:
        nics = [bench.nic, *(stack.enter_context(bench.another()) for _ in range(4))]
        triggers = [nic.counters("trigger")[0] for nic in nics]
        for turn in range(4):
            armed = [_fill(nic, one, 150) for nic, one in zip(nics, triggers, strict=True)]
            assert armed == [150, 150, 150, 54, 0]
            freed = nics[turn].flush()
            assert freed == armed[turn]
            assert _fill(nics[4], triggers[4], 300) == freed
            for nic in nics:
                nic.flush()


@case("R19", "R23", "C25", profile="portals", slot_count=PORTALS_ENTRIES)
def a_full_table_of_any_kind_of_work_fires_at_one_count(bench: Bench) -> None:
    """For every kind of work: the table is filled, the next is refused, one count fires all."""
    old, place = bench.local[0:8], bench.remote[0:8]

    def write(step: Step, then: TargetCounter) -> None:
        step.write(old, place, then=then)

    def read(step: Step, then: TargetCounter) -> None:
        step.read(old, place, then=then)

    def atomic(step: Step, then: TargetCounter) -> None:
        step.atomic(AtomicOperation.SUM, place, 1, then=then)

    def fetch(step: Step, then: TargetCounter) -> None:
        step.fetch_add(old, place, 1, then=then)

    def swap(step: Step, then: TargetCounter) -> None:
        step.compare_swap(old, place, 0, 1, then=then)

    for number, kind in enumerate((write, read, atomic, fetch, swap)):
        trigger, done = bench.nic.counters(f"trigger{number}", f"done{number}")
        with bench.nic.program(kind.__name__) as program:
            for _ in range(PORTALS_ENTRIES):
                kind(program.when(trigger >= 1), done)
        program.arm()
        with refused("ENOSPC"):
            bench.nic.arm([_add(trigger, 1, done)])
        trigger.add()
        poll_counter(bench, done, PORTALS_ENTRIES)


@case("R19", "R36", profile="cassini", service_slots=8, inside=True)
def every_kind_of_work_takes_an_entry(bench: Bench) -> None:
    """Data operations, counter operations and forced write-backs take an entry each, and give it back."""
    assert bench.inside is not None
    trigger, done = bench.nic.counters("trigger", "done")
    nic = bench.inside.nic
    with bench.nic.program("five entries") as program:
        program.when(trigger >= 1).write(bench.local[0:8], bench.remote[0:8], then=trigger, write_back=True)
        program.when(trigger >= 1).read(bench.local[0:8], bench.remote[0:8], then=done)
        program.when(trigger >= 3).add(done)
        program.when(trigger >= 3).set(done, 7)
    assert program.entries == 5
    program.arm()
    assert nic.slots_free == 3
    trigger.add()
    rest(bench)
    assert nic.slots_free == 6
    trigger.add()
    rest(bench)
    assert nic.slots_free == 8


@case("R23", "R19", slot_count=16)
def an_entry_is_free_when_its_work_has_fired(bench: Bench) -> None:
    """A table of 16 entries fires any number of operations, 16 at a time."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    for turn in range(1, 9):
        bench.nic.arm([_add(trigger, turn, fired)] * 16)
        trigger.add()
        poll_counter(bench, fired, 16 * turn)


@case("R20", "R19", slot_count=16, inside=True)
def a_window_arms_a_long_program_piece_by_piece(bench: Bench) -> None:
    """A program far longer than the table fires whole through a window of it."""
    assert bench.inside is not None
    trigger, fired = bench.nic.counters("trigger", "fired")
    with bench.inside.nic.program("long") as program:
        for number in range(200):
            program.when(trigger >= number + 1).add(fired)
    with refused("ENOSPC"):
        program.arm()
    program.window(4)
    assert bench.inside.slots_in_use() == 4
    trigger.add(200)
    poll_counter(bench, fired, 200)
    assert bench.inside.slots_in_use() == 0
