# SPDX-License-Identifier: Apache-2.0
"""What a NIC puts down of what it does, and when it has no room for more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nicemu.abi import Event, EventLog, Opcode, WorkRequest
from nicemu.nic.arena import NOTE_COUNT
from tests.unit.nic.conftest import Bench

COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])


def noting(bench: Bench) -> list[Event]:
    """Let "here" note what it does; return where that stands."""
    events: list[Event] = []
    bench.here.notes.begin(EventLog("nic", "here", events.append))
    return events


def journey(bench: Bench) -> list[dict[str, Any]]:
    """Fire a write, an atomic that fails, a counter operation; return what was noted, without times."""
    events = noting(bench)
    peer = bench.nic.connect("there")
    data = peer.private_data
    memory = bench.nic.allocate((4096,))
    local, remote = bench.nic.register(memory), peer.span(data["address"], 4096, data["rkey"])
    go, done, chained = bench.nic.counters("go", "done", "chained")
    (echoed,) = bench.nic.counters("echoed", remote=True)
    with bench.nic.program("three") as program:
        program.when(go >= 1).write(local, remote, imm_data=echoed.index, then=done)
        program.when(done >= 1).add(chained)
        program.when(echoed >= 1).fetch_add(local[0:8], remote[0:8], 1, then=done)
    program.arm()
    stream = bench.simulation.stream()
    go.trigger_after(stream, by=2)
    echoed.wait(1)
    bench.nic.post(peer.qp_num, WorkRequest(Opcode.RDMA_WRITE, (local.sge(),), signaled=True))
    assert [completion.status.name for completion in bench.nic.completions.wait(2)]
    bench.here.notes.drain()
    return [{name: value for name, value in event.items() if name != "ns"} for event in events]


@COMPILED
def test_every_step_of_a_chain_is_noted_in_order(make_bench: Callable[..., Bench], compiled: bool) -> None:
    noted = journey(make_bench(compiled=compiled))
    told = [
        (event["what"], event.get("opcode", event.get("source", event.get("status"))))
        for event in noted
        if event["what"] in ("fire", "end", "count", "entry", "arrival")
    ]
    assert told[:13] == [
        ("count", "doorbell"),
        ("fire", "RDMA_WRITE_WITH_IMM"),
        ("end", 0),
        ("count", "end"),
        ("fire", "COUNTER_ADD"),
        ("count", "work"),
        ("arrival", "RDMA_WRITE_WITH_IMM"),
        ("count", "arrival"),
        ("fire", "FETCH_ADD"),
        ("entry", "end"),
        ("end", 10),
        ("count", "end"),
        ("fire", "RDMA_WRITE"),
    ]
    fired = next(event for event in noted if event["what"] == "fire")
    assert fired["pieces"][0][1] == 4096
    names = [event["name"] for event in noted if event["what"] == "counter"]
    assert names == ["go", "done", "chained", "echoed"]
    pair = next(event for event in noted if event["what"] == "pair")
    assert (pair["peer"], pair["owner"]) == ("there", 1)


def test_both_ways_of_running_note_the_same(make_bench: Callable[..., Bench]) -> None:
    assert journey(make_bench(compiled=True)) == journey(make_bench(compiled=False))


def test_nothing_is_noted_unless_somebody_wants_it(bench: Bench) -> None:
    (counter,) = bench.nic.counters("counter")
    counter.add()
    assert not bench.here.notes.wanted
    assert int(bench.here.arena.link[0].note_tail) == 0


def test_notes_that_find_no_room_are_counted_and_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    events = noting(bench)
    (counter,) = bench.nic.counters("counter")
    monkeypatch.setattr(bench.here.notes, "drain", lambda: None)
    link = bench.here.arena.link
    link["note_tail"] += NOTE_COUNT - 1  # room for one
    bench.here.notes._head += NOTE_COUNT - 1
    counter.add()
    counter.add()
    counter.add()
    monkeypatch.undo()
    assert int(link[0].notes_lost) == 2
    bench.here.notes.drain()
    assert [event["count"] for event in events if event["what"] == "lost"] == [2]
    counter.add()
    bench.here.notes.drain()
    assert events[-1]["what"] == "count"
    assert events[-1]["success"] == 4
