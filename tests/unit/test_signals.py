# SPDX-License-Identifier: Apache-2.0
"""signal.set_wakeup_fd: a wait that began before the handler in Python could run ends all the same."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from nicemu.cli.interruption import until_interrupted
from nicemu.signals import woken_by_signals


@pytest.fixture
def sent_while_we_wait() -> Iterator[threading.Event]:
    """SIGINT arrives in a thread, so that nothing interrupts what the main thread waits in.

    It is sent once the event is set, and the main thread waits: no other takes its place before.
    """
    about_to_wait = threading.Event()

    def send() -> None:
        about_to_wait.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    before = sys.getswitchinterval()
    sender = threading.Thread(target=send)
    sender.start()
    sys.setswitchinterval(60)
    try:
        yield about_to_wait
    finally:
        sys.setswitchinterval(before)
        about_to_wait.set()
        sender.join()


def test_ctrl_c_ends_a_wait_whose_handler_has_not_run(sent_while_we_wait: threading.Event) -> None:
    with until_interrupted() as interrupted:
        sent_while_we_wait.set()
        assert select.select([interrupted], [], [], 20)[0] == [interrupted]


def test_a_signal_leaves_its_number(sent_while_we_wait: threading.Event) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with woken_by_signals() as woken:
            sent_while_we_wait.set()
            select.select([woken], [], [], 20)
            assert os.read(woken, 16) == bytes([signal.SIGINT])
        assert seen == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_was_woken_before_is_woken_again_and_no_descriptor_stays() -> None:
    files = len(os.listdir("/proc/self/fd"))
    with woken_by_signals(), until_interrupted():
        pass
    assert signal.set_wakeup_fd(-1) == -1
    assert len(os.listdir("/proc/self/fd")) <= files
