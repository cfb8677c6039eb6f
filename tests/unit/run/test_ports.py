# SPDX-License-Identifier: Apache-2.0
"""What the ports of a live NIC count."""

from __future__ import annotations

from typing import Any

import pytest

from nicemu.nic import NicConfig
from nicemu.run.ports import LivePorts
from nicemu.wire import (
    ETHERTYPE_IPV4,
    Ethernet,
    FrameBatch,
    RcOpcode,
    RoceFramer,
    encode_udp_frame,
    parse_ipv4,
)

HERE, THERE = NicConfig("here", "127.83.7.1"), NicConfig("there", "127.83.7.2")
NAMES = ("loss", "duplication", "reordering", "corruption")


def opened(faults: dict[str, Any]) -> LivePorts:
    ports = LivePorts(HERE, {"fabric": "udp", "faults": faults})
    ports.add_peer(THERE.ip)
    return ports


def send(ports: LivePorts, count: int) -> None:
    """Send so many RDMA frames to the peer, and one of the request protocol."""
    ends = parse_ipv4(HERE.ip), parse_ipv4(THERE.ip)
    framer = RoceFramer(HERE.mac, THERE.mac, *ends)
    batch = FrameBatch()
    batch.fill([framer.frame(RcOpcode.SEND_ONLY, 7, psn) for psn in range(count)])
    assert ports.send_batch(batch, 0) == count
    assert ports.send(
        [encode_udp_frame(Ethernet(THERE.mac, HERE.mac, ETHERTYPE_IPV4), *ends, 19286, 19286, b"x")]
    )


@pytest.mark.parametrize("fault", NAMES)
def test_faults_that_were_asked_for_are_counted_by_name_and_port(fault: str) -> None:
    ports = opened({fault: 1.0, "seed": 3})
    try:
        send(ports, 4)
        counts = ports.statistics()
    finally:
        ports.close()
    befell = 2 if fault == "reordering" else 4  # every other one is overtaken
    for name in NAMES:
        assert counts[f"port.roce.faults.{name}"] == (befell if name == fault else 0)
        assert counts[f"port.requests.faults.{name}"] == (1 if name == fault else 0)


def test_without_faults_there_are_none_to_count() -> None:
    ports = opened({})
    try:
        send(ports, 4)
        assert not [name for name in ports.statistics() if "faults" in name]
    finally:
        ports.close()
