# SPDX-License-Identifier: Apache-2.0
"""Extern objects of a running program that lie in memory, where its kernel works on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from nicemu.pipeline import CounterArray, Layouts, MeterArray, Objects, Program, RegisterArray

from .kernel_arrays import KernelCounters, KernelRegisters
from .kernel_choices import watch
from .kernel_meters import KernelMeters
from .kernel_tables import KernelTable

Held: TypeAlias = KernelCounters | KernelMeters | KernelRegisters


def held_arrays(program: Program, objects: Objects) -> dict[int, Held]:
    """Put arrays in memory where the objects have others; return them by their externs' numbers.

    Raises: ResourceError if there is not so much memory; nothing has changed.
    """
    layouts, found = Layouts(program), {}
    for number, instance in enumerate(program.externs):
        made = _held(objects.states[instance.name], layouts)
        if made is not None:
            found[number] = made
    for number, array in found.items():
        objects.states[program.externs[number].name] = array
    return found


def _held(state: object, layouts: Layouts) -> Held | None:
    match state:
        case CounterArray():
            counters = KernelCounters(state.name, state.size)
            counters.others = state.others
            counters.counts.update(state.counts)
            return counters
        case RegisterArray():
            registers = KernelRegisters(state.name, state.size, state.type, layouts)
            registers.others = state.others
            registers.values.update(state.values)
            return registers
        case MeterArray():
            meters = KernelMeters(state.name, state.size, state.in_bytes)
            meters.others = state.others
            meters.meters.update(state.meters)
            return meters
    return None


def follow_profiles(tables: Iterable[KernelTable], objects: Objects) -> None:
    """Have tables hold what their action profiles are, from now on."""
    using = [table for table in tables if table.spec.profile]
    for name in {table.spec.profile for table in using}:
        watch(objects.states[name])
    for table in using:
        table.choices.follow(objects.states[table.spec.profile])
