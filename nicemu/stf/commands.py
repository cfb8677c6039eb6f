# SPDX-License-Identifier: Apache-2.0
"""The commands of an STF script as they are written: names not looked up, numbers without a width."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import TypeAlias

from nicemu.p4 import Location


@dataclass(frozen=True, slots=True)
class Word:
    """A name or a number, and where it stands."""

    text: str
    location: Location

    @property
    def is_whole(self) -> bool:
        """Whether a number says all the bits of its value: it is decimal, an address, or has a minus."""
        return self.text.isdigit() or self.is_address or self.is_negative

    @property
    def is_address(self) -> bool:
        """Whether a number is written as an IPv4 address."""
        return "." in self.text

    @property
    def is_negative(self) -> bool:
        """Whether a number has a minus."""
        return self.text.startswith("-")

    def number(self) -> int:
        """Return the value of a number without `*`: decimal, 0x, 0b or 0o, maybe with a minus; an address."""
        if self.is_address:
            return int(IPv4Address(self.text))
        digits = self.text.removeprefix("-")
        number = int(digits, 10 if digits.isdigit() else 0)
        return -number if self.is_negative else number


@dataclass(frozen=True, slots=True)
class KeyText:
    """What a key is compared with: `value`, or `value` and `second` joined by `joint`: / .. or &&&."""

    name: Word
    value: Word
    joint: str = ""
    second: Word | None = None


@dataclass(frozen=True, slots=True)
class ActionText:
    """An action with its arguments by name."""

    name: Word
    arguments: tuple[tuple[Word, Word], ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number: == != < <= > or >=."""

    operator: str
    number: int

    def holds(self, value: int) -> bool:
        """Return whether `value` satisfies it."""
        match self.operator:
            case "==":
                return value == self.number
            case "!=":
                return value != self.number
            case "<":
                return value < self.number
            case "<=":
                return value <= self.number
            case ">":
                return value > self.number
        return value >= self.number


# Packets


@dataclass(frozen=True, slots=True)
class Packet:
    """A frame comes in."""

    location: Location
    port: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Expect:
    """A frame is due: `nibbles` are hexadecimal digits or `*`, None for any frame; `exact` ends it there."""

    location: Location
    port: int
    nibbles: str | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class NoPacket:
    """Nothing has left, by any port, but what is expected so far."""

    location: Location


@dataclass(frozen=True, slots=True)
class Wait:
    """A second of virtual time passes."""

    location: Location


# Tables


@dataclass(frozen=True, slots=True)
class Add:
    """An entry; `handle` is the name that `check_counter` may know it by, "" for none."""

    location: Location
    table: Word
    priority: int | None
    keys: tuple[KeyText, ...]
    action: ActionText
    handle: str = ""


@dataclass(frozen=True, slots=True)
class SetDefault:
    """What a miss runs."""

    location: Location
    table: Word
    action: ActionText


@dataclass(frozen=True, slots=True)
class RemoveAll:
    """Every entry of every table goes, but those that are const in the program."""

    location: Location


# Extern objects


@dataclass(frozen=True, slots=True)
class CheckCounter:
    """A place of a counter, or the entry with a handle, is compared; without a condition it has to exist."""

    location: Location
    name: Word
    place: int | Word
    unit: str = "packets"
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class CounterRead:
    """A place of a counter is noted."""

    location: Location
    name: Word
    index: int


@dataclass(frozen=True, slots=True)
class CounterWrite:
    """A place of a counter is set."""

    location: Location
    name: Word
    index: int
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RegisterRead:
    """A place of a register is compared with a condition, or noted; without index all that were written."""

    location: Location
    name: Word
    index: int | None
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class RegisterWrite:
    """A place of a register is set."""

    location: Location
    name: Word
    index: int
    value: int


@dataclass(frozen=True, slots=True)
class RegisterReset:
    """Every place of a register is its zero again."""

    location: Location
    name: Word


@dataclass(frozen=True, slots=True)
class MeterRead:
    """The rates of a meter are noted."""

    location: Location
    name: Word
    index: int


@dataclass(frozen=True, slots=True)
class MeterWrite:
    """Rates in units a microsecond with bursts in units, the committed first; index None sets every place."""

    location: Location
    name: Word
    index: int | None
    rates: tuple[tuple[float, int], tuple[float, int]]


# Replication


@dataclass(frozen=True, slots=True)
class MirrorAdd:
    """A clone session that sends to a port, or to a multicast group."""

    location: Location
    session: int
    target: int
    is_group: bool = False


@dataclass(frozen=True, slots=True)
class MirrorDelete:
    """A clone session goes."""

    location: Location
    session: int


@dataclass(frozen=True, slots=True)
class MirrorRead:
    """Where a clone session sends is noted."""

    location: Location
    session: int


@dataclass(frozen=True, slots=True)
class GroupCreate:
    """A multicast group without nodes."""

    location: Location
    group: int


@dataclass(frozen=True, slots=True)
class NodeCreate:
    """A node: one copy to each port, with `rid`. Nodes are numbered 0, 1, 2 in the order of creation."""

    location: Location
    rid: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeAssociate:
    """A node joins a group."""

    location: Location
    group: int
    node: int


@dataclass(frozen=True, slots=True)
class NodeUpdate:
    """A node gets other ports."""

    location: Location
    node: int
    ports: tuple[int, ...]


Command: TypeAlias = (
    Packet
    | Expect
    | NoPacket
    | Wait
    | Add
    | SetDefault
    | RemoveAll
    | CheckCounter
    | CounterRead
    | CounterWrite
    | RegisterRead
    | RegisterWrite
    | RegisterReset
    | MeterRead
    | MeterWrite
    | MirrorAdd
    | MirrorDelete
    | MirrorRead
    | GroupCreate
    | NodeCreate
    | NodeAssociate
    | NodeUpdate
)
