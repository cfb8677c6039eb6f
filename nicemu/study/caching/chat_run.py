# SPDX-License-Identifier: Apache-2.0
"""One run of the chat benchmark: so many chatters, one policy, in a closed loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from nicemu.cache import POLICIES, Hint, Tier, TieredCache
from nicemu.errors import UsageError
from nicemu.model import Serving

from .chat_server import ChatServer, Request, ServerLimits
from .chat_workload import Conversation

if TYPE_CHECKING:
    from simpy import Event

TIERS: Final = ("GPU", "CPU", "NVMe", "remote")
THRESHOLDS: Final = (0.25, 0.5, 0.75)
_WARM: Final = 0.1


@dataclass(frozen=True, slots=True)
class ChatRow:
    """What was measured. Shares are 0 to 1; `above`: requests with so much of the prompt cached at least."""

    shared_percent: float
    chatters: int
    policy: str
    messages: int
    makespan_s: float
    end_to_end_s: float
    first_byte_s: float
    messages_per_s: float
    hit_rate: float
    none_cached: float
    above: Mapping[float, float]
    hits_by_tier: Mapping[str, float]
    """Of the prompts' tokens."""
    down_bytes: Mapping[str, int]
    """What moved down into each tier."""
    dropped_bytes: int
    gpu_busy: float


class ChatRun:
    """Chatters that share a list of conversations; each takes the next when it has ended one."""

    def __init__(
        self,
        serving: Serving,
        tiers: Mapping[str, int],
        policy: str,
        limits: ServerLimits,
        think_s: float,
        talks: Sequence[Conversation],
    ) -> None:
        """`tiers` are capacities in bytes, by name, the GPU's first.

        Raises: UsageError if the GPU's memory is too small for a conversation.
        """
        from simpy import Environment

        self._env = Environment()
        self._cache = TieredCache([Tier(name, size, POLICIES[policy]()) for name, size in tiers.items()])
        self._server = ChatServer(self._env, serving, self._cache, limits)
        self._heeds_hints = self._cache.tiers[0].policy.heeds_hints
        self._think_s = think_s
        self._talks, self._next = talks, 0
        self._requests: list[Request] = []
        self._handed_out_s = 0.0
        needs = max(talk.shared + sum(turn.prompt + turn.answer for turn in talk.turns) for talk in talks)
        needs += max(talk.shared for talk in talks)  # pinned, while one that shares nothing is served
        needed_bytes = -(-needs // limits.block_tokens) * self._server.block_bytes
        if needed_bytes > tiers["GPU"]:
            raise UsageError(
                f"a conversation has {needs} tokens, which need {needed_bytes} bytes of KV; the GPU has "
                f"{tiers['GPU']} for them: set gpu.kv_bytes"
            )

    def measure(self, shared_percent: float, chatters: int, policy: str) -> ChatRow:
        """Run until all conversations have ended, and return what was measured."""
        for _ in range(min(chatters, len(self._talks))):
            self._env.process(self._chatter())
        self._env.run()
        requests = self._requests
        prompts = sum(request.prompt for request in requests)
        cached = [request.cached / request.prompt for request in requests]
        by_tier: Counter[str] = Counter()
        for request in requests:
            by_tier.update(request.tiers)
        block_tokens = sum(request.cached for request in requests) / max(1, by_tier.total())
        makespan_s = max(request.ended_s for request in requests)
        return ChatRow(
            shared_percent,
            chatters,
            policy,
            len(requests),
            makespan_s,
            fmean(request.ended_s - request.arrived_s for request in requests),
            fmean(request.first_s - request.arrived_s for request in requests),
            self._rate(),
            sum(request.cached for request in requests) / prompts,
            sum(not share for share in cached) / len(cached),
            {limit: sum(share >= limit for share in cached) / len(cached) for limit in THRESHOLDS},
            {tier.name: by_tier[tier.name] * block_tokens / prompts for tier in self._cache.tiers},
            {tier.name: tier.received_bytes for tier in self._cache.tiers[1:]},
            self._cache.dropped_bytes,
            self._server.busy_s / makespan_s,
        )

    def _rate(self) -> float:
        """Return messages a second while all chat: after a tenth of them, until no conversation is left.

        Answers may end with one step, so that a few, or all, have no time between them.
        """
        ends = sorted(request.ended_s for request in self._requests)
        first = int(_WARM * len(ends))
        last = sum(end <= self._handed_out_s for end in ends) - 1
        if last - first < len(ends) // 4 or ends[last] == ends[first]:
            first, last = 0, len(ends) - 1
        taken_s = ends[last] - ends[first]
        return (last - first) / taken_s if taken_s else len(ends) / ends[-1]

    def _chatter(self) -> Generator[Event, Any, None]:
        first = True
        while self._next < len(self._talks):
            place, self._next = self._next, self._next + 1
            self._handed_out_s = self._env.now
            talk = self._talks[place]
            tokens = talk.shared
            for number, turn in enumerate(talk.turns, 1):
                if turn.think_s and not first:
                    yield self._env.timeout(turn.think_s)
                first = False
                request = Request(
                    place,
                    talk.shared,
                    tokens + turn.prompt,
                    turn.answer,
                    self._env.now,
                    self._env.event(),
                    partial(self._hint, number < len(talk.turns), turn.misled),
                )
                self._requests.append(request)
                self._server.submit(request)
                yield request.done
                tokens += turn.prompt + turn.answer

    def _hint(self, goes_on: bool, misled: bool) -> Hint | None:
        """Return what the host says of a conversation: whether it goes on, and when to expect that."""
        if not self._heeds_hints:
            return None
        if goes_on == misled:
            return Hint(finished=True)
        expected_s = self._env.now + self._think_s + self._server.wait_s
        return Hint(expected_ns=round(1e9 * expected_s))
