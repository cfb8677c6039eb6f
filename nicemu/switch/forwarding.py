# SPDX-License-Identifier: Apache-2.0
"""Frames through a program, and the count of what became of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from nicemu.pipeline import HOST_PORT, Disposition, Engine

HOST = "host"
"""Where frames for the host go, in place of a port's number."""


@dataclass(slots=True)
class Summary:
    """What has passed. A packet is dropped if nothing left for it; `out` counts frames by port, or HOST.

    `with_firmware` are packets that a program of a NIC has left to its firmware, of which there is none here.
    """

    packets: int = 0
    bytes: int = 0
    out: Counter[int | str] = field(default_factory=Counter)
    with_firmware: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


class Forwarder:
    """An engine by itself: which frames leave for one that comes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.summary = Summary()

    def departures(self, frame: bytes, port: int, now_ns: int) -> list[tuple[int | str, bytes]]:
        """Return the frames that leave, each with its port or HOST, and count them."""
        summary = self.summary
        summary.packets += 1
        summary.bytes += len(frame)
        verdict = self._engine.process(frame, port, now_ns=now_ns)
        if verdict.disposition is Disposition.DROP:
            summary.dropped[verdict.drop_reason] += 1
            return []
        if verdict.disposition is Disposition.FIRMWARE:
            summary.with_firmware += 1
            return []
        first: int | str = HOST if verdict.disposition is Disposition.HOST else verdict.port
        left: list[tuple[int | str, bytes]] = [(first, verdict.frame)]
        left += [(HOST if to == HOST_PORT else to, copy) for to, copy in verdict.copies]
        for to, _ in left:
            summary.out[to] += 1
        return left
