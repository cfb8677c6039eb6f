# SPDX-License-Identifier: Apache-2.0
"""Reads under way, so many at most: a client that does not take what it has asked for is not waited for."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import grpc


class OpenReads:
    """Reads that hold a thread each; a call whose response was not taken for `patience_s` is cancelled."""

    def __init__(self, most: int, patience_s: float) -> None:
        self._free = threading.BoundedSemaphore(most)
        self._patience_s = patience_s
        self._offered: dict[grpc.ServicerContext, float] = {}
        self._stopped = threading.Event()
        self._watcher: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch for clients that take nothing."""
        self._stopped.clear()
        self._watcher = threading.Thread(target=self._watch, name="p4runtime-open-reads", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopped.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None

    @contextlib.contextmanager
    def one(self) -> Iterator[bool]:
        """Have one more under way, if it may be."""
        may_be = self._free.acquire(blocking=False)
        try:
            yield may_be
        finally:
            if may_be:
                self._free.release()

    @contextlib.contextmanager
    def offer(self, context: grpc.ServicerContext) -> Iterator[None]:
        """Bear only so long that the client does not take a response."""
        self._offered[context] = time.monotonic() + self._patience_s
        try:
            yield
        finally:
            del self._offered[context]

    def _watch(self) -> None:
        while not self._stopped.wait(self._patience_s / 8):
            now = time.monotonic()
            for context, until in self._offered.copy().items():
                if until < now:
                    context.cancel()
