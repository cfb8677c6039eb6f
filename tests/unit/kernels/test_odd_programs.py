# SPDX-License-Identifier: Apache-2.0
"""Programs that few people write do the same on both engines: packets, copies, effects, and what is left.

Packets go one by one, some of them traced, and then many at once.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace

import pytest

from nicemu.errors import ControlError
from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import (
    CloneSession,
    Engine,
    Group,
    Member,
    MeterConfig,
    Program,
    Replica,
    TableEntry,
    ir,
)

from .odd_programs import Programs
from .random_programs import Generator
from .v1_programs import Engines, agree_in_batches, same_state

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 30))]
RATE = MeterConfig(2.0, 3, 5.0, 4)
BYTES = (0, 1, 2, 3, 7, 9, 200)
"""What programs compare with."""


def fill(engine: Engine, program: Program, seed: int) -> None:
    """Give an engine entries, members, groups and sessions at random, the same for a seed."""
    chance, feeder = random.Random(seed), Generator(seed)
    replicas = [Replica(port, rid) for port in (1, 2, 510) for rid in (0, 7)]
    for number in range(4):
        chosen = tuple(chance.sample(replicas, chance.randint(0, 3)))
        engine.objects.multicast_groups[number] = chosen
        engine.objects.clone_sessions[number] = CloneSession(chosen, chance.choice((0, 0, 5, 100)))
    for table in program.tables:
        names = [ref.action for ref in table.actions]
        feeder.actions = [action for action in program.actions if action.name in names]
        entries = feeder.entries(table)
        if table.profile:
            choices: list[Member | Group] = [*map(Member, range(4)), *_groups(engine, table, feeder)]
            entries = [
                TableEntry(entry.matches, "", (), entry.priority, choice=chance.choice(choices))
                for entry in entries
            ]
        for entry in entries:
            with contextlib.suppress(ControlError):  # a repeated entry, which both refuse
                engine.insert(table.name, entry)
        if table.meter:
            for row in engine.table(table.name).rows():
                row.meter.configure(RATE, 0)
    for value_set in program.value_sets:
        engine.objects.value_set(value_set.name).replace(feeder.members(value_set))


def _groups(engine: Engine, table: ir.Table, feeder: Generator) -> list[Group]:
    """Give a table's profile members; return what groups of them there are."""
    pool = engine.objects.profile(table.profile)
    for member in range(4):
        action = feeder.chance.choice(feeder.actions)
        pool.insert_member(member, ir.ActionCall(action.name, feeder.data(action)))
    if not table.selector_keys:
        return []
    pool.insert_group(1, ((3, 2), (0, 1), (2, 3)))
    pool.insert_group(2, ())
    return [Group(1), Group(1), Group(2)]


def loaded(text: str, seed: int, optimised: bool = False) -> Engines:
    """Return both engines, with the same in them."""
    program = compile_text(text).program
    cpu_port = (510, 5)[seed & 1]
    engines = Engine(7, cpu_port=cpu_port), CompiledEngine(7, optimised, cpu_port=cpu_port)
    for engine in engines:
        engine.load(program)
        fill(engine, program, seed)
    assert engines[1].interpreted_because == ""
    return engines


def frame_of(chance: random.Random) -> bytes:
    """Return bytes of which many are what programs compare with."""
    length = chance.choice((0, 3, 9, 10, 12, 14, 20, 30, 40, 50, 80))
    if chance.random() < 0.5:
        return chance.randbytes(length)
    return bytes(chance.choice((*BYTES, chance.randrange(256))) for _ in range(length))


def agree(text: str, seed: int, packets: int = 40, optimised: bool = False) -> None:
    """Send the same packets through both engines; compare all there is."""
    engines, chance = loaded(text, seed, optimised), random.Random(seed)
    plain, fast = engines
    for number in range(packets):
        frame, port = frame_of(chance), chance.choice((1, 2, 510, 600))
        now_ns, trace = number * chance.choice((1, 1000, 10**8)), chance.random() < 0.15
        expected = plain.process(frame, port, now_ns=now_ns)
        found = fast.process(frame, port, trace, now_ns)
        assert replace(found, trace=()) == expected, f"packet {number}: {frame.hex()}\n{text}"
        if expected.limit:  # of thousands of copies, one packet is enough
            packets = 0
            break
    same_state(engines)
    agree_in_batches(engines, seed, packets)


@pytest.mark.parametrize("seed", SEEDS)
def test_odd_programs_of_v1model_are_the_same_on_both_engines(seed: int) -> None:
    agree(Programs(seed).v1model(), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_odd_programs_of_the_smartnic_are_the_same_on_both_engines(seed: int) -> None:
    agree(Programs(seed).nic(), seed)
