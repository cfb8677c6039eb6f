# SPDX-License-Identifier: Apache-2.0
"""What arrives on a wire: taken, answered or dropped under a name, and never an exception."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from nicemu.abi import registers
from nicemu.host import Peer, Span
from nicemu.nic import MAX_PACKET_BYTES
from nicemu.pcie import store_u32, store_u64
from nicemu.wire import ETHERTYPE_IPV4, Ethernet, encode_udp_frame
from tests.unit.nic.conftest import HOST_IP, USER_IP, Bench, request_frame

FRAME = request_frame()
MISSING = request_frame(b"KV\x01\x04\x00\x10" + bytes(26) + bytes(16))


@cache
def shared_bench(transport: str) -> tuple[Bench, np.ndarray]:
    """A bench for many examples, and host memory whose middle page is registered."""
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder), transport)
        bench.handle_follow_ups("nic.miss(event)")
    memory = bench.nic.allocate((3 * 4096,), np.uint8)
    memory.array[:] = 0xA5
    bench.connection.request("register", address=memory.address + 4096, length_bytes=4096)
    bench.nic.connect("there")
    bench.simulation.run_until_idle()
    return bench, memory.array


def accounted(bench: Bench) -> int:
    """Take what reached the host, and return how many frames are accounted for in all."""
    while bench.nic.receive(0.0) is not None:
        bench.simulation.nics["here"].drops["test.delivered"] += 1
    return sum(count for name, count in bench.drops().items() if name != "firmware.no_handler")


def spoil(frame: bytes, cut: int | None, flips: list[tuple[int, int]]) -> bytes:
    data = bytearray(frame[:cut])
    for place, bit in flips:
        if data:
            data[place % len(data)] ^= 1 << bit
    return bytes(data)


flips = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 7)), max_size=4)
spoilt = st.builds(spoil, st.sampled_from([FRAME, MISSING]), st.one_of(st.none(), st.integers(0, 120)), flips)


@given(frame=st.one_of(st.binary(max_size=200), spoilt))
@example(frame=b"")
@example(frame=FRAME + bytes(1400))
def test_every_frame_is_delivered_or_dropped_under_a_name(frame: bytes) -> None:
    bench, memory = shared_bench("direct")
    before = accounted(bench)
    bench.arrive(frame)
    assert accounted(bench) == before + 1
    assert all("." in name for name in bench.drops())
    assert (memory == 0xA5).all()


@given(frame=st.one_of(st.binary(max_size=300), spoilt))
def test_no_frame_of_the_rdma_transport_raises_or_writes(frame: bytes) -> None:
    bench, memory = shared_bench("port")
    before = sum(bench.here.drops.values())
    bench.here.on_frames([frame], bench.simulation.clock.now_ns(), roce=True)
    assert sum(bench.here.drops.values()) == before + 1
    assert (memory == 0xA5).all()


NOT_COVERED = (40, 41, 46)
"""Neither the ICRC nor the IPv4 checksum covers the UDP checksum (zero) and the byte of FECN and BECN.

