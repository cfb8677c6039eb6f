# SPDX-License-Identifier: Apache-2.0
"""What is told of races: which bytes, who, what order is missing, and how to get it."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field
from typing import Any

from nicemu.errors import counted


class RaceKind(enum.Enum):
    """What is wrong."""

    SOURCE_NOT_READY = "a source is not ordered before what fires its operation"
    SOURCE_OVERWRITTEN = "a source is overwritten before its operation was seen to end"
    LANDING_NOT_OBSERVED = "a landing buffer is used before its counter was observed"
    LANDING_REUSED = "a landing buffer is reused before those who use it are done"
    OVERLAPPING_OPERATIONS = "two operations are in flight on overlapping bytes"
    DEREGISTERED = "memory was deregistered under an operation"
    STREAM_NOT_SYNCHRONIZED = "work in a stream and other work use the same bytes in no order"


@dataclass(frozen=True, slots=True)
class Located:
    """An access, or what fires an operation: what it is, and where a user wrote it ("file:line")."""

    what: str
    place: str

    def __str__(self) -> str:
        return f"{self.what} at {short(self.place)}" if self.place else self.what


@dataclass(slots=True)
class Race:
    """Two accesses without an order.

    `nic`, `address`, `length_bytes`: the bytes that both touch; `memory` says where those were registered.
    `fired_by`: what fires the operation, `missing`: the order that is missing, `cure`: how to get it.
    `count`: how often these two met.
    """

    kind: RaceKind
    nic: str
    address: int
    length_bytes: int
    memory: str
    accesses: tuple[Located, Located]
    fired_by: tuple[Located, ...]
    missing: str
    cure: str
    count: int = 1

    def __str__(self) -> str:
        times = f", {self.count} times" if self.count > 1 else ""
        lines = [f"{self.kind.value}{times}"]
        lines.append(f"  bytes    {self.length_bytes} of {self.nic} at {self.address:#x}{self.memory}")
        lines += [f"  access   {access}" for access in self.accesses]
        lines += [f"  fired by {cause}" for cause in self.fired_by]
        lines.append(f"  missing  {self.missing}")
        lines.append(f"  cure     {self.cure}")
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """Return this as JSON-able data."""
        return {
            "kind": self.kind.name.lower(),
            "nic": self.nic,
            "address": self.address,
            "length_bytes": self.length_bytes,
            "accesses": [{"what": one.what, "place": one.place} for one in self.accesses],
            "fired_by": [{"what": one.what, "place": one.place} for one in self.fired_by],
            "missing": self.missing,
            "cure": self.cure,
            "count": self.count,
        }


@dataclass(slots=True)
class RaceReport:
    """All races that were found, and how much was seen.

    `lost`: events that NICs had no room to put down, `cut`: events past the limit, `contradictions`: orders
    that the logs contradict. If any is not 0, races may be missing, or be none.
    """

    races: list[Race] = field(default_factory=list)
    operations: int = 0
    declared: int = 0
    undeclared: int = 0
    lost: int = 0
    cut: int = 0
    contradictions: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether everything was seen that can be."""
        return not (self.lost or self.cut or self.contradictions)

    def __str__(self) -> str:
        found = counted(len(self.races), "race") if self.races else "no races"
        lines = [str(race) for race in self.races]
        lines.append(f"{found} found")
        lines.append(
            f"seen: operations {self.operations}, declared accesses of host and streams {self.declared}"
            " (view, reads=, writes=); what was not declared was not looked at"
        )
        if self.undeclared:
            lines.append(f"work in streams that did not say what it touches: {self.undeclared}")
        if self.lost:
            lines.append(
                f"incomplete: NICs had no room for {counted(self.lost, 'event')}; "
                "slow down, or run it shorter"
            )
        if self.cut:
            lines.append(f"incomplete: left out at the end, {counted(self.cut, 'event')}")
        if self.contradictions:
            lines.append(f"incomplete: {counted(self.contradictions, 'order')} that the logs contradict")
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """Return this as JSON-able data."""
        return {
            "races": [race.as_data() for race in self.races],
            "operations": self.operations,
            "declared_accesses": self.declared,
            "undeclared_stream_work": self.undeclared,
            "lost_events": self.lost,
            "cut_events": self.cut,
            "contradictions": self.contradictions,
        }


def short(place: str) -> str:
    """Return a place as seen from the working folder."""
    here = os.getcwd() + os.sep
    return place.removeprefix(here)
