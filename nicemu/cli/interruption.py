# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C as something to wait for, where a command has things to finish."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from nicemu.signals import woken_by_signals

Item = TypeVar("Item")
PATIENCE_S = 1.0
"""How long after a signal another one ends what is being done."""
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def until_interrupted() -> Iterator[int]:
    """Have Ctrl-C, SIGTERM and SIGHUP make a descriptor readable, which is given.

    Once more, a second later, they raise KeyboardInterrupt: what is being done may not end by itself.
    """
    with woken_by_signals() as ended, _handled(_Patience().interrupt):
        yield ended


@contextmanager
def interruptible() -> Iterator[Interruptible]:
    """Have Ctrl-C, SIGTERM and SIGHUP end an iterator that passes through what is given, even while it waits.

    What is done with an item is done, unless they come once more, a second later: then KeyboardInterrupt is
    raised there.
    """
    reading = Interruptible()
    with _handled(reading.interrupt):
        yield reading


class _Interrupted(BaseException):
    """Ends what waits for an item."""


class _Patience:
    """The handler of signals of which one is kept to, and another, a second later, is not waited for."""

    def __init__(self) -> None:
        self._first_s: float | None = None

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Be the handler of a signal. Raises: KeyboardInterrupt."""
        if self._first_s is None:
            self._first_s = time.monotonic()
        elif time.monotonic() - self._first_s >= PATIENCE_S:
            raise KeyboardInterrupt


class Interruptible:
    """Reads until a signal comes; `is_over` says that it has."""

    def __init__(self) -> None:
        self._waits = self._works = self.is_over = False
        self._patience = _Patience()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Be the handler of a signal. A system call that waits goes on unless its handler raises."""
        self.is_over = True
        if self._waits:
            raise _Interrupted
        if self._works:
            self._patience.interrupt(number, frame)

    def until_interrupted(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yield items until there are no more, or the signal comes."""
        try:
            while True:
                self._waits = True
                if self.is_over:
                    return
                try:
                    item = next(items)
                except StopIteration:
                    return
                self._waits, self._works = False, True
                yield item
                self._works = False
        except _Interrupted:
            return
        finally:
            self._waits = self._works = False


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Have a handler for the signals; under nohup a terminal that is closed stays ignored."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    ignored = signal.SIGHUP if before[signal.SIGHUP] is signal.SIG_IGN else None
    taken = [number for number in NUMBERS if number is not ignored]
    for number in taken:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
