# SPDX-License-Identifier: Apache-2.0
"""Whatever the wire does, every completed message is byte-exact, executed once and in order.

Source: InfiniBand Architecture Specification Volume 1, "Reliable Service".
"""

from __future__ import annotations

import pytest
from hypothesis import settings

from nicemu.hot import JIT
from tests.reliability.faulty_wire import Rates, run

FAULTS = ("loss", "duplication", "reordering", "corruption")
PERCENT = (0.001, 0.01, 0.1)
LONG = settings().max_examples >= 1000


@pytest.mark.parametrize("rate", PERCENT)
@pytest.mark.parametrize("fault", [*FAULTS, "all of them"])
def test_every_message_is_byte_exact_and_executed_once(fault: str, rate: float) -> None:
    rates = Rates(*[rate] * 4) if fault == "all of them" else Rates(**{fault: rate})
    outcome = run(3, rates, 10, 20 if JIT else 4)
    assert outcome.gave_up == 0
    if rate == 0.1 and fault != "corruption":
        assert outcome.drops["responder.duplicate"]


def test_a_run_is_the_same_each_time() -> None:
    runs = [run(seed, Rates(*[0.05] * 4), 5, 4) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.slow
@pytest.mark.skipif(not LONG, reason="minutes; run with --hypothesis-profile=long")
@pytest.mark.parametrize("rate", PERCENT)
@pytest.mark.parametrize("seed", range(5))
def test_many_messages_of_many_queue_pairs_are_byte_exact_and_executed_once(seed: int, rate: float) -> None:
    outcome = run(seed, Rates(*[rate] * 4), 50, 120)
    assert outcome.gave_up < (1 if rate < 0.1 else 10)  # of 100: an end may lose eight attempts in a row
    print(f"{outcome.operations} operations, {outcome.packets} packets, {outcome.turns} turns, ", end="")
    print(f"{outcome.gave_up} gave up, {outcome.drops}")
