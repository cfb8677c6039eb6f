# SPDX-License-Identifier: Apache-2.0
"""A serving engine's scheduler with paged KV, in modelled time.

It follows vLLM's first scheduler. Prefills go first, unless a sequence is swapped out. A decode step that
lacks a block preempts the sequence that came last; one that preempts none brings swapped sequences back, by
arrival. Who comes in leaves a watermark of blocks free; a lone sequence may have those, too.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from nicemu.model import Serving

from .block_pool import BlockPool
from .limits import Limits
from .preemption import Preemption
from .sequence import Request, Sequence


class StepKind(StrEnum):
    """What a step did."""

    PREFILL = "prefill"
    DECODE = "decode"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Step:
    """One step, or `count` decode steps of the same sequences, with the use of KV memory at both ends."""

    kind: StepKind
    count: int
    start_s: float
    end_s: float
    sequences: int
    prompt_tokens: int
    generated_tokens: int
    kv_use_start: float
    kv_use_end: float

    @property
    def tokens_per_s(self) -> float:
        """Tokens read and generated a second."""
        length_s = self.end_s - self.start_s
        return (self.prompt_tokens + self.generated_tokens) / length_s if length_s else 0.0


@dataclass(slots=True)
class Overhead:
    """What preemptions cost so far.

    `attributed_s` is the time of every prefill that resumes a sequence, new prompts in its batch included,
    and of every copy: what published comparisons count. `marginal_s` is what the GPU would have saved without
    preemptions. `stalled_s` adds up how long sequences stood preempted; `moved_tokens` were computed again,
    or went out.
    """

    attributed_s: float = 0.0
    marginal_s: float = 0.0
    stalled_s: float = 0.0
    preemptions: int = 0
    moved_tokens: int = 0

    def copies(self, gpu_s: float) -> None:
        """Count the time that a GPU waits for KV to move."""
        self.attributed_s += gpu_s
        self.marginal_s += gpu_s


class Scheduler:
    """Serves requests, one `advance` a step, until `done`. Time is in seconds from the first.

    `preemption` is for this run alone: a policy remembers what its NIC is about. Raises: UsageError if a
    request can never be served within the limits.
    """

    def __init__(
        self, serving: Serving, requests: Iterable[Request], preemption: Preemption, limits: Limits
    ) -> None:
        self.now_s = 0.0
        self.limits, self.pool, self.overhead = limits, BlockPool(limits.blocks), Overhead()
        self.waiting = deque(sorted(map(Sequence, requests), key=_order))
        self.running: list[Sequence] = []
        self.swapped: list[Sequence] = []
        self.fetching: list[tuple[float, Sequence]] = []
        self.finished: list[Sequence] = []
        self._serving, self._preemption = serving, preemption
        for sequence in self.waiting:
            limits.check_fits(sequence.request)

    @property
    def done(self) -> bool:
        """Whether every request is served."""
        return not (self.waiting or self.running or self.swapped or self.fetching)

    def advance(self, most: int = 1 << 30) -> Step:
        """Do one step, or up to `most` decode steps that are alike but for one more token each; return it."""
        self.pool.drain(self.now_s)
        self._land()
        if not self.swapped and (batch := self._admit()):
            return self._prefill(batch)
        return self._decode(most)

    # Prefill

    def _admit(self) -> list[Sequence]:
        """Take those who wait into a batch, first come first served, while prompt budget and memory last."""
        batch: list[Sequence] = []
        budget, watermark = self.limits.prompt_budget_tokens, self.limits.watermark_blocks
        while self.waiting and self.waiting[0].request.arrival_s <= self.now_s:
            sequence = self.waiting[0]
            blocks = self.limits.blocks_of(sequence.tokens)
            # With nothing else in memory a sequence may have the watermark's blocks: it would wait for ever.
            keep = watermark if self.pool.free < self.pool.total else 0
            if self._seats(batch) < 1 or sequence.tokens > budget or self.pool.free - blocks < keep:
                break
            budget -= sequence.tokens
            sequence.blocks = blocks
            self.pool.take(blocks)
            batch.append(self.waiting.popleft())
        return batch

    def _prefill(self, batch: list[Sequence]) -> Step:
        start_s, use = self.now_s, self.pool.use
        tokens = sum(sequence.tokens for sequence in batch)
        step_s = self._serving.prefill_s(sequence.tokens for sequence in batch)
        self._preemption.produced(start_s, tokens)
        self.now_s += step_s
        self._charge_recomputed(batch, step_s)
        for sequence in batch:
            if not sequence.generated:
                sequence.first_token_s = self.now_s
            sequence.generated += 1
        self.running = sorted([*self.running, *batch], key=_order)
        self._finish()
        return Step(StepKind.PREFILL, 1, start_s, self.now_s, len(batch), tokens, len(batch), use, use)

    def _charge_recomputed(self, batch: list[Sequence], step_s: float) -> None:
        again = [sequence for sequence in batch if sequence.preempted_at_s is not None]
        if not again:
            return
        others = [sequence.tokens for sequence in batch if sequence.preempted_at_s is None]
        self.overhead.attributed_s += step_s
        self.overhead.marginal_s += step_s - (self._serving.prefill_s(others) if others else 0.0)
        for sequence in again:
            self.overhead.moved_tokens += sequence.tokens
            self._resumed(sequence, self.now_s)

    # Decode

    def _decode(self, most: int) -> Step:
        start_s = self.now_s
        swapped = len(self.swapped)
        preempted, copies_s = self._make_room()
        if not preempted:
            copies_s += self._bring_back(start_s + copies_s)
        batch = [item for item in self.running if item.blocks >= self._to_decode(item)]
        use, count = self.pool.use, 1
        if batch:
            if not preempted and len(self.swapped) == swapped:
                count = self._alike(batch, start_s + copies_s, most)
            self.now_s += copies_s + self._decode_s(batch, count)
            self._generate(batch, count)
            self._preemption.produced(start_s, count * len(batch))
        elif copies_s:
            self.now_s += copies_s
        else:
            self.now_s = self._next_s()
            assert math.isfinite(self.now_s), "nothing runs, and nothing will"
        use_end = self.pool.use
        self._finish()
        kind = StepKind.DECODE if batch else StepKind.WAIT
        generated = count * len(batch)
        return Step(kind, count, start_s, self.now_s, len(batch), 0, generated, use, use_end)

    def _make_room(self) -> tuple[bool, float]:
        """Have each running sequence hold a block for its next token, and preempt the last comers for that.

        A sequence for which enough blocks drain waits for one. Return whether any was preempted, and how long
        the GPU waits for copies.
        """
        runners, self.running = deque(self.running), []
        preempted, copies_s, promised = False, 0.0, 0
        while runners:
            sequence = runners.popleft()
            while sequence.blocks < self._to_decode(sequence):
                if self.pool.free:
                    sequence.blocks += 1
                    self.pool.take(1)
                elif self.pool.draining > promised:
                    promised += 1
                    break
                else:
                    victim = runners.pop() if runners else sequence
                    copies_s += self._evict(victim, self.now_s + copies_s)
                    preempted = True
                    if victim is sequence:
                        return preempted, copies_s
            self.running.append(sequence)
        return preempted, copies_s

    def _evict(self, victim: Sequence, now_s: float) -> float:
        move = self._preemption.evict(now_s, victim)
        self.overhead.preemptions += 1
        self.overhead.copies(move.gpu_s)
        self.pool.release(victim.blocks, now_s, now_s if move.done_s is None else move.done_s)
        victim.blocks, victim.preempted_at_s = 0, self.now_s
        if self._preemption.keeps_kv:
            self.overhead.moved_tokens += victim.tokens
            self.swapped.append(victim)
        else:
            self.waiting.appendleft(victim)
        return move.gpu_s

    def _bring_back(self, now_s: float) -> float:
        """Resume swapped sequences by arrival while memory lasts; return how long the GPU waits for that."""
        began_s = now_s
        self.swapped.sort(key=_order)
        while self.swapped and self._seats() > 0:
            sequence = self.swapped[0]
            blocks = self._to_decode(sequence)
            keep = self.limits.watermark_blocks if self.running or self.fetching else 0
            if self.pool.free - blocks < keep:
                break
            self.swapped.pop(0)
            self.pool.take(blocks)
            sequence.blocks = blocks
            move = self._preemption.resume(now_s, sequence)
            self.overhead.copies(move.gpu_s)
            now_s += move.gpu_s
            if move.done_s is None:
                self._resumed(sequence, now_s)
                self.running.append(sequence)
            else:
                self.fetching.append((move.done_s, sequence))
        self.running.sort(key=_order)
        return now_s - began_s

    def _alike(self, batch: list[Sequence], start_s: float, most: int) -> int:
        """Return how many steps the batch decodes as it is: none ends, no block is lacking, nothing comes."""
        most = min(most, *(sequence.remaining for sequence in batch)) if most > 1 else 1

        def lacking(steps: int) -> int:
            return sum(self._to_decode(item, steps) - item.blocks for item in batch)

        most = bisect_right(range(1, most + 1), self.pool.free, key=lacking)
        next_s = self._next_s()
        if math.isfinite(next_s):
            by_then = bisect_left(
                range(1, most + 1), next_s, key=lambda steps: start_s + self._decode_s(batch, steps)
            )
            most = min(most, by_then + 1)
        return most

    def _decode_s(self, batch: list[Sequence], steps: int) -> float:
        """Return the seconds of decode steps, before each of which every sequence has a token more."""
        first_s = self._serving.decode_s(len(batch), sum(sequence.tokens for sequence in batch))
        more = self._serving.decode_token_s * len(batch) * (steps * (steps - 1) // 2)
        return steps * first_s + more

    def _generate(self, batch: list[Sequence], steps: int) -> None:
        for sequence in batch:
            lacking = self._to_decode(sequence, steps) - sequence.blocks
            sequence.blocks += lacking
            self.pool.take(lacking)
            sequence.generated += steps

    def _to_decode(self, sequence: Sequence, steps: int = 1) -> int:
        """Return how many blocks a sequence holds in the last of so many steps."""
        return self.limits.blocks_to_decode(sequence.tokens + steps - 1)

    # What comes and goes

    def _seats(self, batch: Iterable[Sequence] = ()) -> int:
        taken = len(self.running) + len(self.fetching) + sum(1 for _ in batch)
        return self.limits.max_sequences - taken

    def _land(self) -> None:
        """Have sequences run whose KV has been fetched."""
        landed = [sequence for done_s, sequence in self.fetching if done_s <= self.now_s]
        if landed:
            self.fetching = [item for item in self.fetching if item[0] > self.now_s]
            for sequence in landed:
                self._resumed(sequence, self.now_s)
            self.running = sorted([*self.running, *landed], key=_order)

    def _resumed(self, sequence: Sequence, now_s: float) -> None:
        assert sequence.preempted_at_s is not None
        self.overhead.stalled_s += now_s - sequence.preempted_at_s
        sequence.preempted_at_s = None

    def _next_s(self) -> float:
        """When something comes next, of its own: a request, fetched KV, blocks that have drained."""
        times = [self.pool.next_s, *(done_s for done_s, _ in self.fetching)]
        if self.waiting and (arrival_s := self.waiting[0].request.arrival_s) > self.now_s:
            times.append(arrival_s)
        return min(times)

    def _finish(self) -> None:
        ended = [sequence for sequence in self.running if not sequence.remaining]
        for sequence in ended:
            self.pool.release(sequence.blocks, self.now_s, self.now_s)
            sequence.blocks, sequence.finished_s = 0, self.now_s
        if ended:
            self.running = [sequence for sequence in self.running if sequence.remaining]
            self.finished += ended


def _order(sequence: Sequence) -> tuple[float, int]:
    return sequence.order
