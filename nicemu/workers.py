# SPDX-License-Identifier: Apache-2.0
"""Processes that work for this one, and end when it does, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait


@contextmanager
def worker_processes(count: int, method: str | None = None) -> Iterator[ProcessPoolExecutor]:
    """Give a pool of processes; `method` is how they are started, by default as Python does it here.

    They leave Ctrl-C to this process. Where the context ends by an exception, what they do is ended at once.
    """
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context(method)
    pool = ProcessPoolExecutor(count, context, initializer=_depend_on_parent)
    try:
        with _ctrl_c_later():
            pool.submit(_nothing)  # starts the processes, if they are forked all of them
        yield pool
        pool.shutdown()
    finally:
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
        pool.shutdown(cancel_futures=True)


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Keep SIGINT until the context ends.

    Python forgets an interrupt that comes in a hook that runs behind a fork (os.register_at_fork, which
    logging uses), and one that comes in the pool's start leaves a pool that cannot be shut down.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _nothing() -> None:
    """What a process does that only has to be there."""


def _depend_on_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
