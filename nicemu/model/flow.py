# SPDX-License-Identifier: Apache-2.0
"""Stages that transfers contend for: each serves one at a time, in the order in which they come.

A stage is busy until what it was given last has passed; a transfer needs one update a stage, however large it
is. Stages are pipelined by packets. For one transfer through idle stages this is the formula of `transfer_s`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class BusyStage:
    """A stage with its latency in seconds and its seconds a byte; `busy_s` is how long it worked in all."""

    name: str
    latency_s: float
    s_per_byte: float
    free_at_s: float = 0.0
    busy_s: float = 0.0


def send(now_s: float, length_bytes: int, stages: Sequence[BusyStage], packet_bytes: int) -> float:
    """Pass a transfer of so many bytes through stages from now on; return when its last byte is through.

    A stage starts with the first packet that the one before hands on, and ends no sooner than that one's last
    packet has passed it, too. It is free for others as soon as it has done its work: packets of other
    transfers fill the gaps that a slower stage in front of it leaves.
    """
    first = min(length_bytes, packet_bytes)
    head_s = tail_s = now_s
    for stage in stages:
        start_s = head_s if head_s > stage.free_at_s else stage.free_at_s
        work_s = length_bytes * stage.s_per_byte
        first_s = first * stage.s_per_byte
        stage.free_at_s = start_s + work_s
        stage.busy_s += work_s
        head_s = start_s + stage.latency_s + first_s
        tail_s = max(stage.free_at_s, tail_s + first_s) + stage.latency_s
    return tail_s
