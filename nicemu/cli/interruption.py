# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C as something to wait for, where a command has things to finish."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from nicemu.signals import woken_by_signals

Item = TypeVar("Item")
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def until_interrupted() -> Iterator[int]:
    """Have Ctrl-C, SIGTERM and SIGHUP make a descriptor readable, which is given."""
    with woken_by_signals() as ended, _handled(lambda *_: None):
        yield ended


@contextmanager
def interruptible() -> Iterator[Interruptible]:
    """Have Ctrl-C, SIGTERM and SIGHUP end an iterator that passes through what is given, even while it waits.

    Nothing else is interrupted: what is done with an item is done.
    """
    reading = Interruptible()
    with _handled(reading.interrupt):
        yield reading


class _Interrupted(BaseException):
    """Ends what waits for an item."""


class Interruptible:
    """Reads until a signal comes; `is_over` says that it has."""

    def __init__(self) -> None:
        self._waits = self.is_over = False

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Be the handler of a signal. A system call that waits goes on unless its handler raises."""
        self.is_over = True
        if self._waits:
            raise _Interrupted

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
                self._waits = False
                yield item
        except _Interrupted:
            return
        finally:
            self._waits = False


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
