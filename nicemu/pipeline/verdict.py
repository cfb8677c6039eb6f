# SPDX-License-Identifier: Apache-2.0
"""What the pipeline says about one frame: where it goes, what it looks like now, and what else is to
happen.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from .trace import Event


class Disposition(enum.Enum):
    """Where a frame goes; FIRMWARE means that it stays with the firmware event that it caused, CONTROLLER
    that it went to the controller.
    """

    PORT = "port"
    HOST = "host"
    DROP = "drop"
    FIRMWARE = "firmware"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class CounterAdd:
    """Add `value` to the success count of trigger counter `counter` (extern TriggerCounter)."""

    counter: int
    value: int


@dataclass(frozen=True, slots=True)
class EventPosted:
    """Post event `name` to the firmware, with the fields of its struct in order (extern FirmwareEvent)."""

    name: str
    fields: dict[str, int]


@dataclass(frozen=True, slots=True)
class WorkArmed:
    """Arm work that the firmware has prepared as `name`: it waits until trigger counter `counter` reaches
    `threshold` (extern DeferredWork).
    """

    name: str
    counter: int
    threshold: int


@dataclass(frozen=True, slots=True)
class DigestPosted:
    """Send `length_bits` bits of data to the control plane as digest `name` (extern function digest).

    `shape` is what the bits do not say, as `shape_of` has it.
    """

    name: str
    receiver: int
    length_bits: int
    number: int
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DigestConfig:
    """How digests of one name go to the controller: gathered for so long, so many in a list, and not again
    within the third time unless the list is acknowledged. `max_list_size` 0 is no limit.
    """

    max_timeout_ns: int = 0
    max_list_size: int = 0
    ack_timeout_ns: int = 0


@dataclass(frozen=True, slots=True)
class DigestReport:
    """A digest that the controller wants, and how."""

    digest: DigestPosted
    config: DigestConfig


@dataclass(frozen=True, slots=True)
class PacketIn:
    """A frame for the controller, which begins with the program's packet_in header."""

    frame: bytes


Report: TypeAlias = DigestReport | PacketIn
"""What goes to the controller by itself."""


@dataclass(frozen=True, slots=True)
class LogMessage:
    """What the program has logged (extern function log_msg)."""

    text: str


Effect: TypeAlias = CounterAdd | EventPosted | WorkArmed | DigestPosted | LogMessage


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one frame.

    `frame` is the emitted headers and the payload behind the parsed ones; a dropped frame is as it came.
    `drop_reason` is "" unless the disposition is DROP. `effects` stand in the order in which they were asked
    for. `trace` is what happened, where it was asked for. `copies` are further frames, each with the port
    by which it leaves. `limit` is why the engine has ended others, where one left: the first of its limits
    that was passed, "" for none.
    """

    disposition: Disposition
    port: int
    frame: bytes
    drop_reason: str = ""
    effects: tuple[Effect, ...] = ()
    trace: tuple[Event, ...] = ()
    copies: tuple[tuple[int, bytes], ...] = ()
    limit: str = ""
