# SPDX-License-Identifier: Apache-2.0
"""Host processes at one NIC: what is another's is refused, and what a process had goes when it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nicemu.abi import CommandCode, DeferredWork, Opcode, Sge, Span, WorkRequest, registers
from nicemu.errors import NicemuError, ResourceError, UsageError, VerbsStatus
from nicemu.host import CompletionQueue, Memory, Nic, Peer
from tests.unit.nic.conftest import LIMITS, Bench, request_frame

TRANSPORTS = pytest.mark.parametrize("transport", ["direct", "port"])


class Stranger:
    """Another process at the same NIC, with something of everything."""

    def __init__(self, bench: Bench) -> None:
        self.connection, self.nic = bench.open()
        (self.counter,) = self.nic.counters("theirs")
        self.memory = self.nic.allocate((4096,), np.uint8)
        self.span = self.nic.register(self.memory)
        self.peer = self.nic.connect("there")


@pytest.fixture
def stranger(bench: Bench) -> Stranger:
    return Stranger(bench)


def test_counters_of_another_process_are_refused(bench: Bench, stranger: Stranger) -> None:
    theirs = stranger.counter.index
    (mine,) = bench.nic.counters("mine")
    for operation, operands in (
        ("counter_close", {"counter": theirs}),
        ("doorbell_open", {"counter": theirs}),
        ("register", {"address": stranger.memory.address, "length_bytes": 8, "counter": theirs}),
    ):
        with pytest.raises(UsageError, match=f"counter {theirs} is not one of this process"):
            bench.connection.request(operation, **operands)
    for code, words in (
        (CommandCode.COUNTER_ADD, (theirs, 1, 0)),
        (CommandCode.COUNTER_SET, (theirs, 1, 0, 3)),
        (CommandCode.CANCEL_COUNTER, (theirs,)),
    ):
        with pytest.raises(UsageError, match="invalid"):
            bench.nic.command(code, *words)
    for trigger, target in ((theirs, mine.index), (mine.index, theirs)):  # by records of its own
        work = DeferredWork(trigger, 1, Opcode.COUNTER_ADD, target=target, value=1)
        with pytest.raises(UsageError, match="permission"):
            bench.nic.arm([work])
    assert stranger.counter.read() == (0, 0)
    assert bench.here.unit.slots_in_use == 0


def test_work_of_another_process_is_not_cancelled(bench: Bench, stranger: Stranger) -> None:
    with stranger.nic.program("theirs") as program:
        program.when(stranger.counter >= 1).add(stranger.counter, 5)
    program.arm()
    (handle,) = program.handles
    assert not bench.nic.cancel(handle)
    assert bench.nic.flush() == 0
    stranger.counter.add(1)
    assert stranger.counter.read() == (6, 0)


def test_memory_and_keys_of_another_process_are_refused(bench: Bench, stranger: Stranger) -> None:
    with pytest.raises(UsageError, match="belongs to another process"):
        bench.connection.request("register", address=stranger.memory.address, length_bytes=8)
    with pytest.raises(UsageError, match="is not one of this process"):
        bench.nic.deregister(stranger.span)
    with pytest.raises(UsageError, match="is not one of this process"):
        bench.nic.post_landing(0, stranger.span)
    peer = bench.nic.connect("there")
    stranger.memory.array[:] = 7
    queue = CompletionQueue(bench.connection)
    bench.nic.write(stranger.span, remote(peer, 4096))
    (completion,) = queue.wait(1)
    assert completion.status is VerbsStatus.LOC_PROT_ERR
    assert set(granted_bytes(bench, peer)) == {0}


def test_queue_pairs_of_another_process_are_refused(bench: Bench, stranger: Stranger) -> None:
    mine = bench.nic.register(bench.nic.allocate((64,), np.uint8))
    (counter,) = bench.nic.counters("mine")
    with pytest.raises(UsageError, match="permission"):
        bench.nic.write(mine, stranger.peer.span(stranger.peer.private_data["address"], 64, 1))
    with bench.nic.program("theirs") as program:
        program.when(counter >= 1).write(mine, stranger.peer.span(0, 64, 1))
    with pytest.raises(UsageError, match="permission"):
        program.arm()


def remote(peer: Peer, length_bytes: int, offset_bytes: int = 0) -> Any:  # noqa: ANN401 - a RemoteSpan
    granted = peer.private_data
    return peer.span(granted["address"] + offset_bytes, length_bytes, granted["rkey"])


def granted_bytes(bench: Bench, peer: Peer) -> bytes:
    granted = peer.private_data
    return bench.there.memory.space.read(granted["address"], granted["length_bytes"], "test")


def state_of(bench: Bench) -> dict[str, Any]:
    """Everything that a process may take of a NIC."""
    unit = bench.here.unit
    return {
        "slots": unit.slots_in_use,
        "counters": int((unit.state.counters["allocated"] != 0).sum()),
        "regions": len(bench.here.memory.table.regions),
        "pieces": sorted(bench.here.memory.pieces),
        "queue_pairs": sorted(bench.here.queue_pairs.numbers),
        "peer_queue_pairs": sorted(bench.there.queue_pairs.numbers),
        "landing": len(bench.here.card.landing),
        "owners": sorted(bench.here.owners),
        "signals": len(bench.here.card.signals),
        "backings": int((bench.here.arena.rdma.backings != 0).sum()),
        "cells": int((bench.here.arena.doorbells[2] != -1).sum()),
    }


@TRANSPORTS
def test_all_that_a_process_had_is_free_again_when_it_leaves(
    make_bench: Callable[..., Bench], transport: str
) -> None:
    bench = make_bench(transport)
    before = state_of(bench)
    for _ in range(3):
        leaving = Stranger(bench)
        leaving.counter.trigger_after(bench.simulation.stream())
        with leaving.nic.program("armed") as program:
            program.when(leaving.counter >= 100).write(leaving.span, remote(leaving.peer, 4096))
            program.when(leaving.counter >= 101).add(leaving.counter, 1)
        program.arm()
        leaving.nic.post_landing(3, leaving.span)
        leaving.nic.listen()
        keys = list(bench.here.owners[2].keys)
        address = leaving.memory.address
        assert state_of(bench) != before
        leaving.nic.close()
        assert {**state_of(bench), "cells": before["cells"]} == before
        assert not any(key in bench.here.memory.table.regions for key in keys)
        with pytest.raises(UsageError):
            bench.here.memory.space.find(address, 1)
    bench.arrive(request_frame())
    assert bench.drops()["host.nobody_listens"] == 1


def test_places_for_processes_run_out_and_come_back(bench: Bench) -> None:
    opened = [bench.open() for _ in range(registers.MAX_OWNERS - 2)]
    with pytest.raises(ResourceError, match=f"{registers.MAX_OWNERS - 1} processes have here open"):
        bench.open()
    opened[0][1].close()
    _, nic = bench.open()
    assert nic.counters("one")[0].read() == (0, 0)


def test_one_process_alone_receives_packets(bench: Bench) -> None:
    bench.nic.listen()
    _, other = bench.open()
    with pytest.raises(UsageError, match="another process receives"):
        other.listen()
    bench.nic.close()
    other.listen()


# Taking keys back


def armed_write(bench: Bench) -> tuple[Nic, Peer, Memory, Span, Any]:
    """Arm a write of 4096 bytes at threshold 1; return what it needs, and its trigger."""
    nic = bench.nic
    peer = nic.connect("there")
    memory = nic.allocate((4096,), np.uint8)
    memory.array[:] = 0x5A
    span = nic.register(memory)
    (trigger,) = nic.counters("trigger")
    (done,) = nic.counters("done")
    with nic.program("write") as program:
        program.when(trigger >= 1).write(span, remote(peer, 4096, 1024), then=done)
    program.arm()
    return nic, peer, memory, span, (trigger, done)


@TRANSPORTS
def test_a_key_that_armed_work_uses_is_busy(make_bench: Callable[..., Bench], transport: str) -> None:
    bench = make_bench(transport)
    nic, peer, _, span, (trigger, done) = armed_write(bench)
    with pytest.raises(UsageError, match=r"key .* is used by 1 armed operation \(EBUSY\)"):
        nic.deregister(span)
    trigger.add(1)
    done.wait(1)
    assert granted_bytes(bench, peer) == bytes(1024) + b"\x5a" * 4096 + bytes(3072)
    nic.deregister(span)


@TRANSPORTS
def test_a_key_taken_back_by_force_completes_its_work_in_error_and_nothing_is_touched(
    make_bench: Callable[..., Bench], transport: str
) -> None:
    bench = make_bench(transport)
    nic, peer, _, span, (trigger, done) = armed_write(bench)
    nic.deregister(span, force=True)
    trigger.add(1)
    bench.simulation.run_until_idle()
    assert done.read() == (0, 1)
    assert granted_bytes(bench, peer) == bytes(8192)
    assert bench.here.unit.slots_in_use == 0


@TRANSPORTS
@pytest.mark.parametrize(
    ("offset", "length", "rkey_step"),
    [(8192 - 4095, 4096, 0), (-1, 4096, 0), (8192, 1, 0), (0, 4096, 1), (0, 4096, 1 << 12)],
    ids=["past the end", "before the start", "just behind", "another index", "another tag"],
)
def test_a_write_outside_its_region_touches_no_byte_and_says_so(
    make_bench: Callable[..., Bench], transport: str, offset: int, length: int, rkey_step: int
) -> None:
    bench = make_bench(transport)
    peer = bench.nic.connect("there")
    memory = bench.nic.allocate((4096,), np.uint8)
    memory.array[:] = 0x5A
    span = bench.nic.register(memory)
    granted = peer.private_data
    own = bench.there.memory.own.window.backing.view
    before = bytes(own)
    work = WorkRequest(
        Opcode.RDMA_WRITE,
        (Sge(span.address, length, span.key),),
        granted["address"] + offset,
        granted["rkey"] + rkey_step,
        signaled=True,
        wr_id=9,
    )
    queue = CompletionQueue(bench.connection)
    bench.nic.post(peer.qp_num, work)
    (completion,) = queue.wait(1)
    assert completion.status is VerbsStatus.REM_ACCESS_ERR
    assert completion.wr_id == 9
    assert bytes(own) == before
    bench.nic.post(peer.qp_num, work)
    (flushed,) = queue.wait(1)
    assert flushed.status is VerbsStatus.WR_FLUSH_ERR
    assert bench.nic.connected_peers() == []


@TRANSPORTS
def test_a_read_or_atomic_without_the_right_is_refused(
    make_bench: Callable[..., Bench], transport: str
) -> None:
    bench = make_bench(transport)
    memory = bench.nic.allocate((64,), np.uint8)
    span = bench.nic.register(memory)
    peer = bench.nic.connect("there")  # its buffer grants no remote atomics
    granted = peer.private_data
    queue = CompletionQueue(bench.connection)
    sge = (Sge(span.address, 8, span.key),)
    work = WorkRequest(
        Opcode.FETCH_ADD, sge, granted["address"], granted["rkey"], compare_add=1, signaled=True
    )
    bench.nic.post(peer.qp_num, work)
    (completion,) = queue.wait(1)
    assert completion.status is VerbsStatus.REM_ACCESS_ERR
    assert set(granted_bytes(bench, peer)) == {0}


def test_a_peer_that_disconnects_leaves_the_queue_pair_of_a_process_in_error_for_it_to_destroy(
    bench: Bench,
) -> None:
    peer = bench.nic.connect("there")
    bench.here.connections.lost(peer.qp_num, 0)
    assert bench.nic.connected_peers() == []
    assert list(bench.here.queue_pairs.numbers) == [peer.qp_num]
    bench.nic.close()
    assert bench.here.queue_pairs.numbers == {}


def test_unknown_operations_and_operands_are_refused_with_a_sentence(bench: Bench) -> None:
    for operation, operands in (
        ("no_such_thing", {}),
        ("counter_open", {}),
        ("counter_open", {"name": "x", "more": 1}),
        ("register", {"address": 1 << 70, "length_bytes": 1}),
        ("register", {"address": 0, "length_bytes": -1}),
        ("landing_post", {"index": 0, "address": 0, "length_bytes": 1, "key": 1}),
        ("deregister", {"key": 0}),
    ):
        with pytest.raises(NicemuError):
            bench.connection.request(operation, **operands)


def test_counters_run_out_with_a_reason(bench: Bench) -> None:
    with pytest.raises(ResourceError, match=f"all {LIMITS.counter_count} counters are in use"):
        bench.nic.counters(*[f"c{number}" for number in range(LIMITS.counter_count)])
