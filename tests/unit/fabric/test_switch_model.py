# SPDX-License-Identifier: Apache-2.0
"""A switch in virtual time: when frames arrive, which are marked or lost, who is paused.

Source: IEEE 802.1Q, "Priority-based Flow Control"; RFC 3168.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.fabric import EcnMarking, LinkModel, PauseThresholds, SwitchModel, SwitchPort
from nicemu.fabric.ports.link_model import LINK_OVERHEAD_BYTES
from nicemu.wire import (
    Ipv4,
    PriorityPause,
    RcOpcode,
    RoceFramer,
    decode_roce_frame,
    internet_checksum,
    parse_ipv4,
)

LINK = LinkModel(rate_bits_per_s=8e9, delay_ns=500)
"""A byte a nanosecond."""
FRAME_BYTES = 1000 + 58
TIME_NS = FRAME_BYTES + LINK_OVERHEAD_BYTES


def mac(number: int) -> bytes:
    return bytes([2, 0, 0, 0, 0, number])


def frame(source: int, target: int, service: int = 2, length: int = 1000) -> bytes:
    """Return a frame from one host to another one, with this type of service."""
    ends = mac(source), mac(target), parse_ipv4(f"10.0.0.{source}"), parse_ipv4(f"10.0.0.{target}")
    return RoceFramer(*ends, type_of_service=service).frame(RcOpcode.SEND_ONLY, 1, 2, payload=[bytes(length)])


def switch(hosts: int, **options: Any) -> tuple[SwitchModel, list[SwitchPort]]:  # noqa: ANN401
    model = SwitchModel(random.Random(1), link=LINK, **options)
    return model, [model.join(mac(number), 1 << 20) for number in range(hosts)]


def run(model: SwitchModel) -> int:
    """Let all happen that is under way; return the time of the last thing."""
    last = model.now_ns
    while (now_ns := model.next_event_ns()) is not None:
        model.advance(now_ns)
        last = now_ns
    return last


def test_a_frame_takes_two_links_and_arrives_whole() -> None:
    model, ports = switch(3)
    sent = frame(0, 1)
    assert ports[0].send([sent]) == 1
    model.advance(2 * (TIME_NS + 500) - 1)
    assert ports[1].receive() == []
    model.advance(2 * (TIME_NS + 500))
    assert ports[1].receive() == [sent]
    assert ports[2].receive() == []
    assert model.drops == {}


def test_frames_of_a_link_stay_in_order_and_follow_at_its_rate() -> None:
    model, ports = switch(2)
    sent = [frame(0, 1, length=100 * number) for number in range(1, 9)]
    assert ports[0].send(sent) == 8
    last = run(model)
    assert ports[1].receive() == sent
    assert (
        last
        == sum(len(one) + LINK_OVERHEAD_BYTES for one in sent) + 1000 + len(sent[-1]) + LINK_OVERHEAD_BYTES
    )


def test_a_frame_to_nobody_is_dropped_by_name() -> None:
    model, ports = switch(2)
    ports[0].send([frame(0, 9), b"\xff" * 14])
    run(model)
    assert model.drops == {"switch.unknown_address": 2}


def test_a_full_port_takes_what_fits() -> None:
    model = SwitchModel(random.Random(1), link=LINK)
    port = model.join(mac(0), 3 * FRAME_BYTES)
    model.join(mac(1))
    assert port.send([frame(0, 1)] * 8) == 3
    assert not port.has_room()
    model.advance(TIME_NS)
    assert port.has_room()


def test_the_higher_priority_goes_first() -> None:
    model, ports = switch(2)
    low, high = frame(0, 1, service=0), frame(0, 1, service=5 << 5)
    ports[0].send([low, low, high])
    run(model)
    assert ports[1].receive() == [low, high, low]  # the first had begun


def test_queues_that_are_full_drop() -> None:
    model, ports = switch(4, queue_bytes=4 * FRAME_BYTES)
    for source in range(3):
        ports[source].send([frame(source, 3)] * 10)
    run(model)
    arrived = len(ports[3].receive())
    assert model.drops["switch.queue_full"] == 30 - arrived > 0
    assert model.output(ports[3]).deepest_bytes <= 4 * FRAME_BYTES


def test_with_pauses_nothing_is_lost_and_another_priority_goes_on() -> None:
    pause = PauseThresholds(xoff_bytes=4 * FRAME_BYTES, xon_bytes=2 * FRAME_BYTES)
    model, ports = switch(5, queue_bytes=50 * FRAME_BYTES, pause=pause)
    for source in range(3):
        ports[source].send([frame(source, 3, service=3 << 5)] * 100)
    model.advance(30 * TIME_NS)
    assert ports[0].transmitter.is_paused(3)
    assert not ports[0].transmitter.is_paused(5)
    ports[0].send([frame(0, 4, service=5 << 5)])
    model.advance(34 * TIME_NS)
    assert len(ports[4].receive()) == 1
    run(model)
    assert len(ports[3].receive(1000)) == 300
    assert model.drops == {}
    assert model.pauses > 3
    assert model.output(ports[3]).deepest_bytes < 30 * FRAME_BYTES
    assert not any(port.transmitter.is_paused(3) for port in ports)


def test_a_host_may_pause_the_switch_and_a_pause_ends_by_itself() -> None:
    model, ports = switch(2)
    ports[1].transmitter.send_control(PriorityPause({0: 100}).encode(mac(1)))
    model.advance(2000)
    ports[0].send([frame(0, 1, service=0)])
    length_ns = LINK.pause_ns(100)
    assert length_ns == 100 * 512 // 8
    model.advance(length_ns)
    assert ports[1].receive() == []
    run(model)
    assert len(ports[1].receive()) == 1


def test_longer_queues_mark_more_and_only_what_understands_marks() -> None:
    marking = EcnMarking(kmin_bytes=5 * FRAME_BYTES, kmax_bytes=20 * FRAME_BYTES, pmax=0.5)
    assert [marking.chance(n * FRAME_BYTES) for n in (0, 5, 20, 21)] == [0, 0, 0.5, 1]
    assert 0.24 < marking.chance(25 * FRAME_BYTES // 2) < 0.26
    model, ports = switch(3, marking=marking)
    ports[0].send([frame(0, 2, service=2)] * 60)
    ports[1].send([frame(1, 2, service=0)] * 60)
    run(model)
    arrived = [decode_roce_frame(one) for one in ports[2].receive(1000)]
    services = [(one.ip.source[3], one.ip.type_of_service) for one in arrived]
    assert services.count((1, 0)) == 60
    assert services.count((0, 3)) == model.marks
    assert 10 < model.marks < 60
    assert (0, 3) not in services[:10]


def test_a_mark_changes_nothing_but_ecn_and_the_checksum() -> None:
    model, ports = switch(2, marking=EcnMarking(0, 0, 0))
    sent = [frame(0, 1, service=104 | 1)] * 3
    ports[0].send([frame(1, 1)])
    for port, frames in ((ports[0], sent), (ports[1], [frame(1, 1, length=4000)] * 4)):
        port.send(frames)
    run(model)
    marked = [one for one in ports[1].receive() if one[15] == 104 | 3]
    assert marked
    assert marked[0][:15] + marked[0][16:24] + marked[0][26:] == sent[0][:15] + sent[0][16:24] + sent[0][26:]
    assert internet_checksum(marked[0][14:34]) == 0
    assert Ipv4.decode(marked[0][14:]).type_of_service == 104 | 3


def test_wrong_values_are_refused_in_words() -> None:
    with pytest.raises(UsageError, match="kmin 2, kmax 1"):
        EcnMarking(2, 1, 0.5)
    with pytest.raises(UsageError, match="xon 2 and xoff 1"):
        PauseThresholds(1, 2)
    with pytest.raises(UsageError, match="more than 0"):
        LinkModel(rate_bits_per_s=0)
    model, _ = switch(1)
    with pytest.raises(UsageError, match="has a port already"):
        model.join(mac(0))


NAN, INFINITE = float("nan"), float("inf")
WRONG: list[tuple[Callable[..., object], dict[str, object], str]] = [
    (LinkModel, {"rate_bits_per_s": NAN}, "rate_bits_per_s is nan"),
    (LinkModel, {"rate_bits_per_s": INFINITE}, "rate_bits_per_s is inf"),
    (LinkModel, {"rate_bits_per_s": "10e9"}, "rate_bits_per_s is '10e9'"),
    (LinkModel, {"delay_ns": 0.5}, "delay_ns is 0.5; it is a whole number"),
    (LinkModel, {"delay_ns": -1}, "delay_ns is -1"),
    (EcnMarking, {"kmin_bytes": -1, "kmax_bytes": 1, "pmax": 0.5}, "kmin_bytes is -1"),
    (EcnMarking, {"kmin_bytes": 0, "kmax_bytes": 1.5, "pmax": 0.5}, "kmax_bytes is 1.5"),
    (EcnMarking, {"kmin_bytes": 0, "kmax_bytes": 1, "pmax": NAN}, "pmax is nan"),
    (EcnMarking, {"kmin_bytes": 0, "kmax_bytes": 1, "pmax": 1.5}, "a chance from 0 to 1"),
    (PauseThresholds, {"xoff_bytes": "2", "xon_bytes": 1}, "xoff_bytes is '2'"),
    (PauseThresholds, {"xoff_bytes": 2, "xon_bytes": -1}, "xon_bytes is -1"),
    (switch, {"hosts": 1, "queue_bytes": -1}, "queue_bytes is -1"),
    (switch, {"hosts": 1, "queue_bytes": 0}, "queue_bytes is 0"),
    (switch, {"hosts": 1, "marking": 0.5}, r"marking is 0.5; pass EcnMarking\("),
    (switch, {"hosts": 1, "pause": True}, r"pause is True; pass PauseThresholds\("),
    (switch, {"hosts": 1, "queue_bytes": 100, "pause": PauseThresholds(100, 50)}, "paused before it is full"),
    (SwitchModel, {"rng": 1}, r"rng is 1; pass random.Random\("),
    (SwitchModel, {"rng": random.Random(1), "link": 100e9}, r"link is .*; pass LinkModel\("),
]


@pytest.mark.parametrize(("make", "values", "words"), WRONG)
def test_values_of_another_type_or_out_of_range_are_refused(
    make: Callable[..., object], values: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        make(**values)


@pytest.mark.parametrize(
    ("address", "queue_bytes", "words"),
    [
        ("02:00:00:00:00:09", 1, "no MAC address"),
        (b"\x02\0\0\0\x09", 1, "has 6 bytes"),
        (b"\xff" * 6, 1, "a group's address"),
        (None, 1, "no MAC address"),
        (mac(9), 0, "queue_bytes is 0"),
        (mac(9), -5, "queue_bytes is -5"),
        (mac(9), 1.5, "queue_bytes is 1.5"),
    ],
)
def test_who_has_no_address_or_no_queue_cannot_join(address: Any, queue_bytes: Any, words: str) -> None:  # noqa: ANN401
    model, _ = switch(1)
    with pytest.raises(UsageError, match=words):
        model.join(address, queue_bytes)
    model.join(mac(9))


@pytest.mark.parametrize("now_ns", [0.5, -1, None, "1"])
def test_time_is_whole_nanoseconds(now_ns: Any) -> None:  # noqa: ANN401
    model, ports = switch(2)
    ports[0].send([frame(0, 1)])
    with pytest.raises(UsageError, match="now_ns is "):
        model.advance(now_ns)
    assert model.now_ns == 0


def test_a_frame_whose_host_has_left_is_counted_wherever_it_is_then() -> None:
    model, ports = switch(3)
    for source in (0, 2):
        ports[source].send([frame(source, 1)] * 2)
    model.advance(TIME_NS + 500 + TIME_NS // 2)  # the first of each is in the switch, the second not yet
    ports[1].close()
    ports[1].close()
    run(model)
    assert model.drops == {"switch.closed_port": 2, "switch.unknown_address": 2}
    assert model.output(ports[1]).queued_bytes == [0] * 8


def test_an_address_is_free_again_when_its_host_has_left() -> None:
    model, ports = switch(2)
    ports[0].send([frame(0, 1)])
    model.advance(TIME_NS + 500)
    ports[1].close()
    again = model.join(mac(1))
    assert model.output(again) is not model.output(ports[1])
    run(model)
    assert again.receive() == []  # what was on its way was for who has left
    assert model.drops == {"switch.closed_port": 1}
    sent = frame(0, 1)
    ports[0].send([sent])
    run(model)
    assert again.receive() == [sent]


@pytest.mark.parametrize("priority", [-1, 8, 1.0, None])
def test_there_are_eight_priorities(priority: Any) -> None:  # noqa: ANN401
    _, (port,) = switch(1)
    with pytest.raises(UsageError, match=r"priority is .*; it is a whole number from 0 to 7"):
        port.has_room(priority)


@pytest.mark.parametrize("frames", [None, 5, [None], [5], b"a frame that is none of a list"])
def test_frames_are_sent_as_a_list_of_bytes(frames: Any) -> None:  # noqa: ANN401
    _, (port,) = switch(1)
    with pytest.raises(UsageError, match="was sent; pass a list of frames, each of them bytes"):
        port.send(frames)


def test_queues_are_looked_at_by_a_port_of_this_switch() -> None:
    (model, _), (_, others) = switch(1), switch(1)
    wrong: Any
    for wrong in (others[0], None, []):
        with pytest.raises(UsageError, match="no port of this switch"):
            model.output(wrong)
