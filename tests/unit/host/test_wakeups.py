# SPDX-License-Identifier: Apache-2.0
"""Wake-ups of a process: none is lost, whichever of its threads reads it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from nicemu.errors import NicemuError
from nicemu.host.wakeups import Wakeups

TOO_LONG_S = 30.0
"""Nobody sleeps so long unless a wake-up was lost."""


class Rig:
    """Wake-ups at an eventfd, and another descriptor that says when there is nothing to wait for any more."""

    def __init__(self) -> None:
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.other = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.wakeups = Wakeups(self.eventfd, self.other, self._end)

    def _end(self) -> None:
        raise NicemuError("it has ended")

    def wait_for(self, happened: threading.Event) -> None:
        """Sleep as a waiting thread does, until something has happened."""
        while True:
            heard = self.wakeups.heard
            if happened.is_set():
                return
            self.wakeups.sleep(heard, TOO_LONG_S)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    os.close(rig.eventfd)
    os.close(rig.other)


def test_a_wake_up_that_another_thread_has_read_ends_a_sleep_that_begins_later(rig: Rig) -> None:
    heard = rig.wakeups.heard  # a thread looks, and finds nothing
    os.eventfd_write(rig.eventfd, 1)
    rig.wakeups.sleep(rig.wakeups.heard, TOO_LONG_S)  # another one is woken, and reads the eventfd
    rig.wakeups.sleep(heard, TOO_LONG_S)  # the first one sleeps now: it would miss what it was woken for
    with pytest.raises(BlockingIOError):
        os.eventfd_read(rig.eventfd)


def test_a_sleep_ends_after_its_time(rig: Rig) -> None:
    rig.wakeups.sleep(rig.wakeups.heard, 0.0)
    assert rig.wakeups.heard == 1, "those behind this thread look again, and one of them leads"


def test_threads_that_wait_for_different_things_all_hear_of_theirs(rig: Rig) -> None:
    """One write for all, as when the NIC rings several times before anybody reads."""
    for _ in range(50):
        happened = [threading.Event() for _ in range(4)]
        threads = [threading.Thread(target=rig.wait_for, args=(event,)) for event in happened]
        for thread in threads:
            thread.start()
        for event in happened:
            event.set()
        os.eventfd_write(rig.eventfd, 1)
        for thread in threads:
            thread.join(TOO_LONG_S / 2)
        assert not any(thread.is_alive() for thread in threads)


def test_threads_are_woken_one_after_the_other_whoever_leads(rig: Rig) -> None:
    happened = [threading.Event() for _ in range(4)]
    threads = [threading.Thread(target=rig.wait_for, args=(event,)) for event in happened]
    for thread in threads:
        thread.start()
    for event, thread in reversed(list(zip(happened, threads, strict=True))):
        event.set()
        os.eventfd_write(rig.eventfd, 1)
        thread.join(TOO_LONG_S / 2)
        assert not thread.is_alive()


def test_the_end_of_the_nic_reaches_every_thread(rig: Rig) -> None:
    ends: list[str] = []

    def wait() -> None:
        try:
            rig.wait_for(threading.Event())
        except NicemuError as error:
            ends.append(str(error))

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    os.eventfd_write(rig.other, 1)
    for thread in threads:
        thread.join(TOO_LONG_S / 2)
    assert ends == ["it has ended"] * 3
