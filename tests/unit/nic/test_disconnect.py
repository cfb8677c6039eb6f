# SPDX-License-Identifier: Apache-2.0
"""A process gives a queue pair back; nothing that it armed may use the number's next owner."""

from __future__ import annotations

import pytest

from nicemu.abi import registers
from nicemu.errors import UsageError
from tests.unit.nic.conftest import Bench

WELCOME = """
from nicemu.firmware import Connection, Nic, on_connect

@on_connect
def grant(nic: Nic, connection: Connection) -> dict[str, int]:
    return {}
"""


def test_queue_pairs_can_be_had_again_and_again(bench: Bench) -> None:
    bench.flash("there", WELCOME)
    for _ in range(registers.MAX_QUEUE_PAIRS + 10):
        bench.nic.disconnect(bench.nic.connect("there"))
    assert bench.here.queue_pairs.numbers == {}
    assert bench.there.queue_pairs.numbers == {}, "the peer heard of each"
    assert bench.nic.connected_peers() == []


def test_a_queue_pair_that_armed_work_names_is_given_back_only_by_force(bench: Bench) -> None:
    peer = bench.nic.connect("there")
    span = bench.nic.register(bench.nic.allocate((64,)))
    granted = peer.private_data
    go, done = bench.nic.counters("go", "done")
    with bench.nic.program("a write") as program:
        program.when(go >= 1).write(span, peer.span(granted["address"], 64, granted["rkey"]), then=done)
        program.when(go >= 1).add(done)
    program.arm()
    with pytest.raises(UsageError, match=r"queue pair \d+ is named by 1 armed operation \(EBUSY\)"):
        bench.nic.disconnect(peer)
    assert bench.nic.connected_peers() == ["there"]
    bench.nic.disconnect(peer, force=True)
    go.add()
    assert done.read() == (1, 0), "the count fired, the write was cancelled"
    assert bench.here.unit.slots_in_use == 0


def test_a_process_disconnects_no_queue_pair_of_another(bench: Bench) -> None:
    _, other = bench.open()
    theirs = other.connect("there")
    with pytest.raises(UsageError, match="is not one of this process"):
        bench.nic.disconnect(theirs, force=True)
    assert other.connected_peers() == ["there"]
    other.close()
