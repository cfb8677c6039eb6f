# SPDX-License-Identifier: Apache-2.0
"""Frames through a program, and the count of what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from nicemu.pipeline import HOST_PORT, Disposition, Engine, LogMessage, Verdict

from .asked import Asked

HOST = "host"
"""Where frames for the host go, in place of a port's number."""

Hear: TypeAlias = Callable[[int, int, str], None]
"""Hears what the program logs: the time of the packet in nanoseconds, its port, the text."""


@dataclass(slots=True)
class Summary:
    """What has passed. A packet is dropped if nothing left for it; `out` counts frames by port, or HOST.

    `with_firmware` are packets that a program of a NIC has left to its firmware, of which there is none here,
    and `asked` is what else it has asked for; `cut` are those of which a capture has the beginning alone.
    """

    packets: int = 0
    bytes: int = 0
    out: Counter[int | str] = field(default_factory=Counter)
    with_firmware: int = 0
    cut: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    asked: Asked = field(default_factory=Asked)


class Forwarder:
    """An engine by itself: which frames leave for one that comes. `hear` is told what the program logs."""

    def __init__(self, engine: Engine, summary: Summary | None = None, hear: Hear | None = None) -> None:
        self._engine = engine
        self._hear = hear
        self.summary = Summary() if summary is None else summary

    def departures(self, frame: bytes, port: int, now_ns: int) -> list[tuple[int | str, bytes]]:
        """Return the frames that leave, each with its port or HOST, and count them."""
        summary = self.summary
        summary.packets += 1
        summary.bytes += len(frame)
        if self._engine.program is None:  # a controller has yet to bring it
            summary.dropped["switch.no_program"] += 1
            return []
        verdict = self._engine.process(frame, port, now_ns=now_ns)
        if self._hear is not None:
            for effect in verdict.effects:
                if isinstance(effect, LogMessage):
                    self._hear(now_ns, port, effect.text)
        return left_of(verdict, summary)


def left_of(verdict: Verdict, summary: Summary) -> list[tuple[int | str, bytes]]:
    """Return the frames that leave by a verdict, each with its port or HOST, and count them."""
    if verdict.disposition is Disposition.DROP:
        summary.dropped[verdict.drop_reason] += 1
    if verdict.limit:
        summary.dropped[verdict.limit] += 1
    if verdict.disposition is Disposition.FIRMWARE:
        summary.with_firmware += 1
    if verdict.effects:
        summary.asked.add(verdict.effects)
    left = departing(verdict)
    for to, _ in left:
        summary.out[to] += 1
    return left


def departing(verdict: Verdict) -> list[tuple[int | str, bytes]]:
    """Return the frames that leave by a verdict, each with its port or HOST.

    A controller's are the host's: a switch has no other way to it.
    """
    if verdict.disposition in (Disposition.DROP, Disposition.FIRMWARE):
        return []
    is_port = verdict.disposition is Disposition.PORT
    first: int | str = verdict.port if is_port else HOST
    return [(first, verdict.frame), *((HOST if to == HOST_PORT else to, copy) for to, copy in verdict.copies)]
