# SPDX-License-Identifier: Apache-2.0
"""A late engine interprets a program until its kernel comes; no packet can tell which of them it met."""

from __future__ import annotations

import os
import queue
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from nicemu.hot import JIT
from nicemu.p4 import compile_text
from nicemu.pipeline import Disposition, Exact, MeterConfig, Program, TableEntry, Verdict
from nicemu.run.late_engine import LateEngine

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

SOURCE = """
#include <core.p4>
#include <nicemu.p4>
header tag_t { bit<16> value; }
struct headers_t { tag_t tag; }
struct m_t { }
parser P(packet_in packet, out headers_t h, inout m_t m, inout nic_metadata_t nic) {
    state start { packet.extract(h.tag); transition accept; }
}
control C(inout headers_t h, inout m_t m, inout nic_metadata_t nic) {
    action go(bit<16> port) { send_to_port(port); }
    action stop() { drop_packet(); }
    table t { key = { h.tag.value: exact; } actions = { go; stop; } default_action = stop; size = SIZE; }
    apply { t.apply(); }
}
control D(packet_out packet, in headers_t h, in m_t m, in nic_metadata_t nic) { apply { packet.emit(h); } }
SmartNic(P(), C(), D()) main;
"""
HUGE = """
parser P(packet_in b, out headers_t h, inout m_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(4) known;
    state start { b.extract(h.tag); transition select(h.tag.value) { known: accept; default: accept; } }
}
control V(inout headers_t h, inout m_t m) { apply { } }
control I(inout headers_t h, inout m_t m, inout standard_metadata_t s) {
    meter(16, MeterType.packets) rates;
    register<bit<4096>>(268435456) large;
    bit<8> colour;
    apply { rates.execute_meter((bit<32>) 0, colour); large.write(0, 1); s.egress_spec = 1; }
}
control E(inout headers_t h, inout m_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout m_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
WAIT_S = 120.0
FRAMES = 4
Work = Callable[[], None]


def program(size: int = 8) -> Program:
    return compile_text(SOURCE.replace("SIZE", str(size))).program


class Owner:
    """The thread that an engine belongs to: it does what it is handed when it is told to."""

    def __init__(self) -> None:
        self.drops: Counter[str] = Counter()
        self._work: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self.engine = LateEngine(self._work.put, self.drops, FRAMES)

    def handed(self) -> Work:
        """Wait for one piece of work and return it."""
        return self._work.get(timeout=WAIT_S)

    def turn(self) -> None:
        """Wait for one piece of work and do it."""
        self.handed()()

    def warm_up(self) -> None:
        """Give the engine as many packets as make it want a kernel."""
        for _ in range(FRAMES):
            self.treat(0xFFFF)

    def allow(self, value: int, port: int) -> None:
        """Have packets with this value leave by a port."""
        self.engine.insert("t", TableEntry((Exact(value),), "go", (port,)))

    def treat(self, value: int) -> Verdict:
        """Give the engine a packet."""
        return self.engine.process(value.to_bytes(2, "big") + b"rest", 0, now_ns=7)


def test_packets_are_interpreted_until_the_kernel_comes_and_are_treated_alike_by_both() -> None:
    owner = Owner()
    owner.engine.load(program())
    owner.allow(5, 1)
    assert owner.engine.interpreted_because == "it has met fewer than 4 frames"
    before = [owner.treat(value) for value in (5, 6, 5, 6)]
    assert owner.engine.kernel is None
    assert owner.engine.interpreted_because == "its kernel is being compiled"
    owner.turn()
    assert owner.engine.kernel is not None
    assert owner.engine.interpreted_because == ""
    assert [owner.treat(value) for value in (5, 6, 5, 6)] == before
    assert [verdict.disposition for verdict in before[:2]] == [Disposition.PORT, Disposition.DROP]
    assert owner.engine.hits("t", (Exact(5),)) == 4
    assert owner.drops["pipeline.dropped"] == 4


def test_where_no_thread_can_be_started_packets_are_interpreted_and_another_is_tried_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = Owner()
    owner.engine.load(program())
    owner.allow(5, 1)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert [owner.treat(5).port for _ in range(FRAMES)] == [1] * FRAMES
    assert owner.engine.interpreted_because == "its kernel is not being compiled yet: can't start new thread"
    owner.warm_up()
    owner.turn()
    assert owner.engine.interpreted_because == ""
    assert owner.treat(5).port == 1


def test_entries_that_come_before_and_after_the_kernel_are_in_it() -> None:
    owner = Owner()
    owner.engine.load(program())
    owner.allow(5, 1)
    owner.warm_up()
    owner.turn()
    owner.allow(6, 2)
    owner.engine.delete("t", (Exact(5),))
    assert [owner.treat(value).port for value in (5, 6)] == [0, 2]
    assert owner.treat(5).disposition is Disposition.DROP


def test_a_staged_program_is_adopted_at_once_and_its_kernel_comes_later() -> None:
    owner = Owner()
    owner.engine.load(program())
    owner.warm_up()
    owner.turn()
    staged = owner.engine.staged(program(16))
    staged.insert("t", TableEntry((Exact(9),), "go", (3,)))
    owner.engine.adopt(staged)
    assert owner.engine.kernel is None
    assert owner.treat(9).port == 3
    owner.warm_up()
    owner.turn()
    assert owner.engine.kernel is not None
    assert owner.treat(9).port == 3
    assert owner.engine.hits("t", (Exact(9),)) == 2


def test_the_kernel_of_a_program_that_runs_no_longer_is_not_used() -> None:
    owner = Owner()
    owner.engine.load(program())
    owner.warm_up()
    arrival = owner.handed()
    owner.engine.load(program(16))
    owner.allow(5, 1)
    arrival()
    assert owner.engine.kernel is None
    assert owner.engine.interpreted_because == "it has met fewer than 4 frames"
    owner.warm_up()
    owner.turn()
    assert owner.engine.kernel is not None
    assert owner.engine.kernel.program.tables[0].size == 16
    assert owner.treat(5).port == 1


def test_a_program_that_cannot_be_compiled_stays_interpreted_and_says_why() -> None:
    owner = Owner()
    text = SOURCE.replace("SIZE", "8").replace(
        "h.tag.value: exact;", 'h.tag.value: exact; 0w0: exact @name("none");'
    )
    owner.engine.load(compile_text(text).program)
    owner.warm_up()
    owner.turn()
    assert owner.engine.kernel is None
    assert owner.engine.interpreted_because == "C.t has a key of no bits"
    assert owner.treat(5).disposition is Disposition.DROP


def test_a_kernel_that_has_no_room_leaves_everything_as_it_was() -> None:
    owner = Owner()
    text = SOURCE.replace("SIZE", "8").replace("nicemu.p4", "v1model.p4")
    text = text[: text.index("parser P")] + HUGE
    owner.engine.load(compile_text(text).program)
    owner.engine.objects.meter("rates").configure(0, MeterConfig(1, 1, 1, 1), 0)
    before = owner.treat(5)
    owner.warm_up()
    owner.turn()
    assert owner.engine.kernel is None
    assert "cannot be reserved" in owner.engine.interpreted_because
    owner.engine.objects.value_set("known").replace([(Exact(1),)])
    assert owner.treat(5).frame == before.frame


@pytest.mark.parametrize("present", [0, 15])
def test_a_compiler_takes_no_more_of_the_processor_than_its_nic_may(
    present: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    def set_priority(which: int, thread: int, niceness: int) -> None:
        given.append(niceness)
        raise PermissionError

    monkeypatch.setattr(os, "getpriority", lambda which, process: present)
    monkeypatch.setattr(os, "setpriority", set_priority)
    owner = Owner()
    owner.engine.load(program())
    owner.warm_up()
    owner.turn()
    assert given == [max(10, present)]
    assert owner.engine.kernel is not None


def test_what_no_one_expected_is_told_and_the_program_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(engine: LateEngine, kernel: object) -> None:
        raise ValueError("a surprise")

    monkeypatch.setattr(LateEngine, "use", fail)
    owner = Owner()
    owner.engine.load(program())
    owner.warm_up()
    owner.turn()
    assert owner.engine.interpreted_because == "its kernel could not be used: ValueError('a surprise')"
    assert "a surprise" in capsys.readouterr().err
    assert owner.treat(5).disposition is Disposition.DROP
