# SPDX-License-Identifier: Apache-2.0
from nicemu.fabric import Cable, loopback_pair
from nicemu.fabric.ports.cable import MAX_WAITING_FRAMES


def frame(number: int) -> bytes:
    return number.to_bytes(2, "big") * 30


def test_what_comes_in_at_one_end_goes_out_at_the_other_and_is_seen() -> None:
    here, first = loopback_pair()
    there, second = loopback_pair()
    cable = Cable(first, second)
    here.send([frame(1), frame(2)])
    there.send([frame(3)])
    seen = cable.receive()
    assert [(one.interface, one.data) for one in seen] == [(0, frame(1)), (0, frame(2)), (1, frame(3))]
    assert all(one.original_bytes == 60 and not one.outbound and one.time_ns > 1e18 for one in seen)
    assert there.receive() == [frame(1), frame(2)]
    assert here.receive() == [frame(3)]
    assert cable.statistics() == [(2, 0), (1, 0)]
    assert cable.filenos() == []
    cable.close()


def test_what_a_port_does_not_take_waits_and_is_not_seen_twice() -> None:
    here, first = loopback_pair(1000)
    there, second = loopback_pair(1)
    cable = Cable(first, second)
    frames = [frame(number) for number in range(5)]
    here.send(frames)
    assert [one.data for one in cable.receive()] == frames
    arrived = there.receive()
    while cable.waits:
        assert cable.receive() == []
        arrived += there.receive()
    assert arrived == frames


def test_a_port_that_takes_nothing_stops_the_other_one() -> None:
    here, first = loopback_pair(3 * MAX_WAITING_FRAMES)
    _, second = loopback_pair(1)
    cable = Cable(first, second)
    here.send([frame(7)] * 3 * MAX_WAITING_FRAMES)
    seen = 0
    while taken := len(cable.receive()):
        seen += taken
    assert MAX_WAITING_FRAMES <= seen < MAX_WAITING_FRAMES + 100


def test_losses_of_the_ports_are_told() -> None:
    _, first = loopback_pair()
    _, second = loopback_pair()
    second.drops["because"] += 3
    assert Cable(first, second).statistics() == [(0, 0), (0, 3)]
