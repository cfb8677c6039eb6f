# SPDX-License-Identifier: Apache-2.0
"""What becomes of the KV of a preempted sequence: computed again, swapped, or left to triggered NICs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from nicemu.model import BusyStage, Serving, send

from .sequence import Sequence

POLICIES: Final = ("recompute", "swap_pinned", "swap_pageable", "triggered")
"""The policies, by the names that `preemption_of` knows."""


@dataclass(frozen=True, slots=True)
class Move:
    """What moving KV costs: the GPU waits `gpu_s` for it, within the step; by `done_s` it has moved.

    A move that is done by the time at which it began, or within the step, has `done_s` None.
    """

    gpu_s: float = 0.0
    done_s: float | None = None


class Preemption(Protocol):
    """A policy. The scheduler asks it what a preemption costs, and what bringing a sequence back costs."""

    keeps_kv: bool
    """Whether a victim is resumed with its KV; if not, it is prefilled again."""

    def evict(self, now_s: float, victim: Sequence) -> Move:
        """Take the KV of a sequence out of GPU memory; its blocks are free when that is done."""
        ...

    def resume(self, now_s: float, sequence: Sequence) -> Move:
        """Bring the KV of a sequence back into the blocks that it holds; it runs when that is done."""
        ...

    def produced(self, start_s: float, tokens: int) -> None:
        """Take note that steps which began at a time have written the KV of so many tokens."""
        ...


class Recompute:
    """Forget the KV; the sequence is prefilled again, ahead of whoever waits, with what it has generated."""

    keeps_kv = False

    def evict(self, now_s: float, victim: Sequence) -> Move:
        """Cost nothing."""
        return Move()

    def resume(self, now_s: float, sequence: Sequence) -> Move:
        """Never asked: a prefill brings the sequence back."""
        raise AssertionError("a sequence without KV is prefilled, not resumed")

    def produced(self, start_s: float, tokens: int) -> None:
        """Keep nothing."""


class Swap:
    """Copy blocks to host memory and back, the GPU waiting. `memory` is pinned or pageable."""

    keeps_kv = True

    def __init__(self, serving: Serving, block_tokens: int, memory: str) -> None:
        self._serving, self._block_tokens, self._memory = serving, block_tokens, memory

    def evict(self, now_s: float, victim: Sequence) -> Move:
        """Copy out the blocks that it holds."""
        return Move(self._serving.swap_s(victim.blocks, self._block_tokens, self._memory))

    def resume(self, now_s: float, sequence: Sequence) -> Move:
        """Copy in the blocks that it holds now."""
        return Move(self._serving.swap_s(sequence.blocks, self._block_tokens, self._memory))

    def produced(self, start_s: float, tokens: int) -> None:
        """Keep nothing."""


class Triggered:
    """Bump a counter, and leave the rest to NICs and a remote store: the GPU goes on at once.

    With `write_through`, NICs send KV to the store as it is produced, so that a victim's blocks are free as
    soon as the NIC has caught up; without, they leave when the victim does, and drain at the link's rate. The
    NIC sends and fetches at the same time, each in the order in which it was asked.
    """

    keeps_kv = True

    def __init__(self, serving: Serving, write_through: bool) -> None:
        self._token_bytes = serving.kv_token_bytes
        self._fire_s = serving.server.number("offload.fire_s")
        self._write_through = write_through
        s_per_byte = 1 / serving.offload_bytes_per_s
        self._sends = BusyStage("send", 0.0, s_per_byte)
        self._fetches = BusyStage("fetch", serving.server.number("offload.request_s"), s_per_byte)
        self._stored_s: dict[int, float] = {}

    def evict(self, now_s: float, victim: Sequence) -> Move:
        """Fire; the blocks are free when all of their KV has left."""
        done_s = self._sends.free_at_s if self._write_through else self._send(now_s, victim.tokens)
        self._stored_s[victim.request.number] = done_s
        return Move(self._fire_s, done_s)

    def resume(self, now_s: float, sequence: Sequence) -> Move:
        """Fire; the sequence runs when its KV is back, which must first have left."""
        start_s = max(now_s, self._stored_s.pop(sequence.request.number))
        length_bytes = sequence.tokens * self._token_bytes
        return Move(self._fire_s, send(start_s, length_bytes, [self._fetches], length_bytes))

    def produced(self, start_s: float, tokens: int) -> None:
        """Send what was written, with write-through."""
        if self._write_through:
            self._send(start_s, tokens)

    def _send(self, now_s: float, tokens: int) -> float:
        length_bytes = tokens * self._token_bytes
        return send(now_s, length_bytes, [self._sends], length_bytes)


def preemption_of(name: str, serving: Serving, block_tokens: int, write_through: bool = True) -> Preemption:
    """Return a policy by its name, new, for one run."""
    match name:
        case "recompute":
            return Recompute()
        case "swap_pinned" | "swap_pageable":
            return Swap(serving, block_tokens, name.removeprefix("swap_"))
        case _:
            return Triggered(serving, write_through)
