# SPDX-License-Identifier: Apache-2.0
"""Stages that transfers contend for: each serves one at a time, in the order in which they come.

A stage knows until when it has work, and the gaps before that in which what it works at has not come yet; a
transfer needs one update a stage, however large it is. Stages are pipelined by packets. For one transfer
through idle stages this is the formula of `transfer_s`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_GAPS: Final = 64
"""So many idle times before the end of its work a stage knows; the earliest are forgotten."""


@dataclass(slots=True)
class BusyStage:
    """A stage with its latency in seconds and its seconds a byte; `busy_s` is how long it worked in all.

    It has work until `free_at_s`, but for the gaps: times before that, from and to, in which it is idle
    because what it works at then comes no sooner.
    """

    name: str
    latency_s: float
    s_per_byte: float
    free_at_s: float = 0.0
    busy_s: float = 0.0
    gaps: list[tuple[float, float]] = field(default_factory=list)

    def book(self, now_s: float, ready_s: float, work_s: float) -> tuple[float, float]:
        """Take work that is ready at some time, now or later; return when it begins and when it is done.

        It goes into the gaps after that, and what they do not hold behind all other work.
        """
        self.busy_s += work_s
        if ready_s >= self.free_at_s:
            idle_from_s = self.free_at_s if self.free_at_s > now_s else now_s
            if ready_s > idle_from_s:
                self.gaps = [gap for gap in self.gaps if gap[1] > now_s][1 - _GAPS :]
                self.gaps.append((idle_from_s, ready_s))
            self.free_at_s = ready_s + work_s
            return ready_s, self.free_at_s
        if not self.gaps:
            start_s = self.free_at_s
            self.free_at_s += work_s
            return start_s, self.free_at_s
        return self._fill(now_s, ready_s, work_s)

    def _fill(self, now_s: float, ready_s: float, work_s: float) -> tuple[float, float]:
        left_s, start_s, end_s = work_s, -1.0, ready_s
        kept: list[tuple[float, float]] = []
        for begin_s, until_s in self.gaps:
            if until_s <= now_s:
                continue
            from_s = begin_s if begin_s > ready_s else ready_s
            if left_s <= 0 or from_s >= until_s:
                kept.append((begin_s, until_s))
                continue
            taken_s = min(left_s, until_s - from_s)
            left_s = left_s - taken_s if taken_s < left_s else 0.0
            start_s = from_s if start_s < 0 else start_s
            end_s = from_s + taken_s
            if begin_s < from_s:
                kept.append((begin_s, from_s))
            if end_s < until_s:
                kept.append((end_s, until_s))
        self.gaps = kept[-_GAPS:]
        if left_s > 0:
            start_s = self.free_at_s if start_s < 0 else start_s
            self.free_at_s += left_s
            end_s = self.free_at_s
        return start_s, end_s


def send(now_s: float, length_bytes: int, stages: Sequence[BusyStage], packet_bytes: int) -> float:
    """Pass a transfer of so many bytes through stages from now on; return when its last byte is through.

    A stage starts with the first packet that the one before hands on, and ends no sooner than that one's last
    packet has passed it, too. It is free for others as soon as it has done its work: packets of other
    transfers fill the gaps that a slower stage in front of it leaves. Until the first packet comes it is free
    as well, for transfers that reach it sooner. No transfer may begin before one that was sent already.
    """
    first = min(length_bytes, packet_bytes)
    head_s = tail_s = now_s
    for stage in stages:
        first_s = first * stage.s_per_byte
        start_s, end_s = head_s, head_s
        if first_s:
            start_s, end_s = stage.book(now_s, head_s, length_bytes * stage.s_per_byte)
        head_s = start_s + stage.latency_s + first_s
        tail_s = max(end_s, tail_s + first_s) + stage.latency_s
    return tail_s
