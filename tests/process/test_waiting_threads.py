# SPDX-License-Identifier: Apache-2.0
"""Threads of one process that sleep in a wait at a live NIC: each is woken by its own counter."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from nicemu.host import connection, open_nic
from tests.process.live_nics import live_nics

pytestmark = pytest.mark.process

ROUNDS = 20
WAIT_S = 20.0


def test_every_thread_that_sleeps_is_woken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None looks for itself meanwhile: a wake-up that is lost is a wait that times out."""
    monkeypatch.setattr(connection, "RECHECK_S", 10 * WAIT_S)
    with live_nics("waiting", tmp_path) as instance, open_nic(instance.nics[0].socket, spin_s=0) as nic:
        counters = nic.counters("a", "b", "c")
        for number in range(1, ROUNDS + 1):
            failures: list[BaseException] = []

            def wait(place: int, number: int = number, failures: list[BaseException] = failures) -> None:
                try:
                    counters[place].wait(number, timeout_s=WAIT_S)
                except BaseException as error:
                    failures.append(error)

            threads = [threading.Thread(target=wait, args=(place,)) for place in range(len(counters))]
            for thread in threads:
                thread.start()
            for counter in counters if number % 2 else reversed(counters):
                counter.add()
            for thread in threads:
                thread.join(2 * WAIT_S)
            assert not failures
            assert not any(thread.is_alive() for thread in threads)
        assert not any(counter.overflow for counter in counters)
