# SPDX-License-Identifier: Apache-2.0
"""What runs the points of a sweep: processes on all cores of this machine, or a Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Protocol, TypeVar

from nicemu.errors import NicemuError, UsageError
from nicemu.workers import worker_processes

Found = TypeVar("Found")
LOOK_S = 5.0
"""How long a cluster may take to answer the first time."""
_AHEAD = 4
"""Tasks that are handed out for each core before one of them has ended."""


class Engine(Protocol):
    """Runs tasks that do not depend on one another."""

    def run(self, work: Callable[..., Found], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Found]:
        """Yield what `work(*task)` returns for every task, as they end; nothing of it is left running after.

        Raises: UsageError if the engine is not here; NicemuError if it fails; what `work` raises.
        """
        ...


class Processes:
    """Processes of this machine, as many as it has cores; `jobs` says another number."""

    def __init__(self, jobs: int = 0) -> None:
        self._jobs = jobs or len(os.sched_getaffinity(0))

    def run(self, work: Callable[..., Found], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Found]:
        """See `Engine`."""
        if self._jobs == 1 or len(tasks) == 1:
            yield from (work(*task) for task in tasks)
            return
        try:
            with worker_processes(min(self._jobs, len(tasks)), "spawn") as pool:
                yield from _as_they_end(pool, work, tasks, _AHEAD * self._jobs)
        except BrokenProcessPool as error:
            raise NicemuError(
                "a process of the sweep has ended by itself, perhaps for want of memory; --out keeps what was"
                " finished, and --jobs 1 needs the least"
            ) from error


def _as_they_end(
    pool: ProcessPoolExecutor, work: Callable[..., Found], tasks: Sequence[tuple[Any, ...]], ahead: int
) -> Iterator[Found]:
    left = iter(tasks)
    running: set[Future[Found]] = {pool.submit(work, *task) for task in islice(left, ahead)}
    while running:
        ended, running = wait(running, return_when=FIRST_COMPLETED)
        for future in ended:
            running |= {pool.submit(work, *task) for task in islice(left, 1)}
            yield future.result()


class Ray:
    """A Ray cluster: the one at `address`, or that of RAY_ADDRESS, or one of this machine alone.

    Its workers need nicemu installed, of the same version.
    """

    def __init__(self, address: str | None = None) -> None:
        self._address = address

    def run(self, work: Callable[..., Found], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Found]:
        """See `Engine`."""
        try:
            import ray
        except ImportError:
            raise UsageError(
                "--engine ray needs Ray, which is not installed: pip install 'nicemu[ray]'"
            ) from None
        _look_for(self._address)
        is_elsewhere = self._address is not None or "RAY_ADDRESS" in os.environ
        was_there = ray.is_initialized()
        try:
            ray.init(
                address=self._address,
                ignore_reinit_error=True,
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=None if is_elsewhere else False,
                configure_logging=False,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UsageError(f"no Ray cluster at {self._address or 'this machine'}: {error}") from error
        try:
            remote = ray.remote(work)
            cores = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call,unused-ignore]
            ahead = _AHEAD * max(1, cores)
            left = iter(tasks)
            running = [remote.remote(*task) for task in islice(left, ahead)]
            while running:
                ended, running = ray.wait(running)
                running += [remote.remote(*task) for task in islice(left, len(ended))]
                for result in ended:
                    yield ray.get(result)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            raise NicemuError(f"the Ray cluster has failed: {error}") from error
        finally:
            if not was_there:
                ray.shutdown()


def _look_for(address: str | None) -> None:
    """Refuse an address that nobody listens at, before Ray looks for it for minutes. Raises: UsageError."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), LOOK_S).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"no Ray cluster at {address}: {error}") from error
