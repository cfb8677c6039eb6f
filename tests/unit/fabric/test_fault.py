# SPDX-License-Identifier: Apache-2.0
import itertools
import random

import pytest

from nicemu.errors import UsageError
from nicemu.fabric import FaultPort, FaultRates, LoopbackPort, loopback_pair

FRAMES = [i.to_bytes(2, "big") * 30 for i in range(1000)]


def sent_through(seed: int = 1, **rates: float) -> tuple[FaultPort, list[bytes]]:
    a, b = loopback_pair(10_000)
    port = FaultPort(a, random.Random(seed), FaultRates(**rates))
    for i in range(0, 1000, 10):
        assert port.send(FRAMES[i : i + 10]) == 10
    port.receive()
    return port, b.receive(10_000)


def test_losses_take_frames_away_and_leave_the_order() -> None:
    port, arrived = sent_through(loss=0.1)
    assert len(arrived) == 1000 - port.injected["loss"]
    assert 50 < port.injected["loss"] < 200
    assert arrived == [frame for frame in FRAMES if frame in set(arrived)]


def test_a_duplicate_follows_its_frame() -> None:
    port, arrived = sent_through(duplication=0.1)
    assert len(arrived) == 1000 + port.injected["duplication"] > 1050
    assert sorted(set(arrived)) == FRAMES
    assert arrived == sorted(arrived)


def test_a_reordered_frame_is_overtaken_by_one_and_never_lost() -> None:
    port, arrived = sent_through(reordering=0.1)
    assert sorted(arrived) == FRAMES
    swapped = sum(later < earlier for earlier, later in itertools.pairwise(arrived))
    assert swapped == port.injected["reordering"] > 50


def test_corruption_flips_one_bit() -> None:
    port, arrived = sent_through(corruption=0.1)
    flipped = [
        (int.from_bytes(was, "big") ^ int.from_bytes(now, "big")).bit_count()
        for was, now in zip(FRAMES, arrived, strict=True)
    ]
    assert set(flipped) == {0, 1}
    assert sum(flipped) == port.injected["corruption"] > 50


def test_the_last_frame_is_not_held_back_for_ever() -> None:
    a, b = loopback_pair()
    port = FaultPort(a, random.Random(1), FaultRates(reordering=1.0))
    port.send(FRAMES[:1])
    assert b.receive() == []
    port.receive()
    assert b.receive() == FRAMES[:1]


def test_the_seed_decides() -> None:
    rates = {"loss": 0.05, "duplication": 0.05, "reordering": 0.05, "corruption": 0.05}
    assert sent_through(3, **rates)[1] == sent_through(3, **rates)[1]
    assert sent_through(3, **rates)[1] != sent_through(4, **rates)[1]


def test_while_the_inner_port_is_full_one_frame_waits_and_no_more_are_accepted() -> None:
    inner, other = loopback_pair(5)
    port = FaultPort(inner, random.Random(1), FaultRates())
    assert port.send(FRAMES[:8]) == 6
    assert port.send(FRAMES[6:8]) == 0
    assert other.receive() == FRAMES[:5]
    assert port.send(FRAMES[6:8]) == 2
    assert other.receive() == FRAMES[5:8]


@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_a_rate_is_a_probability(rate: float) -> None:
    with pytest.raises(UsageError, match="must be 0 to 1"):
        FaultRates(reordering=rate)


def test_a_fault_port_shows_the_inner_port_s_drops_and_address() -> None:
    inner: LoopbackPort = loopback_pair()[0]
    inner.drops["some.reason"] += 1
    port = FaultPort(inner, random.Random(1), FaultRates())
    assert port.drops == {"some.reason": 1}
    assert port.address == inner.address
