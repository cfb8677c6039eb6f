# SPDX-License-Identifier: Apache-2.0
"""A server with continuous batching and a prefix cache in tiers, in SimPy's time.

A step is a prefill of what waits, or a decode of what runs. Runs of equal decode steps are one event: they
end when an answer is complete, or at the end of the step in which a request comes.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from nicemu.cache import Hint, TieredCache
from nicemu.model import BusyStage, Serving, send

if TYPE_CHECKING:
    from simpy import Environment, Event

_WAITS_FADE = 1 / 16
_PACKET_BYTES = 4096
SHARED = -1
"""The conversation of blocks that are everybody's."""
Block: TypeAlias = tuple[int, int]
"""What a block is called: the conversation, and which block of it. A live cache has a hash of tokens."""


@dataclass(eq=False, slots=True)
class Request:
    """A turn: its whole prompt and its answer in tokens, and what became of it. Times in seconds."""

    conversation: int
    shared: int
    prompt: int
    answer: int
    arrived_s: float
    done: Event
    hint: Callable[[], Hint | None]
    """What is known of the conversation when this is answered."""
    cached: int = 0
    tiers: Counter[str] = field(default_factory=Counter)
    """Blocks of the prompt that were there, by tier."""
    started_s: float = math.nan
    first_s: float = math.nan
    ended_s: float = math.nan
    left: int = 0
    private_bytes: int = 0
    keys: list[Block] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Tokens that it has by now."""
        return self.prompt + self.answer - self.left


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How the server works: tokens a cached block, new tokens after which a prefill takes no more prompts."""

    block_tokens: int
    prefill_tokens: int
    offloads: bool
    """Whether NICs bring what is not in the GPU, while the request waits and the GPU works."""


