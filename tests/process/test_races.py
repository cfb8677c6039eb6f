# SPDX-License-Identifier: Apache-2.0
"""Arming, cancelling and flushing while another thread rings: nothing is lost, nothing fires twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from nicemu.host import Counter, HostStream, Nic, open_nic
from tests.process.live_nics import eventually, live_nics

pytestmark = pytest.mark.process

ROUNDS = 400
BATCH = 16


@pytest.fixture(scope="module")
def nic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nic]:
    data = tmp_path_factory.mktemp("data")
    with live_nics("races", data) as instance, open_nic(instance.nics[0].socket) as opened:
        yield opened


class Ringer:
    """A thread that rings a counter's doorbell, by one, until it is told to stop."""

    def __init__(self, counter: Counter) -> None:
        self.stream = HostStream()
        self._counter = counter
        self._stop = threading.Event()
        counter.trigger_after(self.stream)  # opens the cell here: requests are for one thread
        self.rung = 1
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._counter.trigger_after(self.stream)
            self.rung += 1
            self.stream.synchronize()

    def end(self) -> None:
        """Stop ringing; every ring has been stored."""
        self._stop.set()
        self._thread.join()
        self.stream.close()


@pytest.mark.parametrize("ending", ["fire", "cancel", "flush"])
def test_each_operation_fires_once_or_is_cancelled_once(nic: Nic, ending: str) -> None:
    """fi_trigger(3): armed work fires once; what was cancelled never does (R13, R23, R37, R39)."""
    rung, fired = nic.counters(f"rung-{ending}", f"fired-{ending}")
    ringer = Ringer(rung)
    armed = removed = 0
    try:
        for _ in range(ROUNDS):
            here = rung.success
            with nic.program("race") as program:
                for ahead in range(BATCH):
                    program.when(rung >= here + ahead).add(fired, 1)
            program.arm()
            armed += BATCH
            if ending == "cancel":
                removed += program.cancel()
            elif ending == "flush":
                removed += nic.flush()
    finally:
        ringer.end()
    assert eventually(lambda: rung.success == ringer.rung), "every ring counts, two never become one"
    rung.add(BATCH)  # whatever still waits is due now
    assert eventually(lambda: fired.success + removed == armed)
    assert fired.errors == 0
    rung.close()
    fired.close()


def test_ringing_two_cells_of_one_counter_counts_both(nic: Nic) -> None:
    (counter,) = nic.counters("two streams")
    ringers = [Ringer(counter), Ringer(counter)]
    for _ in range(200):
        counter.add(1)
    for ringer in ringers:
        ringer.end()
    assert eventually(lambda: counter.success == 200 + sum(ringer.rung for ringer in ringers))
    counter.close()
