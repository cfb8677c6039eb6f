# SPDX-License-Identifier: Apache-2.0
"""The study `replay`: a trace of requests, on GPUs with storage nodes that keep prefixes, and without.

Every way sees the same requests, read or made anew, so that none of them is held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from nicemu.errors import UsageError
from nicemu.study.contract import Progress, Settings
from nicemu.study.traces import Request, TraceFile, synthetic_trace

from .found import ReplayResult
from .run import Replay
from .settings import ReplaySettings, ReplayWay, ground_of


class ReplayStudy:
    """The study of traces."""

    name = "replay"
    about = """Replay a trace of requests: prefixes recomputed, fetched by CPUs, or by triggered NICs.

    \b
    nicemu study replay
    nicemu study replay conversation_trace.jsonl --plot plots
    nicemu study replay trace.csv.gz --set rate=4 --set ways=cpu,triggered
    nicemu study replay --config examples/replay.toml

    TRACE is a file: Mooncake's JSON lines, Azure's or BurstGPT's CSV, gzip'd or not; without one, a synthetic
    one is made (`requests`, --seed), as `nicemu study trace` writes it. FILE is a TOML file of settings:
    trace, format, first, requests, rate, ways (none, cpu, triggered), profile, server, storage_nodes,
    storage_nics, drives, nvme_request_bytes, store_bytes, least_blocks, placement, cores, message, detail,
    and [set.TABLE] of profile fields; docs/replay.md says what they mean.
    """
    standard: Settings = ReplaySettings()

    def run(self, settings: ReplaySettings, seed: int, progress: Progress) -> ReplayResult:
        """Replay the trace once by every way.

        Raises: UsageError if the trace cannot be read, a row of it is wrong, or settings contradict.
        """
        ground = ground_of(settings)
        found = {}
        for place, name in enumerate(settings.ways):
            way = ReplayWay(name)
            with _opened(settings, seed) as trace:

                def told(count: int, place: int = place, trace: _Trace = trace, name: str = name) -> None:
                    done = (place + trace.part(count)) / len(settings.ways)
                    progress(done, f"{name}: {count:,} requests")

                requests = trace.requests(ground.serving.context_tokens)
                found[way] = Replay(ground, settings, way, told).run(requests)
                found[way].failed_requests = trace.failed()
        progress(1.0, "done")
        return ReplayResult(settings, ground, found)


class _Trace:
    """Requests of a file, or made by chance."""

    def __init__(self, settings: ReplaySettings, seed: int, file: TraceFile | None) -> None:
        self._settings, self._seed, self._file = settings, seed, file
        self._count = settings.first or (0 if file else settings.requests)

    def requests(self, longest: int) -> Iterator[Request]:
        """Yield the requests. Raises: UsageError if one is longer than `longest`, the model's context."""
        made = synthetic_trace(self._settings.requests, self._seed) if self._file is None else self._file
        for number, request in enumerate(islice(made, self._settings.first or None), 1):
            if request.input_tokens + request.output_tokens > longest:
                raise UsageError(
                    f"{self._settings.trace or 'the synthetic trace'}: request {number} has "
                    f"{request.input_tokens:,} tokens of prompt and {request.output_tokens:,} of answer; the "
                    f"model's context is {longest:,} (model.context_tokens)"
                )
            yield request

    def part(self, count: int) -> float:
        """Return which part of the trace has come with so many requests."""
        if self._file is not None and not self._count:
            return self._file.part()
        return min(1.0, count / self._count)

    def failed(self) -> int:
        """Return how many rows were left out."""
        return self._file.failed if self._file else 0


@contextmanager
def _opened(settings: ReplaySettings, seed: int) -> Iterator[_Trace]:
    if not settings.trace:
        yield _Trace(settings, seed, None)
        return
    with TraceFile(Path(settings.trace), settings.format) as file:
        yield _Trace(settings, seed, file)


REPLAY: Final = ReplayStudy()
