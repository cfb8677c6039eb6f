# SPDX-License-Identifier: Apache-2.0
"""A replay: SimPy for what is decided (arrivals, queues of GPUs), one update a stage for what is moved."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nicemu.model import BusyStage, Operation, Way, send
from nicemu.study.traces import BLOCK_TOKENS, BlockLru, Request

from .cluster import Cluster
from .histogram import Histogram
from .settings import Detail, Ground, ReplaySettings, ReplayWay

if TYPE_CHECKING:
    from simpy import Environment, Event

_TOLD_EVERY: Final = 500
_NEVER_S: Final = float("inf")
_MIX: Final = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: its multiples spread neighbouring numbers over the nodes."""


@dataclass(slots=True)
class Found:
    """What a replay by one way has found; times in seconds, all of them means or sums of bounded size."""

    way: ReplayWay
    ttft: Histogram = field(default_factory=Histogram)
    end_to_end: Histogram = field(default_factory=Histogram)
    fetch: Histogram = field(default_factory=Histogram)
    store: Histogram = field(default_factory=Histogram)
    output_tokens: int = 0
    decode_s: float = 0.0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    fetched_bytes: int = 0
    stored_bytes: int = 0
    fetch_s: float = 0.0
    wait_s: float = 0.0
    prefill_s: float = 0.0
    fetch_by_size: dict[int, tuple[int, int, float]] = field(default_factory=dict)
    """By the power of two above a fetch's bytes: how many fetches, their bytes, their seconds."""
    span_s: float = 0.0
    gpus: int = 1
    gpu_use: tuple[float, float] = (0.0, 0.0)
    use: dict[str, tuple[float, float]] = field(default_factory=dict)
    compute_core_s: float = 0.0
    storage_core_s: float = 0.0
    held_blocks: int = 0
    evicted_blocks: int = 0
    failed_requests: int = 0

    @property
    def tpot_s(self) -> float:
        """Time per output token: of those behind the first, which the prefill makes."""
        return self.decode_s / self.output_tokens if self.output_tokens else 0.0

    @property
    def hit_rate(self) -> float:
        """The share of prompt tokens whose KV was fetched."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def host_core_s(self) -> float:
        """Seconds that cores worked for transfers, at both ends."""
        return self.compute_core_s + self.storage_core_s


class Replay:
    """One replay of requests by one way. `told` is called with the number of requests that have come."""

    def __init__(
        self, ground: Ground, settings: ReplaySettings, way: ReplayWay, told: Callable[[int], None]
    ) -> None:
        import simpy

        self.found = Found(way)
        self.env: Environment = simpy.Environment()
        self._ground, self._settings, self._told = ground, settings, told
        self._cluster = None if way is ReplayWay.NONE else Cluster(ground, settings, Way(way))
        self._gpus = [simpy.Resource(self.env, capacity=1) for _ in range(ground.hardware.whole("node.gpus"))]
        self._load_s = [0.0] * len(self._gpus)
        self._busy_s = [0.0] * len(self._gpus)
        self._decoding = [(0, 0)] * len(self._gpus)
        """Of each GPU: how many sequences decode, and how many tokens they have."""
        self._index = BlockLru(ground.held_blocks)
        self._fire_s = ground.serving.server.number("offload.fire_s") if way is ReplayWay.TRIGGERED else 0.0

    def run(self, requests: Iterable[Request]) -> Found:
        """Replay requests to the end of the last."""
        self.env.process(self._arrivals(requests))
        self.env.run()
        found, cluster, span_s = self.found, self._cluster, self.env.now
        found.span_s, found.gpus = span_s, len(self._gpus)
        if span_s:
            found.gpu_use = (
                sum(self._busy_s) / len(self._gpus) / span_s,
                max(self._busy_s) / span_s,
            )
        if cluster is not None:
            found.use = cluster.use(span_s)
            found.compute_core_s, found.storage_core_s = cluster.core_s()
        found.held_blocks, found.evicted_blocks = len(self._index), self._index.evicted
        return found

    def _arrivals(self, requests: Iterable[Request]) -> Generator[Event, Any, None]:
        env, rate = self.env, self._settings.rate
        for count, request in enumerate(requests, 1):
            delay_s = request.arrival_s / rate - env.now
            if delay_s > 0:
                yield env.timeout(delay_s)
            env.process(self._served(request))
            if count % _TOLD_EVERY == 0:
                self._told(count)

    def _served(self, request: Request) -> Generator[Event, Any, None]:
        """Serve one request: fetch the prefix, wait for the GPU, prefill, store what is new, decode."""
        env, found, serving, load_s = self.env, self.found, self._ground.serving, self._load_s
        arrived_s = env.now
        tokens = request.input_tokens
        gpu = load_s.index(min(load_s))
        held = 0
        if self._cluster is not None:
            held = self._index.prefix(request.blocks, request.full_blocks, arrived_s)
            held = held if held >= self._settings.least_blocks else 0
            self._index.use(request.blocks, held)
        cached = min(
            held * BLOCK_TOKENS, tokens - 1
        )  # the last token has to pass, to make the first of the answer
        prefill_s = serving.prefill_fixed_s + serving.prompt_s(tokens, cached)
        load_s[gpu] += prefill_s
        if held:
            yield from self._fetched(request, held, gpu)
        fetched_s = env.now
        with self._gpus[gpu].request() as turn:
            yield turn
            started_s = env.now
            yield env.timeout(prefill_s)
        load_s[gpu] -= prefill_s
        self._busy_s[gpu] += prefill_s
        found.ttft.add(env.now - arrived_s)
        found.fetch_s += fetched_s - arrived_s
        found.wait_s += started_s - fetched_s
        found.prefill_s += prefill_s
        found.prompt_tokens += tokens
        found.hit_tokens += cached
        if self._cluster is not None:
            self._store(request, held, gpu)
        yield from self._decoded(request, gpu)
        found.end_to_end.add(env.now - arrived_s)

    def _decoded(self, request: Request, gpu: int) -> Generator[Event, Any, None]:
        """Decode the answer. A step costs what it does when the first one begins."""
        steps = request.output_tokens - 1
        if steps <= 0:
            return
        sequences, kept = self._decoding[gpu]
        tokens = request.input_tokens + request.output_tokens
        self._decoding[gpu] = sequences + 1, kept + tokens
        decode_s = steps * self._ground.serving.decode_s(sequences + 1, kept + tokens)
        yield self.env.timeout(decode_s)
        sequences, kept = self._decoding[gpu]
        self._decoding[gpu] = sequences - 1, kept - tokens
        self.found.output_tokens += steps
        self.found.decode_s += decode_s

    # Transfers

    def _fetched(self, request: Request, held: int, gpu: int) -> Generator[Event, Any, None]:
        """Fetch the first `held` blocks of a prompt; done when the last is in GPU memory."""
        env, found = self.env, self.found
        begun_s, length = env.now, held * self._ground.block_bytes
        moves = self._moves(Operation.FETCH, gpu, request.blocks[:held], request.blocks[0])
        if self._settings.detail == Detail.CHUNK:
            yield self._by_chunk(moves, 0.0)
        else:
            yield env.timeout(self._at_once(moves, begun_s) - begun_s)
        taken_s = env.now - begun_s
        found.fetch.add(taken_s)
        found.fetched_bytes += length
        size = (length - 1).bit_length()
        count, total, spent_s = found.fetch_by_size.get(size, (0, 0, 0.0))
        found.fetch_by_size[size] = count + 1, total + length, spent_s + taken_s

    def _store(self, request: Request, held: int, gpu: int) -> None:
        """Write the full blocks that are new through to the storage nodes; nobody waits for them."""
        index, now_s = self._index, self.env.now
        index.use(request.blocks, request.full_blocks)
        new = index.missing(request.blocks, held, request.full_blocks)
        if not new:
            return
        self.found.stored_bytes += len(new) * self._ground.block_bytes
        moves = self._moves(Operation.STORE, gpu, new, request.blocks[0])
        if self._settings.detail == Detail.CHUNK:
            index.put(new, _NEVER_S)
            self.env.process(self._stored_by_chunk(new, moves))
            return
        done_s = self._at_once(moves, now_s + self._fire_s)
        index.put(new, done_s)
        self.found.store.add(done_s - now_s)

    def _stored_by_chunk(
        self, new: Sequence[int], moves: Sequence[tuple[tuple[BusyStage, ...], int]]
    ) -> Generator[Event, Any, None]:
        begun_s = self.env.now
        yield self._by_chunk(moves, self._fire_s)
        self._index.ready(new, self.env.now)
        self.found.store.add(self.env.now - begun_s)

    def _moves(
        self, operation: Operation, gpu: int, blocks: Sequence[int], head: int
    ) -> list[tuple[tuple[BusyStage, ...], int]]:
        """Return the stages and bytes of the transfers that bring blocks from, or to, where they lie."""
        assert self._cluster is not None
        nodes, block_bytes = self._cluster.nodes, self._ground.block_bytes
        counts = [0] * nodes
        if self._settings.placement == "prefix":
            counts[node_of(head, nodes)] = len(blocks)
        else:
            for block in blocks:
                counts[node_of(block, nodes)] += 1
        return [
            (self._cluster.path(operation, gpu, node), count * block_bytes)
            for node, count in enumerate(counts)
            if count
        ]

    def _at_once(self, moves: Sequence[tuple[tuple[BusyStage, ...], int]], now_s: float) -> float:
        assert self._cluster is not None
        grain = self._cluster.grain_bytes
        return max(send(now_s, length, stages, grain) for stages, length in moves)

    def _by_chunk(self, moves: Sequence[tuple[tuple[BusyStage, ...], int]], delay_s: float) -> Event:
        """Return an event for when all messages of some transfers have passed, each on its own."""
        message = self._ground.message_bytes
        return self.env.all_of(
            [
                self.env.process(self._passed(stages, message, delay_s))
                for stages, length in moves
                for _ in range(length // message)
            ]
        )

    def _passed(
        self, stages: Sequence[BusyStage], length_bytes: int, delay_s: float
    ) -> Generator[Event, Any, None]:
        if delay_s:
            yield self.env.timeout(delay_s)
        for stage in stages:
            done_s = send(self.env.now, length_bytes, (stage,), length_bytes)
            yield self.env.timeout(done_s - self.env.now)


def node_of(block: int, nodes: int) -> int:
    """Return the storage node where a block lies: chosen by its name alone, evenly."""
    return (((block * _MIX) & 0xFFFFFFFFFFFFFFFF) >> 32) * nodes >> 32
