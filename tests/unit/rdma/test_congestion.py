# SPDX-License-Identifier: Apache-2.0
"""DCQCN: marks are told to the peer, what the peer tells lowers the rate, time and bytes raise it again.

Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015; InfiniBand
Architecture Specification Volume 1, Annex A17 "RoCEv2", "Congestion Notification Packet"; RFC 3168.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from nicemu.abi import Opcode
from nicemu.errors import UsageError, VerbsStatus
from nicemu.rdma import new_state
from nicemu.rdma.dcqcn import Dcqcn
from nicemu.rdma.roce import QpType, RoceEngine
from nicemu.rdma.roce_state import IS_LIMITED
from nicemu.wire import CNP_OPCODE, RcOpcode, RoceFramer, decode_roce_frame, internet_checksum, parse_ipv4

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.rdma.conftest import TwoEngines

    Connect = Callable[..., TwoEngines]
A, B = 0x1000, 0x80000
MTU = 1024
LINE = 12.5
"""The default rate of the line, in bytes a nanosecond."""
SETTINGS = Dcqcn()


def connected(connect: Connect, **more: object) -> TwoEngines:
    """Return engines with congestion control, and memory of 256 KiB each."""
    options = {"path_mtu": MTU, "psns": (0, 0), "congestion_control": True, "timeout_ns": 0, **more}
    pair = connect(**options)
    for node, address in ((pair.a, A), (pair.b, B)):
        node.memory.register(address, bytes(range(256)) * 1024)
    return pair


def marked(frame: bytes) -> bytes:
    """Return a frame as a congested router leaves it."""
    changed = bytearray(frame)
    assert changed[15] & 3 == 2, "the ends have to say that they understand marks"
    changed[15] |= 3
    changed[24:26] = bytes(2)
    changed[24:26] = internet_checksum(bytes(changed[14:34])).to_bytes(2, "big")
    return bytes(changed)


def write(pair: TwoEngines, length: int = 100 * MTU) -> None:
    assert pair.post(Opcode.RDMA_WRITE, 0x100, [(A, length)], remote_address=B, rkey=0x100)


def framer_from(number: int) -> RoceFramer:
    """Return what makes frames of a node for node a."""
    macs = bytes([2, 0, 0, 0, 0, number]), b"\2\0\0\0\0\1"
    return RoceFramer(*macs, parse_ipv4(f"10.0.0.{number}"), parse_ipv4("10.0.0.1"))


def cnp(pair: TwoEngines) -> bytes:
    """Return what node b sends when it has met a mark."""
    return framer_from(2).cnp(pair.A_QP)


def rate(pair: TwoEngines) -> float:
    """Return the rate of node a, in bytes a nanosecond; that of the line where there is no limit."""
    state = pair.a.engine._state
    return float(state.extras[0].rate) if state.queue_pairs[0].features & IS_LIMITED else LINE


def test_a_mark_is_answered_by_a_notification_before_all_else(connect: Connect) -> None:
    pair = connected(connect)
    write(pair, MTU)
    (frame,) = pair.a.engine.take_frames()
    pair.b.engine.on_frame(marked(frame), 1000)
    told, answer = pair.b.engine.take_frames()
    assert answer[42] == RcOpcode.ACKNOWLEDGE
    packet = decode_roce_frame(told)
    assert (packet.bth.opcode, packet.bth.destination_qp, packet.bth.psn) == (CNP_OPCODE, pair.A_QP, 0)
    assert (packet.bth.becn, packet.bth.fecn, packet.bth.ack_request) == (True, False, False)
    assert (len(told), told[54:70]) == (14 + 20 + 8 + 12 + 16 + 4, bytes(16))
    assert pair.b.engine.take_arrivals()[0].byte_len == MTU  # a mark is no fault


def test_one_notification_an_interval_is_sent_at_most(connect: Connect) -> None:
    pair = connected(connect)
    write(pair, 40 * MTU)
    frames = pair.a.engine.take_frames()
    times = [0, 10_000, 49_999, 50_000, 60_000, 100_001]
    told = []
    for frame, now_ns in zip(frames, times, strict=False):
        pair.b.engine.on_frame(marked(frame), now_ns)
        said = [one[42] for one in pair.b.engine.take_frames()]
        told.append(CNP_OPCODE in said)
    assert told == [True, False, False, True, False, True]


def test_without_marks_nothing_is_notified_and_nothing_limited(connect: Connect) -> None:
    pair = connected(connect)
    write(pair)
    pair.run()
    assert CNP_OPCODE not in {frame[42] for frame in pair.frames_sent}
    assert rate(pair) == LINE
    assert pair.a.engine.next_deadline_ns() is None


def test_frames_say_that_the_ends_understand_marks_where_they_do(connect: Connect) -> None:
    for is_on, service in ((True, 0b10), (False, 0)):
        pair = connected(connect, congestion_control=is_on, traffic_class=104)
        write(pair)
        assert {frame[15] for frame in pair.a.engine.take_frames()} == {104 | service}


def test_without_congestion_control_marks_and_notifications_change_nothing(connect: Connect) -> None:
    pair = connected(connect, congestion_control=False)
    write(pair, 40 * MTU)
    for frame in pair.a.engine.take_frames():
        changed = bytearray(frame)
        changed[15] |= 3
        changed[24:26] = bytes(2)
        changed[24:26] = internet_checksum(bytes(changed[14:34])).to_bytes(2, "big")
        pair.b.engine.on_frame(bytes(changed), 0)
    answers = pair.b.engine.take_frames()
    assert {frame[42] for frame in answers} == {int(RcOpcode.ACKNOWLEDGE)}
    pair.a.engine.on_frame(cnp(pair), 0)
    assert pair.a.drops == {"congestion.not_asked_for": 1}
    for frame in answers:
        pair.a.engine.on_frame(frame, 0)
    assert [done.status for done in pair.a.engine.take_completions()] == [VerbsStatus.SUCCESS]


def test_the_first_notification_halves_the_rate_and_the_next_by_less(connect: Connect) -> None:
    pair = connected(connect)
    pair.a.engine.on_frame(cnp(pair), 0)
    assert rate(pair) == LINE / 2
    pair.a.engine.on_frame(cnp(pair), 50_000)
    assert rate(pair) == LINE / 4  # alpha is 1 as long as it is notified
    pair.a.engine.on_frame(cnp(pair), 50_000 + 20 * 55_000)
    alpha = (1 - SETTINGS.g) ** 20
    state = pair.a.engine._state.extras[0]
    assert state.alpha == pytest.approx((1 - SETTINGS.g) * alpha + SETTINGS.g)
    assert rate(pair) == pytest.approx(state.target_rate * (1 - alpha / 2))


def test_frames_leave_at_the_rate_and_by_deadlines(connect: Connect) -> None:
    pair = connected(connect)
    pair.a.engine.on_frame(cnp(pair), 0)
    write(pair, 40 * MTU)
    (frame,) = pair.a.engine.take_frames()
    sent, now_ns = len(frame), 0
    while sent < 30 * MTU:
        deadline_ns = pair.a.engine.next_deadline_ns()
        assert deadline_ns is not None
        assert deadline_ns > now_ns
        pair.a.engine.on_timer(deadline_ns - 1)
        assert pair.a.engine.take_frames() == []
        now_ns = deadline_ns
        pair.a.engine.on_timer(now_ns)
        (frame,) = pair.a.engine.take_frames()
        sent += len(frame)
    assert sent / now_ns == pytest.approx(LINE / 2, rel=0.05)


def test_answers_without_data_are_not_held_back(connect: Connect) -> None:
    pair = connected(connect)
    pair.a.engine.on_frame(cnp(pair), 0)
    write(pair, 4 * MTU)
    assert len(pair.a.engine.take_frames()) == 1
    framer = framer_from(2)
    pair.a.engine.on_frame(framer.frame(RcOpcode.SEND_ONLY, pair.A_QP, 0, ack_request=True), 0)
    (answer,) = pair.a.engine.take_frames()  # an RNR NAK
    assert answer[42] == RcOpcode.ACKNOWLEDGE


def test_read_responses_keep_the_rate(connect: Connect) -> None:
    pair = connected(connect)
    pair.post(Opcode.RDMA_READ, 0x100, [(A, 20 * MTU)], remote_address=B, rkey=0x100)
    pair.b.engine.on_frames(pair.a.engine.take_frames(), 0)
    (first,) = pair.b.engine.take_frames(1)
    pair.a.engine.on_frame(marked(first), 0)
    (told,) = pair.a.engine.take_frames()
    pair.b.engine.on_frame(told, 0)
    assert len(pair.b.engine.take_frames()) == 1
    assert pair.b.engine.next_deadline_ns() is not None


def test_the_rate_comes_back_by_itself(connect: Connect) -> None:
    pair = connected(connect)
    for now_ns in range(0, 500_000, 50_000):
        pair.a.engine.on_frame(cnp(pair), now_ns)
    low = rate(pair)
    rates = []
    pair.now_ns = 500_000
    for _ in range(400):
        write(pair, MTU)
        pair.run()
        pair.now_ns += 550_000
        rates.append(rate(pair))
        if rate(pair) == LINE:
            break
    assert low < LINE / 100
    assert rates == sorted(rates)
    assert rates[-1] == LINE


def test_fast_recovery_goes_halfway_back_five_times(connect: Connect) -> None:
    pair = connected(connect)
    pair.a.engine.on_frame(cnp(pair), 0)
    expected = LINE / 2
    for stage in range(1, 5):
        write(pair, MTU)
        pair.run()
        pair.now_ns = 55_000 * stage
        pair.a.engine.on_timer(pair.now_ns)
        write(pair, MTU)
        pair.run()
        expected = (expected + LINE) / 2
        assert rate(pair) == pytest.approx(expected)


def test_notifications_of_others_are_dropped(connect: Connect) -> None:
    pair = connected(connect)
    framer = framer_from(3)
    pair.a.engine.on_frame(framer.cnp(pair.A_QP), 0)
    assert pair.a.drops == {"rocev2.source": 1}
    assert rate(pair) == LINE


def test_wrong_settings_are_refused_in_words(connect: Connect) -> None:
    with pytest.raises(UsageError, match="alpha_timer_ns is 0"):
        Dcqcn(alpha_timer_ns=0)
    with pytest.raises(UsageError, match="g is 2"):
        Dcqcn(g=2)
    wrong: Any
    for name, wrong in (
        ("alpha_timer_ns", 1.5),
        ("fast_recovery_stages", True),
        ("byte_counter_bytes", 1 << 63),
        ("line_rate_bits_per_s", float("inf")),
        ("line_rate_bits_per_s", float("nan")),
        ("hyper_increase_bits_per_s", "1e9"),
        ("additive_increase_bits_per_s", 0),
    ):
        with pytest.raises(UsageError, match=f"{name} is "):
            Dcqcn(**{name: wrong})
    with pytest.raises(UsageError, match=r"least_rate_bits_per_s is 1e\+07, more than the line rate, 5e\+06"):
        Dcqcn(line_rate_bits_per_s=5e6)
    engine = connected(connect).a.engine
    with pytest.raises(UsageError, match="dcqcn is 1"):
        RoceEngine(new_state(0), bytes(6), "10.0.0.1", random.Random(1), Counter(), dcqcn=1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="type UD"):
        engine.create_qp(50, 1, qp_type=QpType.UD, congestion_control=True)
