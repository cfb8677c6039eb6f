# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from nicemu.clock import VirtualClock
from nicemu.control import PipelineTarget
from nicemu.errors import UsageError
from nicemu.fabric import Port, loopback_pair
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_program, compile_text
from nicemu.pipeline import CloneSession, Engine, PacketIn, Replica, Report
from nicemu.programs import find_program
from nicemu.switch import LiveSwitch, SharedEngine, Summary, open_port
from nicemu.switch.live import MAX_SENT
from nicemu.wire import FrameBatch

from .conftest import SWITCH

LOGS = SWITCH.replace("if (h", 'log_msg("to {}", {h.h.port}); if (h', 1).replace("s.mcast_grp = 1;", "")


@pytest.fixture(params=["interpreter", "kernel"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """An engine that runs SWITCH, without its multicast where that is compiled."""
    made = Engine() if request.param == "interpreter" else CompiledEngine(optimised=False)
    made.load(compile_text(SWITCH.replace("else if (h.h.port == 0xfe) { s.mcast_grp = 1; }", "")).program)
    assert getattr(made, "interpreted_because", "") == ""
    return made


@pytest.fixture
def ended() -> Iterator[int]:
    descriptor = os.eventfd(0)
    yield descriptor
    os.close(descriptor)


def frame(first: int, length: int = 20) -> bytes:
    return bytes([first]) + bytes(length - 1)


def forwarded(
    engine: Engine,
    ports: Mapping[int, Port],
    ended: int,
    tell: Callable[[Summary], None] = lambda summary: None,
    seconds: float | None = None,
) -> Summary:
    with LiveSwitch(engine, ports) as switch:
        return switch.forward(ended, seconds, tell)


def test_frames_pass_between_ports_and_what_cannot_leave_is_counted(engine: Engine, ended: int) -> None:
    pairs = {number: loopback_pair() for number in (0, 1)}
    pairs[0][1].send([frame(1), frame(1, 30), frame(9), frame(0xFD), frame(0xFF)])
    pairs[1][1].send([frame(0)])

    def until_all(summary: Summary) -> None:
        if summary.packets == 6:
            os.eventfd_write(ended, 1)

    ports = {number: pair[0] for number, pair in pairs.items()}
    summary = forwarded(engine, ports, ended, until_all)
    assert pairs[1][1].receive() == [frame(1), frame(1, 30)]
    assert pairs[0][1].receive() == [frame(0)]
    assert summary.out == {1: 2, "host": 1, 0: 1}
    assert summary.dropped == {"pipeline.dropped": 1, "switch.no_such_port": 1}


@pytest.mark.parametrize("kind", [Engine, CompiledEngine])
def test_frames_that_come_before_a_controller_has_brought_a_program_are_dropped(
    kind: Callable[[], Engine], ended: int
) -> None:
    inner, outer = loopback_pair()
    outer.send([frame(1), frame(2)])
    summary = forwarded(kind(), {0: inner}, ended, lambda _: os.eventfd_write(ended, 1))
    assert (summary.packets, summary.out) == (2, {})
    assert summary.dropped == {"switch.no_program": 2}


def test_what_a_program_logs_is_heard(ended: int) -> None:
    engine = CompiledEngine(optimised=False)
    engine.load(compile_text(LOGS).program)
    assert engine.kernel is not None, engine.interpreted_because
    (inner, outer), heard = loopback_pair(), []
    outer.send([frame(1), frame(2)])

    def hear(time_ns: int, port: int, text: str) -> None:
        heard.append((port, text))
        os.eventfd_write(ended, len(heard) // 2)

    with LiveSwitch(engine, {3: inner}, hear) as switch:
        switch.forward(ended, 20)
    assert heard == [(3, "to 1"), (3, "to 2")]


def test_a_port_whose_queue_is_full_loses_what_does_not_fit(engine: Engine, ended: int) -> None:
    (inner, outer), (other, _) = loopback_pair(8), loopback_pair(2)
    outer.send([frame(1)] * 5)
    os.eventfd_write(ended, 0)

    def stop(summary: Summary) -> None:
        os.eventfd_write(ended, 1)

    summary = forwarded(engine, {0: inner, 1: other}, ended, stop)
    assert (summary.dropped, summary.out) == ({"switch.port_full": 3}, {1: 2})


class Refusing:
    """A port whose interface refuses the first frame of each batch, as one that is too long."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self.drops: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._port, name)

    def send(self, frames: Sequence[bytes]) -> int:
        self.drops["packet.EMSGSIZE"] += 1
        return 1 + self._port.send(list(frames[1:]))

    def send_batch(self, batch: FrameBatch) -> int:
        return self.send(list(batch.frames()))


def test_what_an_interface_refuses_has_not_left(engine: Engine, ended: int) -> None:
    (inner, outer), (other, beyond) = loopback_pair(), loopback_pair()
    outer.send([frame(1), frame(1, 30), frame(1, 40)])
    summary = forwarded(
        engine, {0: inner, 1: cast("Port", Refusing(other))}, ended, lambda _: os.eventfd_write(ended, 1)
    )
    assert beyond.receive() == [frame(1, 30), frame(1, 40)]
    assert (summary.out, summary.dropped) == ({1: 2}, {"packet.EMSGSIZE": 1})


def test_it_ends_when_its_time_is_over(engine: Engine, ended: int) -> None:
    inner, _ = loopback_pair()
    summary = forwarded(engine, {0: inner}, ended, seconds=0)
    assert summary.packets == 0


def test_an_interface_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no interface 'nowhere0'"):
        open_port("nowhere0")
    with pytest.raises(UsageError, match="xdp:NAME or tap:NAME was expected, and raw: is neither"):
        open_port("raw:nowhere0")


def test_a_controllers_work_is_done_on_the_engine_and_its_packets_enter_the_program() -> None:
    engine = Engine()
    engine.load(compile_program(find_program("p4/kvmatch.p4")).program)
    shared: PipelineTarget = SharedEngine(engine, threading.Lock())
    assert shared.run(lambda found: found) is engine
    assert shared.program is engine.program
    shared.inject(b"")
    assert engine.drops == {"parser.too_short": 1}


def test_what_a_controller_sends_leaves_by_the_ports_and_a_flood_of_it_waits(
    engine: Engine, ended: int
) -> None:
    (inner, outer), (other, far) = loopback_pair(), loopback_pair(2048)
    count = 3 * MAX_SENT

    def until_all(summary: Summary) -> None:
        if summary.packets == count + 1:
            os.eventfd_write(ended, 1)

    with LiveSwitch(engine, {0: inner, 1: other}) as switch:
        controller: PipelineTarget = switch

        def flood() -> None:
            for _ in range(count):
                controller.inject(frame(1))

        sender = threading.Thread(target=flood)
        sender.start()
        outer.send([frame(1, 30)])
        summary = switch.forward(ended, 20, until_all)
        sender.join()
        flood()  # nobody is kept waiting by a switch that has ended
    left = [item for _ in range(count) for item in far.receive()]
    assert sorted(left, key=len) == [*[frame(1)] * count, frame(1, 30)]
    assert summary.out == {1: count + 1}


def test_a_controller_is_not_kept_waiting_by_a_switch_that_failed(engine: Engine, ended: int) -> None:
    def fail(summary: Summary) -> None:
        raise UsageError("the disk is full")

    with LiveSwitch(engine, {}) as switch:
        with pytest.raises(UsageError, match="full"):
            switch.forward(ended, None, fail)
        sender = threading.Thread(
            target=lambda: list(map(switch.inject, [frame(1)] * (MAX_SENT + 1))), daemon=True
        )
        sender.start()
        sender.join(20)
        assert not sender.is_alive()


def test_what_has_become_of_packets_is_known_of_a_switch_that_failed(engine: Engine, ended: int) -> None:
    near, far = loopback_pair()
    far.send([frame(9), frame(9), frame(0xFD)])

    def fail(summary: Summary) -> None:
        raise UsageError("the disk is full")

    summary = Summary()
    with LiveSwitch(engine, {0: near}, summary=summary) as switch, pytest.raises(UsageError, match="full"):
        switch.forward(ended, None, fail)
    assert summary.packets == 3
    assert summary.dropped["switch.no_such_port"] == 2
    assert summary.out == {"host": 1}


def test_a_port_that_fails_ends_a_switch_with_its_own_error(
    engine: Engine, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = loopback_pair()
    far.send([frame(0xFD), frame(1)])
    full = loopback_pair()[0]

    def fail(*frames: object) -> int:
        raise OSError(28, "No space left on device", "out.pcap")  # as of a capture's disk

    for name in ("send", "send_batch"):
        monkeypatch.setattr(full, name, fail)
    summary = Summary()
    with (
        LiveSwitch(engine, {0: near, 1: full}, summary=summary) as switch,
        pytest.raises(OSError, match="No"),
    ):
        switch.forward(ended, 20)
    assert summary.packets == 2


def test_a_controller_s_work_is_done_at_the_time_that_it_is(engine: Engine) -> None:
    """So that an entry that it writes is idle from then on, and not since the last packet came."""
    clock = VirtualClock(5_000)
    with LiveSwitch(engine, {}, clock=clock) as switch:
        assert switch.run(lambda found: found.now_ns) == 0
        clock.advance_to(12_000)
        assert switch.run(lambda found: found.now_ns) == 7_000


def test_ingress_global_timestamp_counts_microseconds_since_the_switch_began(
    engine: Engine, ended: int
) -> None:
    """p4lang/behavioral-model, docs/simple_switch.md, section Intrinsic metadata header."""
    clock, (inner, outer) = VirtualClock(10**18), loopback_pair()
    outer.send([frame(1)])
    os.eventfd_write(ended, 0)
    with LiveSwitch(engine, {3: inner}, clock=clock) as switch:
        clock.advance_to(10**18 + 42_000)
        switch.forward(ended, None, lambda summary: os.eventfd_write(ended, 1))
    assert engine.objects.register("times").values[3] == 42


def test_what_a_program_logs_is_heard_with_the_time_of_the_wall(ended: int) -> None:
    engine = Engine()
    engine.load(compile_text(LOGS).program)
    (inner, outer), heard = loopback_pair(), []
    outer.send([frame(1)])
    os.eventfd_write(ended, 0)
    before = time.time_ns()
    with LiveSwitch(engine, {0: inner}, lambda at_ns, port, text: heard.append(at_ns)) as switch:
        switch.forward(ended, None, lambda summary: os.eventfd_write(ended, 1))
    assert before <= heard[0]


def heard_of_two(engine: Engine, ended: int) -> tuple[Summary, list[Report]]:
    """Return what a controller hears of two frames for the CPU port, and the summary."""
    inner, outer = loopback_pair()
    heard: list[Report] = []
    outer.send([frame(0xFD, 30), frame(0xFD)])

    def hear(report: Report) -> bool:
        heard.append(report)
        return True

    with LiveSwitch(engine, {0: inner}) as switch:
        switch.listen(hear)
        return switch.forward(ended, None, lambda summary: os.eventfd_write(ended, 1)), heard


def test_a_switch_has_no_host_and_its_controller_gets_what_leaves_by_the_cpu_port(
    engine: Engine, ended: int
) -> None:
    """As simple_switch_grpc does with its --cpu-port, also where no header of the program is a packet_in."""
    summary, heard = heard_of_two(engine, ended)
    assert heard == [PacketIn(frame(0xFD, 30)), PacketIn(frame(0xFD))]
    assert summary.out == {"host": 2}


WITH_HEADER = (
    SWITCH.replace(
        "struct headers_t {",
        '@controller_header("packet_in") header in_t { bit<8> reason; } struct headers_t { in_t told; ',
    )
    .replace("s.egress_spec = 510;", "s.egress_spec = 510; h.told = { 9 };")
    .replace("b.emit(h);", "b.emit(h.told); b.emit(h.h);")
)


@pytest.mark.parametrize("kind", [Engine, CompiledEngine])
@pytest.mark.parametrize("changed", ["", "s.mcast_grp = 1;"], ids=["sent there", "cloned"])
def test_a_controller_is_told_of_a_packet_once(kind: Callable[[], Engine], changed: str, ended: int) -> None:
    engine = kind()
    text = WITH_HEADER.replace(
        "s.egress_spec = 510;", "clone(CloneType.I2E, 3);" if changed else "s.egress_spec = 510;"
    )
    engine.load(compile_text(text).program)
    engine.objects.clone_sessions[3] = CloneSession((Replica(510),))
    _, heard = heard_of_two(engine, ended)
    assert len(heard) == 2


def test_what_is_no_frame_any_more_is_counted(ended: int) -> None:
    """A header that is not emitted makes a frame shorter than any interface takes."""
    engine = CompiledEngine(optimised=False)
    engine.load(compile_text(SWITCH.replace("b.emit(h);", "").replace("s.mcast_grp = 1;", "")).program)
    assert engine.kernel is not None, engine.interpreted_because
    (inner, outer), (other, far) = loopback_pair(), loopback_pair()
    outer.send([frame(1, 14), frame(1, 15)])
    os.eventfd_write(ended, 0)

    def stop(summary: Summary) -> None:
        os.eventfd_write(ended, 1)

    summary = forwarded(engine, {0: inner, 1: other}, ended, stop)
    assert summary.dropped == {"switch.no_frame": 1}
    assert far.receive() == [bytes(14)]


def test_a_program_may_change_between_two_batches(ended: int) -> None:
    engine = CompiledEngine(optimised=False)
    plain = SWITCH.replace("s.mcast_grp = 1;", "")
    engine.load(compile_text(plain).program)
    (inner, outer), (other, far) = loopback_pair(), loopback_pair()
    outer.send([frame(1), frame(0xFF)])
    longer = plain.replace("b.emit(h);", 3 * "b.emit(h); ")

    def next_program(summary: Summary) -> None:
        if summary.packets == 2:
            engine.load(compile_text(longer).program)
            outer.send([frame(1), frame(0xFF)])
        if summary.packets == 4:
            engine.load(
                compile_text(plain.replace("b.extract(h.h);", "verify(false, error.NoMatch);")).program
            )
            outer.send([frame(1)])
        if summary.packets == 5:
            os.eventfd_write(ended, 1)

    summary = forwarded(engine, {0: inner, 1: other}, ended, next_program)
    assert far.receive() == [frame(1), bytes([1, 1]) + frame(1)]
    assert summary.out == {1: 2, 0: 1}
    assert summary.dropped == {"pipeline.dropped": 2}
