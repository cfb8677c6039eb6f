# SPDX-License-Identifier: Apache-2.0
"""What a NIC's configuration says of its queue pairs holds for those of the engine that carries them."""

from __future__ import annotations

from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.nic import NicConfig, SmartNic

PEER = "127.0.1.2"


@pytest.mark.parametrize(("told", "wanted"), [({}, 67_108_864), ({"ack_timeout_ns": 5_000}, 5_000)])
def test_queue_pairs_wait_for_an_answer_as_long_as_the_nic_is_told(told: dict[str, Any], wanted: int) -> None:
    device = SmartNic(NicConfig("a", "127.0.1.1", transport="port", **told), compiled=False)
    pairs = device.queue_pairs
    qp = pairs.create(pairs.peer("b", PEER), 1, 0, 0, -1)
    assert device.roce._attributes[qp].timeout_ns == wanted


@pytest.mark.parametrize("timeout_ns", [-1, (4096 << 31) + 1])
def test_no_timeout_is_negative_or_longer_than_a_queue_pair_can_have(timeout_ns: int) -> None:
    with pytest.raises(UsageError, match=f"ack_timeout_ns {timeout_ns} is negative or more than"):
        NicConfig("a", "127.0.1.1", ack_timeout_ns=timeout_ns)


def test_queue_pairs_have_the_features_that_the_nic_is_told_of() -> None:
    config = NicConfig(
        "a", "127.0.1.1", transport="port", selective_retransmission=True, congestion_control=True
    )
    device = SmartNic(config, compiled=False)
    qp = device.queue_pairs.create(device.queue_pairs.peer("b", PEER), 1, 0, 0, -1)
    attributes = device.roce._attributes[qp]
    assert (attributes.selective_retransmission, attributes.congestion_control) == (True, True)
