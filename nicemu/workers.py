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
        yield pool
        pool.shutdown()
    finally:
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
        pool.shutdown(cancel_futures=True)


def _depend_on_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
