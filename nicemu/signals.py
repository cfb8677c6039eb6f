# SPDX-License-Identifier: Apache-2.0
"""Signals as something to wait for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def woken_by_signals() -> Iterator[int]:
    """Give a descriptor that a signal makes readable, if it has a handler in Python; a byte is its number.

    It is written where the signal arrives. A handler would come too late: Python runs it between two
    instructions, so that one which arrives right before a wait is handled when that has ended, if it ever
    does. For the main thread alone, as signals are.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        try:
            yield reading
        finally:
            signal.set_wakeup_fd(before)
    finally:
        os.close(reading)
        os.close(writing)
