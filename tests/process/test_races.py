# SPDX-License-Identifier: Apache-2.0
"""Arming, cancelling, flushing and closing while other threads ring and count: nothing is lost, nothing fires
twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from nicemu.abi import DeferredWork, Opcode
from nicemu.host import Counter, HostStream, Nic, open_nic
from nicemu.run import RunningNic
from tests.process.live_nics import eventually, live_nics, statistics

pytestmark = pytest.mark.process

ROUNDS, MANY_ROUNDS = 100, 400
BATCH = 16
FEW, MANY, MANY_BATCH = 4_000, 100_000, 64
"""Operations of the race of all against all, short and long, and how many are armed at once."""
ARMERS = 2


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNic]:
    with live_nics("races", tmp_path_factory.mktemp("data")) as instance:
        yield instance.nics[0]


@pytest.fixture
def nic(running: RunningNic) -> Iterator[Nic]:
    with open_nic(running.socket) as opened:
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


@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(MANY_ROUNDS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("armed_by", ["arm", "window"])
@pytest.mark.parametrize("ending", ["fire", "cancel", "flush", "cancel counter"])
def test_each_operation_fires_once_or_is_cancelled_once(
    nic: Nic, ending: str, armed_by: str, rounds: int
) -> None:
    """fi_trigger(3): armed work fires once; what was cancelled never does (R13, R23, R37, R39)."""
    rung, fired = nic.counters("rung", "fired")
    ringer = Ringer(rung)
    armed = removed = 0
    try:
        for _ in range(rounds):
            here = rung.success
            with nic.program("race") as program:
                for ahead in range(BATCH):
                    program.when(rung >= here + ahead).add(fired, 1)
            if armed_by == "arm":
                program.arm()
            else:
                program.window(3)
            armed += BATCH
            if ending == "cancel":
                removed += program.cancel()
            elif ending == "flush":
                removed += nic.flush()
            elif ending == "cancel counter":
                removed += nic.cancel_counter(rung)
            elif armed_by == "window":  # 256 of them may be open
                rung.add(BATCH)
                assert eventually(lambda wanted=armed: fired.success == wanted)  # type: ignore[misc]
    finally:
        ringer.end()
    if (ending, armed_by) != ("fire", "window"):
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


@contextmanager
def repeating(*actions: Callable[[], object]) -> Iterator[None]:
    """Do each action over and over, each in a thread of its own. Raises what one of them raised."""
    stop = threading.Event()
    raised: list[BaseException] = []

    def repeat(action: Callable[[], object]) -> None:
        try:
            while not stop.is_set():
                action()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=repeat, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if raised:
        raise raised[0]


def _adds(trigger: Counter, threshold: int, target: Counter) -> list[DeferredWork]:
    return [
        DeferredWork(trigger.index, threshold + ahead, Opcode.COUNTER_ADD, target=target.index, value=1)
        for ahead in range(MANY_BATCH)
    ]


@pytest.mark.parametrize("many", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_thousands_of_operations_each_fire_once_or_are_cancelled_once(
    running: RunningNic, nic: Nic, many: int
) -> None:
    """C35 to C37: two threads arm what others make due by counting and ringing, cancel, flush, or close."""
    rung, fired = nic.counters("rung", "fired")
    before = statistics(running)
    ringer = Ringer(rung)
    lock = threading.Lock()
    sums = {"armed": 0, "removed": 0, "added": 0, "elsewhere": 0}

    def count(**counts: int) -> None:
        with lock:
            for name, number in counts.items():
                sums[name] += number

    def add() -> None:
        rung.add(3)
        count(added=3)

    def flush() -> None:
        count(removed=nic.flush())

    def cancel_counter() -> None:
        count(removed=nic.cancel_counter(rung))

    def close_counters() -> None:
        trigger, target = aside.counters("closed", "closed too")
        count(elsewhere=len(aside.arm(_adds(trigger, 1, target))))
        trigger.add(MANY_BATCH // 2)
        trigger.close(force=True)
        target.close(force=True)

    def close_nic() -> None:
        with open_nic(running.socket) as other:
            trigger, target = other.counters("closed", "closed too")
            count(elsewhere=len(other.arm(_adds(trigger, 1, target))))
            trigger.add(MANY_BATCH // 2)

    def arm() -> None:
        turn = 0
        while sums["armed"] < many:
            turn += 1
            handles = nic.arm(_adds(rung, rung.success, fired))
            cancelled = sum(nic.cancel(handle) for handle in handles) if turn % 8 == 0 else 0
            count(armed=MANY_BATCH, removed=cancelled)

    with ExitStack() as stack:
        aside = stack.enter_context(open_nic(running.socket))
        stack.callback(ringer.end)
        stack.enter_context(repeating(add, flush, cancel_counter, close_counters, close_nic))
        armers = [threading.Thread(target=arm) for _ in range(ARMERS)]
        for armer in armers:
            armer.start()
        for armer in armers:
            armer.join()
    assert eventually(lambda: rung.success == ringer.rung + sums["added"]), "every ring and count counts once"
    rung.add(MANY_BATCH)  # whatever still waits is due now
    assert eventually(lambda: fired.success + sums["removed"] == sums["armed"])
    assert fired.errors == 0
    after = statistics(running)
    ended = sum(after[name] - before[name] for name in ("fired", "trigger.cancelled"))
    assert ended == sums["armed"] + sums["elsewhere"]
    assert after["trigger.slots_in_use"] == before["trigger.slots_in_use"]
    rung.close()
    fired.close()
