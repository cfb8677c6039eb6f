# SPDX-License-Identifier: Apache-2.0
"""Traces made by chance, with the statistics of Mooncake's conversation trace.

Conversations of several turns: a prompt is the system prompt, which all share, what was said so far, and a
new message. Each arrival is the next turn of a conversation that has become due, or else a new conversation.
So memory is bounded by the conversations that are under way at once.
Source: the statistics aimed at are measured on kvcache-ai/Mooncake `conversation_trace.jsonl`; docs/replay.md
has them beside those that come out.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TextIO

from .request import BLOCK_TOKENS, Request, blocks_in

SYSTEM_BLOCK: Final = 0
"""The block of the system prompt, with which every prompt begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """What the generator draws from. `_median` and `_sigma` are those of lognormal distributions.

    All values are fitted, so that the statistics of the trace come out, but for those that say otherwise.
    """

    arrivals_per_s: float = 12031 / 3537
    """Measured: requests over the trace's span."""
    batch_s: float = 3.0
    """Measured: timestamps come in steps of 3 s."""
    opening_median: float = 4650.0
    opening_sigma: float = 1.21
    message_median: float = 1020.0
    message_sigma: float = 1.58
    continued: float = 0.38
    """Chance that another turn follows."""
    pause_median_s: float = 160.0
    pause_sigma: float = 0.88
    output_mean: float = 343.0
    """Measured."""
    output_sigma: float = 1.0
    """Assumed."""
    longest_tokens: int = 126_000
    """Assumed: no prompt is longer; a conversation that would be ends."""
    context_tokens: int = 131_072
    """Assumed: an answer ends where the model's context does."""


CONVERSATIONS: Final = Conversations()


class _Turn(NamedTuple):
    """A turn that is due some time: the blocks of the prompt before it that are whole, and all its tokens."""

    due_s: float
    session: int
    turn: int
    blocks: list[int]
    tokens: int


def synthetic_trace(count: int, seed: int, meant: Conversations = CONVERSATIONS) -> Iterator[Request]:
    """Yield `count` requests, in the order in which they come; the same seed, the same requests."""
    chance = random.Random(f"conversations {seed}")
    due: list[_Turn] = []
    now_s, sessions, named = 0.0, 0, SYSTEM_BLOCK + 1
    output_mu = math.log(meant.output_mean) - meant.output_sigma**2 / 2
    for _ in range(count):
        now_s += chance.expovariate(meant.arrivals_per_s)
        at_s = meant.batch_s * math.floor(now_s / meant.batch_s)
        if due and due[0].due_s <= at_s:
            last = heapq.heappop(due)
            session, turn, shared = last.session, last.turn, last.blocks
            tokens = last.tokens
        else:
            session, turn, shared = sessions, 0, [SYSTEM_BLOCK]
            sessions += 1
            opening = _drawn(chance, meant.opening_median, meant.opening_sigma)
            tokens = min(BLOCK_TOKENS + opening, meant.longest_tokens)
        fresh = blocks_in(tokens) - len(shared)
        blocks = [*shared, *range(named, named + fresh)]
        named += fresh
        output = max(1, round(chance.lognormvariate(output_mu, meant.output_sigma)))
        output = min(output, meant.context_tokens - tokens)
        yield Request(at_s, tokens, output, blocks, str(session), turn)
        following = tokens + output + _drawn(chance, meant.message_median, meant.message_sigma)
        if chance.random() < meant.continued and following <= meant.longest_tokens:
            pause_s = chance.lognormvariate(math.log(meant.pause_median_s), meant.pause_sigma)
            kept = blocks[: tokens // BLOCK_TOKENS]
            heapq.heappush(due, _Turn(at_s + pause_s, session, turn + 1, kept, following))


def write_trace(requests: Iterator[Request], file: TextIO) -> int:
    """Write requests as Mooncake's JSON lines, with session and turn; return how many there were."""
    written = 0
    for request in requests:
        row: dict[str, object] = {
            "timestamp": round(1e3 * request.arrival_s),
            "input_length": request.input_tokens,
            "output_length": request.output_tokens,
            "hash_ids": list(request.blocks),
        }
        if request.session is not None:
            row["session"] = request.session
        if request.turn is not None:
            row["turn"] = request.turn
        file.write(json.dumps(row) + "\n")
        written += 1
    return written


def _drawn(chance: random.Random, median: float, sigma: float) -> int:
    return max(1, round(chance.lognormvariate(math.log(median), sigma)))
