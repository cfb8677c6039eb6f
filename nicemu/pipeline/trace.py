# SPDX-License-Identifier: Apache-2.0
"""What happened to a packet, step by step, as events.

A value in an event is what JSON has: a number, true or false, the name of an error, an object for a struct or
a valid header, null for an invalid header, a list for a stack. That of an enum is an EnumNumber.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


class EnumNumber(int):
    """The number of a member of an enum, with its name; packets have the number if it is `serializable`."""

    name: str
    serializable: bool

    def __new__(cls, number: int, name: str, serializable: bool) -> EnumNumber:
        """Return the number of a member called `name`."""
        made = super().__new__(cls, number)
        made.name, made.serializable = name, serializable
        return made


# Parser


@dataclass(frozen=True, slots=True)
class StateEntered:
    """The parser is in a state."""

    state: str


@dataclass(frozen=True, slots=True)
class HeaderExtracted:
    """A header was read at a byte of the frame; without fields where there is no such element of a stack."""

    header: str
    at_byte: int
    length_bytes: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Advanced:
    """The parser stepped over bytes of the frame, up to `to_byte`."""

    length_bytes: int
    to_byte: int


@dataclass(frozen=True, slots=True)
class Verified:
    """A verify: where the condition does not hold, the packet is rejected with the error."""

    condition: str
    holds: bool
    error: str


@dataclass(frozen=True, slots=True)
class Selected:
    """A select: the keys, the case that fits them as it is written (None: there is none), and its state."""

    keys: Mapping[str, Any]
    case: str | None
    state: str | None


@dataclass(frozen=True, slots=True)
class ParserRejected:
    """The parser refuses the packet."""

    error: str
    at_byte: int


# Controls


@dataclass(frozen=True, slots=True)
class BlockEntered:
    """The parser or a control begins, in its role in the architecture."""

    role: str
    name: str


@dataclass(frozen=True, slots=True)
class Branched:
    """The condition of an if."""

    condition: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Switched:
    """The subject of a switch over values."""

    subject: str
    value: Any


@dataclass(frozen=True, slots=True)
class EntryText:
    """An entry, its matches as people write them. `choice` is the member or group of its action profile."""

    matches: Mapping[str, str]
    priority: int
    choice: str
    action: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NearMiss:
    """An entry that nearly matched, and the keys that it missed."""

    entry: EntryText
    missed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableApplied:
    """A table was looked up: `entry` is None for a miss, which has the nearest entries.

    `action` is what runs; "" for a group without members. `absent` are keys that are 0 because their headers
    are not valid.
    """

    table: str
    keys: Mapping[str, Any]
    entry: EntryText | None
    action: str
    parameters: Mapping[str, Any]
    nearest: tuple[NearMiss, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Called:
    """An action, a function or a control of the program runs with these parameters."""

    kind: str
    name: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A place got a value."""

    place: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class ValidityChanged:
    """A header became valid or invalid, or was told to be what it is."""

    header: str
    old: bool
    new: bool


@dataclass(frozen=True, slots=True)
class StackMoved:
    """Elements of a stack were pushed or popped."""

    stack: str
    count: int
    front: bool


@dataclass(frozen=True, slots=True)
class ExternCalled:
    """An extern function or method with its arguments; null stands for one that is only written.

    What it writes follows as assignments. `returned` is null where it returns nothing.
    """

    name: str
    arguments: tuple[Any, ...]
    returned: Any = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Exited:
    """The control ended by exit."""


@dataclass(frozen=True, slots=True)
class HeaderEmitted:
    """A valid header was appended to the frame that leaves."""

    header: str
    fields: Mapping[str, Any]


# Between the blocks


@dataclass(frozen=True, slots=True)
class IngressBegun:
    """A frame comes in, or comes again: `why` is "", "resubmitted" or "recirculated"."""

    port: int
    length_bytes: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class EgressBegun:
    """A packet is on its way to a port; `rid` is that of its replica."""

    port: int
    rid: int = 0


@dataclass(frozen=True, slots=True)
class Cloned:
    """A clone was asked for, for a session with these ports; None if there is no such session."""

    session: int
    ports: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Replicated:
    """A packet goes to a multicast group with these ports."""

    group: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SentAgain:
    """A packet is to be resubmitted or recirculated."""

    how: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """A packet ends here."""

    reason: str


@dataclass(frozen=True, slots=True)
class Departed:
    """A frame leaves: `where` is port, host or firmware, `port` a number for a port."""

    where: str
    port: int
    frame: bytes = field(repr=False)


Event: TypeAlias = (
    StateEntered
    | HeaderExtracted
    | Advanced
    | Verified
    | Selected
    | ParserRejected
    | BlockEntered
    | Branched
    | Switched
    | TableApplied
    | Called
    | Assigned
    | ValidityChanged
    | StackMoved
    | ExternCalled
    | Exited
    | HeaderEmitted
    | IngressBegun
    | EgressBegun
    | Cloned
    | Replicated
    | SentAgain
    | Dropped
    | Departed
)
