# SPDX-License-Identifier: Apache-2.0
"""How the threads of a process sleep until their NIC wakes it.

The NIC has one eventfd a process, and whoever reads it takes the wake-up of all. So one thread, the leader,
waits there, and the others behind it; when it was woken, all look for themselves, and another one leads. A
thread says what it had heard of before it looked, so that no wake-up is lost between looking and sleeping.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress


class Wakeups:
    """Wake-ups that arrive at `eventfd`; `other` is a descriptor too, which `on_other` is called for."""

    def __init__(self, eventfd: int, other: int, on_other: Callable[[], None]) -> None:
        self._eventfd = eventfd
        self._on_other = on_other
        self._poll = select.poll()  # a host may have more descriptors than select(2) takes
        for fd in (eventfd, other):
            self._poll.register(fd, select.POLLIN)
        self._changed = threading.Condition()
        self._is_led = False
        self.heard = 0
        """Wake-ups so far, and ends of a leader's sleep."""

    def sleep(self, heard: int, timeout_s: float) -> None:
        """Sleep until there was more than `heard`, or for `timeout_s`. Raises: as `on_other`."""
        with self._changed:
            if self.heard != heard:
                return
            if self._is_led:
                self._changed.wait(timeout_s)
                return
            self._is_led = True
        try:
            for fd, _ in self._poll.poll(timeout_s * 1000):
                if fd == self._eventfd:
                    with suppress(BlockingIOError):
                        os.eventfd_read(fd)
                else:
                    self._on_other()
        finally:
            with self._changed:
                self._is_led = False
                self.heard += 1
                self._changed.notify_all()
