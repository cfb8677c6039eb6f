# SPDX-License-Identifier: Apache-2.0
"""What one step of a NIC touched, and whether the order of two steps matters.

Two steps are independent, and need not be tried in both orders, unless
- they move bytes that overlap, and one of them writes;
- they use the same thing, and one replaces it, or one counts it and the other reads it. Two counts commute;
- one makes what the other takes: a doorbell total, a ring entry, due work. That orders them, but the order
  is no choice.
Fired work needs the counts that made it due; `nicemu.testing` looks for other counts that could have.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TypeAlias

Thing: TypeAlias = tuple[str | int, ...]
"""A name for something that steps use: ("counter", "compute0", 3)."""

WHOLE_END = 1 << 64


class Use(enum.IntFlag):
    """How a step uses a thing."""

    READ = 1
    COUNT = 2
    WRITE = 4
    TAKE = 8
    MAKE = 16


_SEEN_BY_HOST = ("counter", "completions", "control")


@dataclass(frozen=True, slots=True)
class Step:
    """Something that can happen next. `key` names who would do it: steps of one key happen in order."""

    key: Thing
    label: str


@dataclass(frozen=True, slots=True)
class Bytes:
    """A range of a NIC's bus addresses that a step read or wrote."""

    nic: str
    start: int
    end: int
    is_written: bool


@dataclass(slots=True)
class Footprint:
    """What a step touched.

    `needs`: the counter that fired it, the threshold, the counter's value. `by_host`: the host goes on, and
    sees memory, counters and completions. `progressed`: something happened at all.
    """

    uses: dict[Thing, Use] = field(default_factory=dict)
    memory: list[Bytes] = field(default_factory=list)
    counts: dict[Thing, int] = field(default_factory=dict)
    needs: tuple[Thing, int, int] | None = None
    by_host: bool = False
    progressed: bool = True

    def use(self, how: Use, *thing: str | int) -> None:
        """Note that a thing was used."""
        self.uses[thing] = self.uses.get(thing, Use(0)) | how

    def count(self, amount: int, nic: str, counter: int) -> None:
        """Note that a counter was counted."""
        self.use(Use.COUNT, "counter", nic, counter)
        self.use(Use.COUNT, "counters", nic)
        self.counts["counter", nic, counter] = amount

    def move(self, nic: str, address: int, length_bytes: int, is_written: bool) -> None:
        """Note that bytes were read or written."""
        if length_bytes > 0:
            self.memory.append(Bytes(nic, address, address + length_bytes, is_written))

    def all_of(self, nic: str) -> None:
        """Note that a step may have touched anything of a NIC's control side, and any memory it reaches."""
        self.use(Use.WRITE, "control", nic)
        self.use(Use.READ, "counters", nic)
        self.move(nic, 0, WHOLE_END, True)

    @property
    def is_seen(self) -> bool:
        """Whether a host that goes on could see what the step did."""
        changed = Use.COUNT | Use.WRITE
        return any(piece.is_written for piece in self.memory) or any(
            how & changed and thing[0] in _SEEN_BY_HOST for thing, how in self.uses.items()
        )


def order_matters(one: Footprint, other: Footprint) -> bool:
    """Whether two steps do something else in the other order."""
    if one.by_host or other.by_host:
        return (one.by_host or one.is_seen) and (other.by_host or other.is_seen)
    fewer, more = (one.uses, other.uses) if len(one.uses) <= len(other.uses) else (other.uses, one.uses)
    for thing, how in fewer.items():
        with_it = more.get(thing)
        if with_it is None:
            continue
        plain, with_plain = how & ~(Use.MAKE | Use.TAKE), with_it & ~(Use.MAKE | Use.TAKE)
        if plain and with_plain and (plain | with_plain) not in (Use.READ, Use.COUNT):
            return True
    for piece in one.memory:
        for with_piece in other.memory:
            if (
                (piece.is_written or with_piece.is_written)
                and piece.nic == with_piece.nic
                and piece.start < with_piece.end
                and with_piece.start < piece.end
            ):
                return True
    return False


def makes_for(one: Footprint, other: Footprint) -> bool:
    """Whether `other` takes what `one` made."""
    return any(how & Use.TAKE and one.uses.get(thing, Use(0)) & Use.MAKE for thing, how in other.uses.items())


def are_independent(one: Footprint, other: Footprint) -> bool:
    """Whether two steps may swap places wherever they are neighbours."""
    if order_matters(one, other) or makes_for(one, other) or makes_for(other, one):
        return False
    for fired, counting in ((one, other), (other, one)):
        if fired.needs is not None and fired.needs[0] in counting.counts:
            return False
    return True
