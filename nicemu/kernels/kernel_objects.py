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
        made = _reserved(objects.states[instance.name], layouts)
        if made is not None:
            found[number] = made
    for number, array in found.items():
        name = program.externs[number].name
        _fill(array, objects.states[name])
        objects.states[name] = array
    return found


def _reserved(state: object, layouts: Layouts) -> Held | None:
    """Return an empty array in memory in place of one of an object."""
    match state:
        case CounterArray():
            return KernelCounters(state.name, state.size)
        case RegisterArray():
            return KernelRegisters(state.name, state.size, state.type, layouts)
        case MeterArray():
            return KernelMeters(state.name, state.size, state.in_bytes)
    return None


def _fill(array: Held, state: CounterArray | MeterArray | RegisterArray) -> None:
    """Put into an array what the one before it holds; meters move."""
    match array, state:
        case KernelCounters(), CounterArray():
            array.others = state.others
            array.counts.update(state.counts)
        case KernelRegisters(), RegisterArray():
            array.others = state.others
            array.values.update(state.values)
        case KernelMeters(), MeterArray():
            array.others = state.others
            array.meters.update(state.meters)


def follow_profiles(tables: Iterable[KernelTable], objects: Objects) -> None:
    """Have tables hold what their action profiles are, from now on."""
    using = [table for table in tables if table.spec.profile]
    for name in {table.spec.profile for table in using}:
        watch(objects.states[name])
    for table in using:
        table.choices.follow(objects.states[table.spec.profile])
