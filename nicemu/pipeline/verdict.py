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
    """Where a frame goes; FIRMWARE means that it stays with the firmware event that it caused."""

    PORT = "port"
    HOST = "host"
    DROP = "drop"
    FIRMWARE = "firmware"


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
class DigestPosted:
    """Send `length_bits` bits of data to the control plane as digest `name` (extern function digest)."""

    name: str
    receiver: int
    length_bits: int
    number: int


@dataclass(frozen=True, slots=True)
class LogMessage:
    """What the program has logged (extern function log_msg)."""

    text: str


Effect: TypeAlias = CounterAdd | EventPosted | DigestPosted | LogMessage


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one frame.

    `frame` is the emitted headers and the payload behind the parsed ones; a dropped frame is as it came.
    `drop_reason` is "" unless the disposition is DROP. `effects` stand in the order in which they were asked
    for. `trace` is what happened, where it was asked for. `copies` are further frames, each with the port
    by which it leaves.
    """

    disposition: Disposition
    port: int
    frame: bytes
    drop_reason: str = ""
    effects: tuple[Effect, ...] = ()
    trace: tuple[Event, ...] = ()
    copies: tuple[tuple[int, bytes], ...] = ()
