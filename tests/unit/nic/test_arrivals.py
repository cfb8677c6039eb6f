# SPDX-License-Identifier: Apache-2.0
"""Immediates of peers: they count where they may, and are refused and counted where not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nicemu.abi import Opcode, WorkRequest
from nicemu.host import Peer
from nicemu.kv import STORE_FAILED
from tests.unit.nic.conftest import LIMITS, Bench

TRANSPORTS = pytest.mark.parametrize("transport", ["direct", "port"])


def echo(bench: Bench, peer: Peer, imm_data: int) -> None:
    """Have the peer NIC write back an immediate."""
    bench.nic.post(peer.qp_num, WorkRequest(Opcode.RDMA_WRITE_WITH_IMM, imm_data=imm_data))
    bench.simulation.run_until_idle()


@TRANSPORTS
def test_an_immediate_counts_on_a_remote_counter_of_its_domain(
    make_bench: Callable[..., Bench], transport: str
) -> None:
    bench = make_bench(transport)
    peer = bench.nic.connect("there")
    (counter,) = bench.nic.counters("durable", remote=True)
    echo(bench, peer, counter.index)
    echo(bench, peer, counter.index | STORE_FAILED)
    assert counter.read() == (1, 1)
    assert bench.there.drops["echo"] == 2
    assert bench.here.statistics()["immediate.refused"] == 0


@TRANSPORTS
def test_an_immediate_that_names_what_it_may_not_is_refused_and_counted(
    make_bench: Callable[..., Bench], transport: str
) -> None:
    bench = make_bench(transport)
    peer = bench.nic.connect("there")
    (private,) = bench.nic.counters("private")
    _, stranger = bench.open()
    (theirs,) = stranger.counters("theirs", remote=True)
    free = LIMITS.counter_count - 1
    queue_counter = int(bench.here.arena.queue_counters[peer.qp_num])
    named = [private.index, theirs.index, free, LIMITS.counter_count, (1 << 31) - 1, queue_counter, 0]
    before = bench.here.unit.state.counters.copy()
    for index in named:
        echo(bench, peer, index)
    assert bench.here.statistics()["immediate.refused"] == len(named)
    assert (bench.here.unit.state.counters["success"] == before["success"]).all()
    assert (bench.here.unit.state.counters["errors"] == before["errors"]).all()


def test_an_immediate_for_a_counter_that_was_closed_is_refused(bench: Bench) -> None:
    peer = bench.nic.connect("there")
    (counter,) = bench.nic.counters("durable", remote=True)
    counter.close()
    echo(bench, peer, counter.index)
    assert bench.here.statistics()["immediate.refused"] == 1


@TRANSPORTS
def test_a_region_counts_the_writes_that_arrive_in_it(
    make_bench: Callable[..., Bench], transport: str
) -> None:
    bench = make_bench(transport)
    bench.flash(
        "there",
        "from nicemu.firmware import on_arrival, on_connect\n"
        "buffers = {}\n"
        "@on_connect\n"
        "def grant(nic, connection):\n"
        "    buffers[connection.qp_num] = connection.private_data, nic.allocate(4096)\n"
        "    return {}\n"
        "@on_arrival\n"
        "async def back(nic, arrival):\n"
        "    target, buffer = buffers[arrival.qp_num]\n"
        "    nic.write(buffer.address, bytes([7]) * 64)\n"
        "    await nic.rdma_write(arrival.qp_num, buffer, 0, 64, target['address'], target['rkey'])\n",
    )
    memory = bench.nic.allocate((64,), np.uint8)
    (counter,) = bench.nic.counters("arrived")
    span = bench.nic.register(memory, counter)
    peer = bench.nic.connect("there", address=span.address, rkey=span.key)
    for _ in range(3):
        echo(bench, peer, 0)
    assert counter.read() == (3, 0)
    assert (memory.array == 7).all()


def test_a_doorbell_that_goes_backwards_counts_nothing_and_is_noted(bench: Bench) -> None:
    (counter,) = bench.nic.counters("rung")
    cell = int(bench.connection.request("doorbell_open", counter=counter.index)["cell"])
    for total in (5, 3, 4):
        bench.here.on_doorbell(1, cell, total, 0)
    assert counter.read() == (6, 0)
    assert bench.here.statistics()["doorbell.backwards"] == 1
    bench.here.on_doorbell(1, cell + 1, 9, 0)
    assert counter.read() == (6, 0), "a cell that nobody opened has rung"
