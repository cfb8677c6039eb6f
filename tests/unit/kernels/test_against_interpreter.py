# SPDX-License-Identifier: Apache-2.0
"""Kernels compute what the interpreter computes: random programs, entries and packets through both."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.errors import ControlError
from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.pipeline import Engine, verify

from .random_programs import Generator

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")


def compare(seed: int, packets: int = 20) -> str:
    """Run one program both ways; return why it was interpreted, "" if it was compiled."""
    generator = Generator(seed)
    program = generator.program()
    verify(program)
    plain, fast = Engine(), CompiledEngine(optimised=False)
    plain.load(program)
    fast.load(program)
    if fast.kernel is None:
        return fast.interpreted_because
    for table in program.tables:
        missed = [engine.table(table.name).default_row() for engine in (plain, fast)]
        assert (missed[0].hits, missed[0].bytes) == (missed[1].hits, missed[1].bytes)
        for entry in generator.entries(table):
            for engine in (plain, fast):
                with contextlib.suppress(ControlError):  # a repeated entry, which both refuse
                    engine.insert(table.name, entry)
    for number in range(packets):
        if number % 7 == 0:
            for value_set in program.value_sets:
                members = generator.members(value_set)
                for engine in (plain, fast):
                    engine.objects.value_set(value_set.name).replace(members)
        frame, port = generator.packet(), generator.chance.getrandbits(16)
        expected = plain.process(frame, port, now_ns=number)
        found = fast.process(frame, port, now_ns=number)
        assert found == expected, f"seed {seed}, packet {number}: {frame.hex()}"
    assert fast.drops == plain.drops
    assert fast.tables() == plain.tables()
    for table in program.tables:
        missed = [engine.table(table.name).default_row() for engine in (plain, fast)]
        assert (missed[0].hits, missed[0].bytes) == (missed[1].hits, missed[1].bytes)
        for entry in plain.read(table.name):
            rows = [engine.row(table.name, entry.matches, entry.priority) for engine in (plain, fast)]
            assert (rows[0].hits, rows[0].bytes) == (rows[1].hits, rows[1].bytes)
    return ""


@settings(max_examples=4)  # each compiles a program
@given(st.integers(0, 1 << 32))
def test_a_random_program_does_the_same_to_any_packet(seed: int) -> None:
    assert compare(seed) == ""


@pytest.mark.slow
@settings(max_examples=80)  # a minute on a busy machine
@given(st.integers(0, 1 << 32))
def test_many_random_programs_do_the_same_to_any_packet(seed: int) -> None:
    assert compare(seed) == ""
