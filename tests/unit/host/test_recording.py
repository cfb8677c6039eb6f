# SPDX-License-Identifier: Apache-2.0
"""What a host program's calls put down when races are checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nicemu.abi import Event, EventLog, file_writer
from nicemu.errors import UsageError
from nicemu.host import HostStream, Memory, Nic, Span, recording
from nicemu.nic import NicConfig
from nicemu.run import Simulation
from nicemu.testing import read_logs


@pytest.fixture
def simulation() -> Simulation:
    return Simulation([NicConfig("here", "127.0.1.1", 1, 1 << 20)], check_races=True)


@pytest.fixture
def nic(simulation: Simulation) -> Iterator[Nic]:
    with Nic(simulation.open_nic("here")) as nic:
        yield nic


def test_a_view_is_the_array_and_declares_an_access(simulation: Simulation, nic: Nic) -> None:
    memory = nic.allocate((4, 8), np.uint16)
    assert memory.view("w") is memory.array
    assert simulation.host_log is not None
    event = simulation.logs[0][-1]
    assert (event["what"], event["mode"], event["length_bytes"]) == ("access", "w", 64)
    assert event["place"].startswith(__file__)


def test_a_view_of_a_span_is_its_bytes(simulation: Simulation, nic: Nic) -> None:
    memory = nic.allocate((4, 8), np.uint16)
    span = nic.register(memory)
    memory.view("w", span[2:4])[:] = 0xFF
    assert memory.array.reshape(-1).tolist()[:3] == [0, 0xFFFF, 0]
    event = simulation.logs[0][-1]
    assert (event["address"], event["length_bytes"]) == (span.address + 2, 2)


@pytest.mark.parametrize("mode", ["", "x", "wr"])
def test_a_view_for_nothing_known_is_refused(nic: Nic, mode: str) -> None:
    with pytest.raises(UsageError, match='to read, "r"'):
        nic.allocate((8,)).view(mode)


def test_a_span_of_other_memory_is_refused(nic: Nic) -> None:
    memory, other = nic.allocate((8,)), nic.register(nic.allocate((8,)))
    with pytest.raises(UsageError, match="does not lie in this memory"):
        memory.view("r", other)


def test_a_view_without_a_log_is_the_array_alone() -> None:
    simulation = Simulation([NicConfig("here", "127.0.1.1", 1, 1 << 20)])
    with Nic(simulation.open_nic("here")) as nic:
        memory: Memory = nic.allocate((8,))
        assert memory.view("r") is memory.array
        assert simulation.logs == []


def test_a_wait_puts_down_what_was_waited_for_and_not_what_was_there(
    simulation: Simulation, nic: Nic
) -> None:
    (counter,) = nic.counters("counter")
    counter.add(5)
    counter.wait(2)
    counter.read()
    seen = [event["success"] for event in simulation.logs[0] if event["what"] == "seen"]
    assert seen == [2, 5]


def test_operations_are_named_after_the_line_that_wrote_them(simulation: Simulation, nic: Nic) -> None:
    (counter,) = nic.counters("counter")
    with nic.program("adds") as program:
        program.when(counter >= 1).add(counter)
        program.when(counter >= 2).add(counter)
    program.arm()
    told = simulation.logs[0][-1]
    assert (told["what"], told["name"]) == ("program", "adds")
    first, second = (place.rsplit(":", 1) for place in told["steps"])
    assert first[0] == second[0] == __file__
    assert int(second[1]) == int(first[1]) + 1


def test_a_process_s_log_is_a_file_that_can_be_read_while_it_grows(tmp_path: Path) -> None:
    log = EventLog("host", "process 1", file_writer(tmp_path / "host-1.events"))
    log.add("packet", nic="here")
    with (tmp_path / "host-1.events").open("ab") as file:
        file.write(b'{"what": "half')
    (events,) = read_logs(tmp_path)
    assert [event["what"] for event in events] == ["log", "packet"]
    with pytest.raises(UsageError, match="--check-races"):
        read_logs(tmp_path / "nothing")


def test_a_host_stream_tells_the_process_s_log(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = []
    monkeypatch.setattr(recording, "_log", EventLog("host", "process", events.append))
    stream = HostStream()
    stream.submit(lambda: 7, reads=[Span(0x1000, 8, 1)], writes=[Span(0x2000, 8, 1)])
    assert stream.synchronize() == [7]
    stream.close()
    assert [event["what"] for event in events] == ["log", "submit", "synchronize"]
    assert events[1]["accesses"] == [[0x1000, 8, 1, "r"], [0x2000, 8, 1, "w"]]