class ChatServer:
    """Takes requests, in the order in which they come, and tells by their event when they are answered."""

    def __init__(self, env: Environment, serving: Serving, cache: TieredCache, limits: ServerLimits) -> None:
        self._env, self._serving, self._cache, self._limits = env, serving, cache, limits
        self.block_bytes = limits.block_tokens * serving.kv_token_bytes
        self._waiting: deque[Request] = deque()
        self._fetched: deque[Request] = deque()
        self._running: list[Request] = []
        self._woken = env.event()
        server = serving.server
        admits = cache.tiers[0].policy.admits("", self.block_bytes, 0)
        self._cache_step_s = server.number("cache.step_s") if admits else 0.0
        self._nic = BusyStage("NIC", server.number("offload.request_s"), 1 / serving.offload_bytes_per_s)
        self._pins = cache.tiers[0].policy.heeds_pins
        self.wait_s = 0.0
        """How long requests have waited lately until they started."""
        self.busy_s = 0.0
        env.process(self._serve())

    def submit(self, request: Request) -> None:
        """Take a request. It is done when its event is."""
        self._waiting.append(request)
        self._wake()

    def keys_of(self, request: Request, tokens: int) -> list[Block]:
        """Return the keys of the full blocks of so many tokens: the last, partial block is nobody else's."""
        shared = request.shared // self._limits.block_tokens
        return [
            (SHARED if block < shared else request.conversation, block)
            for block in range(tokens // self._limits.block_tokens)
        ]

    def _now_ns(self) -> int:
        return round(1e9 * self._env.now)

    def _wake(self) -> None:
        if not self._woken.triggered:
            self._woken.succeed()

    def _serve(self) -> Generator[Event, Any, None]:
        while True:
            self._woken = self._env.event()
            batch, step_s = self._admitted()
            if batch:
                yield from self._prefill(batch, step_s)
            elif self._running:
                yield from self._decode()
            else:
                yield self._woken
            yield self._env.timeout(0)  # who was answered may have the next message at hand

    def _admitted(self) -> tuple[list[Request], float]:
        """Return what the next prefill takes, and the seconds for which it waits for lower tiers."""
        batch: list[Request] = []
        new_tokens, loading_s = 0, 0.0
        while new_tokens < self._limits.prefill_tokens and (self._fetched or self._waiting):
            if self._fetched:
                request = self._fetched.popleft()
            elif self._acquired(self._waiting[0]):
                request = self._waiting.popleft()
                if self._limits.offloads and (blocks := request.tiers.total() - request.tiers["GPU"]):
                    self._fetch(request, blocks)
                    continue
                loading_s += self._loading_s(request)
            else:
                break
            batch.append(request)
            new_tokens += request.prompt - request.cached
        return batch, loading_s

    def _acquired(self, request: Request) -> bool:
        """Hold what the cache has of a request, and the memory that it will need; False if there is none."""
        block_tokens = self._limits.block_tokens
        total_bytes = -(-(request.prompt + request.answer) // block_tokens) * self.block_bytes
        keys = self.keys_of(request, request.prompt - 1)
        found = self._cache.acquire(keys, total_bytes, self._now_ns())
        if found is None:
            return False
        request.keys, request.tiers = keys[: len(found)], Counter(found)
        request.cached = len(found) * block_tokens
        request.private_bytes = total_bytes - len(found) * self.block_bytes
        request.started_s, request.left = self._env.now, request.answer
        self.wait_s += _WAITS_FADE * (request.started_s - request.arrived_s - self.wait_s)
        return True

    def _loading_s(self, request: Request) -> float:
        """Return the seconds of the step until blocks of lower tiers have come through host memory."""
        serving, number = self._serving, self._serving.server.number
        found_s = 0.0
        for tier, blocks in request.tiers.items():
            copy_s = serving.swap_s(blocks, self._limits.block_tokens)
            if tier == "CPU":
                found_s += copy_s
            elif tier == "NVMe":
                read_s = blocks * self.block_bytes / number("tier.ssd_read_bytes_per_s")
                found_s += number("tier.ssd_latency_s") + max(read_s, copy_s)
            elif tier == "remote":
                found_s += serving.fetch_s(blocks * self._limits.block_tokens) + copy_s
        return found_s

    def _fetch(self, request: Request, blocks: int) -> None:
        """Have NICs bring blocks into the GPU's memory; the request comes back behind those before it."""
        ready_s = send(self._env.now, blocks * self.block_bytes, [self._nic], _PACKET_BYTES)

        def fetched(_: object) -> None:
            self._fetched.append(request)
            self._wake()

        timeout = self._env.timeout(ready_s - self._env.now)
        assert timeout.callbacks is not None
        timeout.callbacks.append(fetched)

    def _prefill(self, batch: Sequence[Request], loading_s: float) -> Generator[Event, Any, None]:
        """Compute what the prompts lack, and their first tokens; no step is shorter than its weights take."""
        serving = self._serving
        compute_s = serving.prefill_fixed_s + sum(
            serving.prompt_s(request.prompt, request.cached) for request in batch
        )
        yield from self._step(loading_s + max(compute_s, serving.decode_fixed_s))
        now_ns = self._now_ns()
        for request in batch:
            request.first_s = self._env.now
            for key in self.keys_of(request, request.prompt)[len(request.keys) :]:
                self._fill(request, key, now_ns)
        self._running += batch
        self._advance(1, batch)

    def _decode(self) -> Generator[Event, Any, None]:
        """Decode until an answer is complete, or until the end of the step in which something comes."""
        most = min(request.left for request in self._running)
        started_s = self._env.now
        whole = self._env.timeout(self._decode_s(most))
        yield whole | self._woken
        steps = most
        if not whole.processed:
            steps = self._steps_within(self._env.now - started_s, most)
            yield self._env.timeout(max(0.0, started_s + self._decode_s(steps) - self._env.now))
        self.busy_s += self._decode_s(steps)
        self._advance(steps, self._running)

    def _decode_s(self, steps: int) -> float:
        """Return the seconds of so many steps, in each of which every sequence gains a token."""
        sequences = len(self._running)
        tokens = sum(request.tokens for request in self._running)
        first_s = self._serving.decode_s(sequences, tokens)
        last_s = self._serving.decode_s(sequences, tokens + sequences * (steps - 1))
        return steps * ((first_s + last_s) / 2 + self._cache_step_s)

    def _steps_within(self, elapsed_s: float, most: int) -> int:
        """Return how many steps have begun by then, 1 at least."""
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._decode_s(middle) >= elapsed_s else (middle + 1, high)
        return low

    def _step(self, length_s: float) -> Generator[Event, Any, None]:
        self.busy_s += length_s + self._cache_step_s
        yield self._env.timeout(length_s + self._cache_step_s)

    def _advance(self, steps: int, requests: Sequence[Request]) -> None:
        for request in requests:
            request.left -= steps
        for request in [request for request in self._running if not request.left]:
            self._running.remove(request)
            self._end(request)

    def _end(self, request: Request) -> None:
        """Let go of an answered request's blocks. The last token has no KV; shared blocks are everybody's."""
        now_ns = self._now_ns()
        for key in self.keys_of(request, request.prompt + request.answer - 1)[len(request.keys) :]:
            self._fill(request, key, now_ns)
        self._cache.give_back(request.private_bytes)
        own = [key for key in request.keys if key[0] != SHARED]
        self._cache.release(own, now_ns, request.hint())
        self._cache.release([key for key in request.keys if key[0] == SHARED], now_ns)
        request.ended_s = self._env.now
        request.done.succeed()

    def _fill(self, request: Request, key: Block, now_ns: int) -> None:
        """Make a block that was computed an entry; it stays the request's own if another one was faster."""
        if self._cache.fill(key, self.block_bytes, now_ns):
            request.private_bytes -= self.block_bytes
            request.keys.append(key)
            if self._pins and key[0] == SHARED:
                self._cache.hint([key], Hint(pinned=True))