Source: InfiniBand Architecture Specification, Annex A17 "RoCEv2", "Invariant CRC".
"""


@cache
def a_write() -> tuple[Bench, Peer, bytes]:
    """A bench, a connected peer, and the frame of a write of 64 bytes to it that never arrived there."""
    bench, _ = shared_bench("port")
    peer = bench.nic.connect("there")
    memory = bench.nic.allocate((64,), np.uint8)
    memory.array[:] = 0x5A
    span = bench.nic.register(memory)
    kept: list[bytes] = []
    perform = bench.simulation.perform
    bench.simulation.perform = lambda name, nic, effect: kept.extend(effect.frames)  # type: ignore[method-assign,union-attr]
    granted = peer.private_data
    bench.nic.write(Span(span.address, 64, span.key), peer.span(granted["address"], 64, granted["rkey"]))
    bench.simulation.perform = perform  # type: ignore[method-assign]
    (frame,) = kept
    return bench, peer, frame


@given(place=st.integers(0, 1000), bit=st.integers(0, 7))
def test_a_spoilt_bit_of_an_rdma_frame_is_seen(place: int, bit: int) -> None:
    bench, peer, frame = a_write()
    covered = [byte for byte in range(14, len(frame)) if byte not in NOT_COVERED]
    spoilt = bytearray(frame)
    spoilt[covered[place % len(covered)]] ^= 1 << bit
    before = sum(bench.there.drops.values())
    bench.there.on_frames([bytes(spoilt)], 0, roce=True)
    assert sum(bench.there.drops.values()) == before + 1
    assert bench.there.memory.space.read(peer.private_data["address"], 64, "test") == bytes(64)


def test_a_bad_checksum_is_counted(bench: Bench) -> None:
    broken = bytearray(FRAME)
    broken[-1] ^= 1
    bench.arrive(bytes(broken))
    broken = bytearray(FRAME)
    broken[24] ^= 1  # the IPv4 header checksum
    bench.arrive(bytes(broken))
    assert bench.drops() == {"udp.checksum": 1, "ip.checksum": 1}


def test_packets_for_the_host_are_dropped_by_name_when_it_cannot_take_them(bench: Bench) -> None:
    bench.arrive(FRAME)
    assert bench.drops() == {"host.nobody_listens": 1}
    bench.nic.listen()
    bench.arrive(FRAME + bytes(MAX_PACKET_BYTES))
    assert bench.drops() == {"host.nobody_listens": 1, "host.packet_too_long": 1}
    bench.arrive(*[FRAME] * 300)
    assert bench.drops()["host.receive_ring_full"] == 300 - 256
    delivered = 0
    while bench.nic.receive(0.0) is not None:
        delivered += 1
    assert delivered == 256
    bench.arrive(FRAME)
    assert bench.nic.receive(0.0) is not None, "the ring does not go on after it was full"


def test_an_answer_nobody_asked_for_is_counted_and_consumed(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.simulation.load_firmware("here", "firmware/kv_requestor.py")
    bench.nic.listen()
    bench.arrive(MISSING)
    assert bench.drops() == {"kv.unexpected_answer": 1}
    assert bench.nic.receive(0.0) is None


def test_transmitted_packets_leave_in_order_as_they_were(bench: Bench) -> None:
    inbox = bench.simulation.add_client(USER_IP)
    payload = encode_udp_frame(
        Ethernet(b"\x02\x00" + USER_IP, b"\x02\x00" + HOST_IP, ETHERTYPE_IPV4),
        HOST_IP,
        USER_IP,
        1,
        2,
        b"answer",
    )
    frames = [payload[:-1] + bytes([number]) for number in range(100)]
    for frame in frames:
        bench.nic.transmit(frame)
    bench.simulation.run_until_idle()
    assert list(inbox) == frames


def test_a_packet_leaves_though_its_process_ends_at_once(bench: Bench) -> None:
    inbox = bench.simulation.add_client(USER_IP)
    ethernet = Ethernet(b"\x02\x00" + USER_IP, b"\x02\x00" + HOST_IP, ETHERTYPE_IPV4)
    frame = encode_udp_frame(ethernet, HOST_IP, USER_IP, 1, 2, b"farewell")
    bench.nic.transmit(frame)
    bench.nic.close()
    bench.simulation.run_until_idle()
    assert list(inbox) == [frame]


def test_a_transmit_ring_full_of_lies_sends_nothing_past_its_end(bench: Bench) -> None:
    """The length that a process writes into an entry is not believed beyond the entry."""
    bar = bench.connection.bar
    place = registers.TRANSMIT_RING
    store_u32(bar.address + place, 0xFFFFFFFF)
    store_u64(bar.address + place + 56, 1)
    sent: list[bytes] = []
    bench.simulation.perform = lambda name, nic, effect: sent.extend(effect.frames)  # type: ignore[method-assign,union-attr]
    store_u64(bar.address + registers.DOORBELLS + 8 * registers.TRANSMIT_DOORBELL, 1)
    bench.connection.notify()
    assert [len(frame) for frame in sent] == [MAX_PACKET_BYTES]
