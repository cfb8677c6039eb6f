# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C as something to wait for, where a command has things to finish."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def until_interrupted() -> Iterator[int]:
    """Have Ctrl-C and SIGTERM make a descriptor readable, which is given, instead of ending this process."""
    ended = os.eventfd(0, os.EFD_CLOEXEC)
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: os.eventfd_write(ended, 1)) for number in numbers]
    try:
        yield ended
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        os.close(ended)
