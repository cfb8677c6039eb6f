# SPDX-License-Identifier: Apache-2.0
"""Whole runs of a workload under each preemption policy, and what one eviction costs by itself."""

from __future__ import annotations

from collections.abc import Sequence as Listed
from dataclasses import dataclass

from nicemu.model import Serving

from .limits import Limits
from .preemption import preemption_of
from .scheduler import Overhead, Scheduler, Step, StepKind
from .sequence import Request, Sequence


@dataclass(frozen=True, slots=True)
class Run:
    """What serving a workload under one policy came to. Times to first token and per token are means."""

    policy: str
    makespan_s: float
    overhead: Overhead
    generated_tokens: int
    ttft_s: float
    tpot_s: float
    steps: tuple[Step, ...]

    @property
    def tokens_per_s(self) -> float:
        """Tokens generated a second, from the first arrival that is possible to the last token."""
        return self.generated_tokens / self.makespan_s

    @property
    def prefills(self) -> int:
        """Steps that were prefills."""
        return sum(step.kind is StepKind.PREFILL for step in self.steps)

    @property
    def kv_use(self) -> float:
        """The mean share of the KV memory that was not free."""
        used = sum(
            (step.kv_use_start + step.kv_use_end) / 2 * (step.end_s - step.start_s) for step in self.steps
        )
        return used / self.makespan_s

    def as_data(self) -> dict[str, object]:
        """Return the figures, without the steps."""
        return {
            "policy": self.policy,
            "makespan_s": self.makespan_s,
            "tokens_per_s": self.tokens_per_s,
            "attributed_overhead_s": self.overhead.attributed_s,
            "marginal_overhead_s": self.overhead.marginal_s,
            "preemptions": self.overhead.preemptions,
            "moved_tokens": self.overhead.moved_tokens,
            "stalled_s": self.overhead.stalled_s,
            "prefills": self.prefills,
            "kv_use": self.kv_use,
            "ttft_s": self.ttft_s,
            "tpot_s": self.tpot_s,
        }


def serve(
    serving: Serving, requests: Listed[Request], policy: str, limits: Limits, write_through: bool = True
) -> Run:
    """Serve requests to the end under a policy. Raises: UsageError if one of them can never be served."""
    preemption = preemption_of(policy, serving, limits.block_tokens, write_through)
    scheduler = Scheduler(serving, requests, preemption, limits)
    steps = []
    while not scheduler.done:
        steps.append(scheduler.advance())
    served = scheduler.finished
    return Run(
        policy,
        scheduler.now_s,
        scheduler.overhead,
        sum(sequence.generated for sequence in served),
        sum(sequence.ttft_s for sequence in served) / len(served),
        sum(sequence.tpot_s for sequence in served) / len(served),
        tuple(steps),
    )


@dataclass(frozen=True, slots=True)
class Eviction:
    """One sequence out and back: what the GPU loses by it, and how long the sequence waits to be back."""

    policy: str
    tokens: int
    block_tokens: int
    gpu_s: float
    wait_s: float


def evict_once(
    serving: Serving, policy: str, tokens: int, block_tokens: int, write_through: bool
) -> Eviction:
    """Return what it costs to preempt a lone sequence of so many tokens, and to resume it at once."""
    preemption = preemption_of(policy, serving, block_tokens, write_through)
    victim = Sequence(Request(0, tokens, 1), blocks=-(-tokens // block_tokens))
    out = preemption.evict(0.0, victim)
    if not preemption.keeps_kv:
        prefill_s = serving.prefill_s([tokens])
        return Eviction(policy, tokens, block_tokens, out.gpu_s + prefill_s, prefill_s)
    asked_s = out.gpu_s if out.done_s is None else max(out.gpu_s, out.done_s)
    back = preemption.resume(asked_s, victim)
    wait_s = back.gpu_s if back.done_s is None else back.done_s - asked_s
    return Eviction(policy, tokens, block_tokens, out.gpu_s + back.gpu_s, wait_s)
