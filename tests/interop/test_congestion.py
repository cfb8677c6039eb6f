# SPDX-License-Identifier: Apache-2.0
"""Marks and notifications of congestion between our engine and the kernel's rxe, which knows of neither.

Source: RFC 3168; InfiniBand Architecture Specification Volume 1, Annex A17 "RoCEv2", "Congestion Notification
Packet".
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from nicemu.abi import Opcode
from nicemu.errors import VerbsStatus
from nicemu.fabric import mac_of_host
from nicemu.wire import CNP_OPCODE, RoceFramer, internet_checksum, parse_ipv4

from .world import OUR_IP, PEER_IP, Connection, some_bytes

pytestmark = [pytest.mark.interop, pytest.mark.slow]
Connect = Callable[..., Connection]


def marked(frame: bytes) -> list[bytes]:
    """Return a frame as a congested router leaves it; the ICRC does not cover that."""
    changed = bytearray(frame)
    if frame[12:14] == b"\x08\0":
        changed[15] |= 3
        changed[24:26] = bytes(2)
        changed[24:26] = internet_checksum(bytes(changed[14:34])).to_bytes(2, "big")
    return [bytes(changed)]


@pytest.mark.parametrize("is_on", [False, True])
def test_marks_of_congestion_do_not_disturb_rxe_nor_its_marked_packets_us(
    connect: Connect, is_on: bool
) -> None:
    one = connect(ours={"congestion_control": is_on})
    one.world.cable.leaving = one.world.cable.arriving = marked
    data = some_bytes(1, 100_000)
    one.write(data)
    one.post(Opcode.RDMA_WRITE, len(data))
    assert one.completed()[0].status is VerbsStatus.SUCCESS
    assert one.peer_holds(data)
    back = one.peer_fill(2, 100_000)
    one.peer_post("RDMA_WRITE", len(back))
    assert one.peer_completed()[0]["status"] == 0
    assert one.read(len(back)) == back
    notified = [packet for packet in one.packets(ours=True) if packet.opcode == CNP_OPCODE]
    assert bool(notified) is is_on  # and rxe drops them


def test_a_notification_lowers_our_rate_and_rxe_notices_nothing(connect: Connect) -> None:
    one = connect(ours={"congestion_control": True})
    macs = mac_of_host(parse_ipv4(PEER_IP)), one.world.mac
    framer = RoceFramer(*macs, parse_ipv4(PEER_IP), parse_ipv4(OUR_IP))
    one.world.engine.on_frame(framer.cnp(one.qp), time.monotonic_ns())
    data = some_bytes(1, 100_000)
    one.write(data)
    one.post(Opcode.RDMA_WRITE, len(data))
    assert one.completed()[0].status is VerbsStatus.SUCCESS
    assert one.peer_holds(data)
