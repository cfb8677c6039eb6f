# SPDX-License-Identifier: Apache-2.0
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.cm import CmAddress, CmEventKind, CmState, Connection, QpOffer, RdmaCm, eui64
from nicemu.errors import ResourceError, UsageError, VerbsStatus
from nicemu.fabric import RegisteredMemory
from nicemu.rdma import MAX_RD_ATOMIC, QpState, RoceEngine
from nicemu.wire import (
    GSI_QP,
    MAD_BYTES,
    Deth,
    RejectReason,
    RoceFramer,
    UdOpcode,
    decode_cm_message,
    encode_gsi_frame,
    parse_ipv4,
)

PORT = 7174
PD = 1
Kept = Callable[[bytes], list[bytes]]


class Nic:
    """A NIC with memory, engine (interpreted) and rdma_cm."""

    def __init__(self, number: int) -> None:
        self.address = CmAddress(bytes([2, 0, 10, 7, 0, number]), f"10.7.0.{number}")
        rng = random.Random(number)
        self.memory = RegisteredMemory(rng)
        self.drops: Counter[str] = Counter()
        mac, ip = self.address.mac, self.address.ip
        self.engine = RoceEngine(self.memory.state, mac, ip, rng, self.drops, compiled=False)
        self.cm = RdmaCm(self.engine, mac, ip, rng, numbers=count(0x10 * number))
        self.region = self.memory.register(8192, pd=PD)

    def piece(self, length: int, offset: int = 0) -> Sge:
        return Sge(self.region.address + offset, length, self.region.key)


class Pair:
    """Two NICs and a cable."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.nics = Nic(1), Nic(2)
        self.kept: Kept = lambda frame: [frame]

    def run(self, until_ns: int = 0) -> None:
        """Let frames pass, and timers up to a time."""
        while True:
            moved = False
            for number, nic in enumerate(self.nics):
                other = self.nics[1 - number]
                for frame in [*nic.cm.take_frames(), *nic.engine.take_frames()]:
                    moved = True
                    for passed in self.kept(frame):
                        for ours in other.cm.take_in([passed], self.now_ns):
                            other.engine.on_frame(ours, self.now_ns)
            if moved:
                continue
            timed = [side for nic in self.nics for side in (nic.cm, nic.engine)]
            deadlines = [at for one in timed if (at := one.next_deadline_ns()) is not None]
            if not deadlines or min(deadlines) > until_ns:
                self.now_ns = max(self.now_ns, until_ns)
                return
            self.now_ns = max(self.now_ns, min(deadlines))
            for one in timed:
                one.on_timer(self.now_ns)

    def connect(self, path_mtu: int = 1024, outstanding_reads: int = 16) -> tuple[Connection, Connection]:
        """Return both ends of a new connection."""
        asker, listener = self.nics
        listener.cm.listen(PORT)
        active = asker.cm.connect(
            listener.address,
            PORT,
            PD,
            self.now_ns,
            b"hello",
            path_mtu=path_mtu,
            outstanding_reads=outstanding_reads,
        )
        self.run()
        (event,) = listener.cm.take_events()
        assert event.kind is CmEventKind.CONNECT_REQUEST
        assert event.private_data == b"hello".ljust(56, b"\0")
        listener.cm.accept(event.connection, PD, self.now_ns, b"welcome")
        self.run()
        kinds = [[told.kind for told in nic.cm.take_events()] for nic in self.nics]
        assert kinds == [[CmEventKind.ESTABLISHED]] * 2
        return active, event.connection


@pytest.fixture
def pair() -> Pair:
    return Pair()


def send(pair: Pair, sender: int, connection: Connection, to: Connection, text: bytes) -> None:
    """Send a message and see it arrive."""
    us, them = pair.nics[sender], pair.nics[1 - sender]
    assert connection.qp_num is not None
    assert to.qp_num is not None
    us.region.view[: len(text)] = text
    them.engine.post_receive(to.qp_num, 1, (them.piece(64, 4096),))
    us.engine.post_send(connection.qp_num, WorkRequest(Opcode.SEND, (us.piece(len(text)),)), 7, pair.now_ns)
    pair.run()
    assert them.region.view[4096 : 4096 + len(text)] == text
    (done,) = us.engine.take_completions()
    assert done.status is VerbsStatus.SUCCESS
    assert [arrival.byte_len for arrival in them.engine.take_arrivals()] == [len(text)]


@pytest.mark.parametrize("path_mtu", [256, 4096])
def test_queue_pairs_that_are_connected_carry_work_both_ways(pair: Pair, path_mtu: int) -> None:
    active, passive = pair.connect(path_mtu=path_mtu)
    send(pair, 0, active, passive, b"from who asked")
    send(pair, 1, passive, active, b"from who listened")
    assert active.path_mtu == passive.path_mtu == path_mtu
    assert pair.nics[0].cm.connection_of(active.qp_num or 0) is active


def test_no_more_reads_at_a_time_are_offered_than_the_engine_answers(pair: Pair) -> None:
    active, passive = pair.connect(outstanding_reads=4)
    assert active.remote is not None
    assert passive.remote is not None
    assert (passive.remote.responder_resources, passive.remote.initiator_depth) == (4, 4)
    assert (active.remote.responder_resources, active.remote.initiator_depth) == (4, 4)
    us, listener = pair.nics
    with pytest.raises(UsageError, match=f"the engine answers 0 to {MAX_RD_ATOMIC}"):
        us.cm.connect(listener.address, PORT, PD, 0, outstanding_reads=MAX_RD_ATOMIC + 1)


def sends_without_receive(pair: Pair, sender: int, connection: Connection) -> tuple[int, VerbsStatus]:
    """Send where no receive is posted; return how often the request was sent, and how it ended."""
    us = pair.nics[sender]
    requests = 0

    def count_requests(frame: bytes) -> list[bytes]:
        nonlocal requests
        requests += frame[6:12] == us.address.mac
        return [frame]

    pair.kept = count_requests
    us.engine.post_send(connection.qp_num or 0, WorkRequest(Opcode.SEND, (us.piece(8),)), 7, pair.now_ns)
    pair.run(pair.now_ns + 5_000_000_000)
    (done,) = us.engine.take_completions()
    return requests, done.status


@pytest.mark.parametrize("sender", [0, 1])
@pytest.mark.parametrize("retries", [0, 1, 6])
def test_rnr_naks_are_retried_as_often_as_the_peer_says(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, sender: int, retries: int
) -> None:
    """IBA, Volume 1, "REP - Reply to Request for Communication", and REQ: RNR Retry Count."""
    asked = RdmaCm._offer
    peer = pair.nics[1 - sender].cm

    def offer(cm: RdmaCm, qp_num: int, outstanding_reads: int) -> QpOffer:
        mine = asked(cm, qp_num, outstanding_reads)
        return replace(mine, rnr_retry_count=retries) if cm is peer else mine

    monkeypatch.setattr(RdmaCm, "_offer", offer)
    connection = pair.connect()[sender]
    assert sends_without_receive(pair, sender, connection) == (1 + retries, VerbsStatus.RNR_RETRY_EXC_ERR)


def test_the_end_of_a_connection_flushes_the_work_of_both_sides(pair: Pair) -> None:
    active, passive = pair.connect()
    us, them = pair.nics
    assert passive.qp_num is not None
    assert active.qp_num is not None
    them.engine.post_receive(passive.qp_num, 9, (them.piece(64),))
    us.cm.disconnect(active, pair.now_ns)
    pair.run()
    assert us.engine.state(active.qp_num) is them.engine.state(passive.qp_num) is QpState.ERR
    (flushed,) = them.engine.take_completions()
    assert (flushed.wr_id, flushed.status) == (9, VerbsStatus.WR_FLUSH_ERR)
    pair.run(10**11)
    ended = [CmEventKind.DISCONNECTED, CmEventKind.TIMEWAIT_EXIT]
    assert [[told.kind for told in nic.cm.take_events()] for nic in pair.nics] == [ended] * 2
    us.engine.destroy_qp(active.qp_num)
    assert us.cm.connection_of(active.qp_num) is None


def test_a_request_that_is_rejected_tells_the_application_why(pair: Pair) -> None:
    us, listener = pair.nics
    listener.cm.listen(PORT)
    active = us.cm.connect(listener.address, PORT, PD, 0)
    pair.run()
    (event,) = listener.cm.take_events()
    listener.cm.reject(event.connection, b"not today")
    pair.run()
    (told,) = us.cm.take_events()
    assert (told.kind, told.reason) == (CmEventKind.REJECTED, RejectReason.CONSUMER)
    assert told.private_data[:9] == b"not today"
    assert us.engine.state(active.qp_num or 0) is QpState.ERR


def test_a_port_that_nobody_listens_to_refuses(pair: Pair) -> None:
    us, listener = pair.nics
    listener.cm.listen(PORT)
    listener.cm.stop_listening(PORT)
    us.cm.connect(listener.address, PORT, PD, 0)
    pair.run()
    (told,) = us.cm.take_events()
    assert told.reason == RejectReason.INVALID_SERVICE_ID


def test_work_that_arrives_stands_for_an_rtu_that_was_lost(pair: Pair) -> None:
    us, listener = pair.nics
    listener.cm.listen(PORT)
    active = us.cm.connect(listener.address, PORT, PD, 0)
    pair.run()
    (event,) = listener.cm.take_events()
    qp_num = listener.cm.accept(event.connection, PD, 0)
    listener.engine.post_receive(qp_num, 1, (listener.piece(64),))
    seen: list[int] = []

    def lost(frame: bytes) -> list[bytes]:
        seen.append(frame[42])
        return [] if frame[42] == 0x64 and frame[30:34] == parse_ipv4(listener.address.ip) else [frame]

    pair.kept = lost
    pair.run()
    assert event.connection.state is CmState.REP_SENT
    us.engine.post_send(active.qp_num or 0, WorkRequest(Opcode.SEND, (us.piece(3),)), 0, 0)
    pair.run()
    (arrival,) = listener.engine.take_arrivals()
    listener.cm.communication_established(arrival.qp_num)
    assert [told.kind for told in listener.cm.take_events()] == [CmEventKind.ESTABLISHED]


def test_a_value_that_does_not_fit_leaves_no_queue_pair_behind(pair: Pair) -> None:
    us, listener = pair.nics
    with pytest.raises(UsageError, match="private data"):
        us.cm.connect(listener.address, PORT, PD, 0, bytes(57))
    with pytest.raises(UsageError, match="no queue pair 0x10"):
        us.engine.state(0x10)
    listener.cm.listen(PORT)
    active = us.cm.connect(listener.address, PORT, PD, 0)
    pair.run()
    (event,) = listener.cm.take_events()
    with pytest.raises(UsageError, match="197 bytes"):
        listener.cm.accept(event.connection, PD, 0, bytes(197))
    with pytest.raises(UsageError, match="one that we asked for"):
        us.cm.accept(active, PD, 0)
    listener.cm.accept(event.connection, PD, 0)
    with pytest.raises(UsageError, match="can be accepted when"):
        listener.cm.accept(event.connection, PD, 0)


WRONG_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"peer": None}, r"peer is None; pass CmAddress\(mac, ip\)"),
    ({"peer": "10.7.0.2"}, "peer is '10.7.0.2'"),
    ({"port": "7174"}, "'7174' is no port"),
    ({"port": None}, "None is no port"),
    ({"pd": -1}, "pd is -1"),
    ({"pd": "1"}, "pd is '1'"),
    ({"now_ns": 0.5}, "now_ns is 0.5"),
    ({"now_ns": None}, "now_ns is None"),
    ({"private_data": "hello"}, "private_data is 'hello'; pass bytes"),
    ({"path_mtu": "1024"}, "path_mtu is '1024'"),
    ({"send_queue_depth": None}, "send_queue_depth is None"),
    ({"outstanding_reads": "16"}, "'16' READs at a time"),
    ({"implicit_receives": 1}, "implicit_receives is 1"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG_CALLS)
def test_connecting_by_what_is_of_another_type_is_refused_and_leaves_nothing(
    pair: Pair, wrong: dict[str, Any], words: str
) -> None:
    us, listener = pair.nics
    right: dict[str, Any] = {"peer": listener.address, "port": PORT, "pd": PD, "now_ns": 0}
    with pytest.raises(UsageError, match=words):
        us.cm.connect(**right | wrong)
    assert us.cm.connections() == []
    assert us.cm.take_frames() == []
    for number in (0x10, 0x11):
        with pytest.raises(UsageError, match="no queue pair"):
            us.engine.state(number)


def test_a_connection_is_one_and_what_is_said_to_it_fits(pair: Pair) -> None:
    us, listener = pair.nics
    wrong: Any
    for wrong in (None, 5, us.cm):
        for call, more in ((listener.cm.accept, (PD, 0)), (listener.cm.reject, ()), (us.cm.disconnect, (0,))):
            with pytest.raises(UsageError, match=r"connection is .*; pass one of"):
                call(wrong, *more)
    listener.cm.listen(PORT)
    active = us.cm.connect(listener.address, PORT, PD, 0)
    pair.run()
    (event,) = listener.cm.take_events()
    for wrong, words in (({"now_ns": "0"}, "now_ns is '0'"), ({"private_data": "x"}, "pass bytes")):
        with pytest.raises(UsageError, match=words):
            listener.cm.accept(**{"connection": event.connection, "pd": PD, "now_ns": 0} | wrong)
    with pytest.raises(UsageError, match="pass bytes"):
        listener.cm.reject(event.connection, "no")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="reason of a Rej is 'why'"):
        listener.cm.reject(event.connection, reason="why")  # type: ignore[arg-type]
    listener.cm.accept(event.connection, PD, 0)
    pair.run()
    with pytest.raises(UsageError, match="now_ns is None"):
        us.cm.disconnect(active, None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="pass bytes"):
        active.disconnect(0, "bye")  # type: ignore[arg-type]
    assert active.state is event.connection.state is CmState.ESTABLISHED


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0,), "0 is no port"),
        (("x",), "'x' is no port"),
        ((PORT, 0), "backlog is 0"),
        ((PORT, 1.5), "backlog is"),
    ],
)
def test_listening_to_no_port_or_without_room_is_refused(
    pair: Pair, arguments: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        pair.nics[0].cm.listen(*arguments)
    with pytest.raises(UsageError, match="service_id is -1"):
        pair.nics[0].cm.listen_service(-1)


def test_an_address_that_is_none_is_refused_where_it_is_written() -> None:
    for mac, ip in (
        (None, "10.7.0.1"),
        (b"\2", "10.7.0.1"),
        (b"\2\0\0\0\0\1", None),
        (b"\2\0\0\0\0\1", "10.7"),
    ):
        with pytest.raises(UsageError, match=r"MAC address|no IPv4 address"):
            CmAddress(mac, ip)  # type: ignore[arg-type]


def test_time_is_whole_nanoseconds(pair: Pair) -> None:
    wrong: Any
    for wrong in (None, 0.5, "now", -1):
        for call in (pair.nics[0].cm.on_timer, lambda now_ns: pair.nics[0].cm.take_in([], now_ns)):
            with pytest.raises(UsageError, match="now_ns is "):
                call(wrong)


def test_room_is_made_for_who_has_none_by_what_is_accepted_and_not_confirmed(pair: Pair) -> None:
    us, listener = pair.nics
    listener.cm.listen(PORT)
    for _ in range(3):
        us.cm.connect(listener.address, PORT, PD, 0)
    pair.run()
    requests = [event.connection for event in listener.cm.take_events()]
    pair.kept = lambda frame: []  # whoever asked hears nothing, and confirms nothing
    numbers = [listener.cm.accept(connection, PD, 0) for connection in requests[:2]]
    assert not listener.cm.make_room(requests[2])  # it is the same peer that asks
    other = CmAddress(b"\2\0\0\0\0\3", "10.7.0.3")
    requests[2].peer = other
    assert listener.cm.make_room(requests[2])
    (ended,) = listener.cm.take_events()
    assert (ended.kind, ended.connection) == (CmEventKind.UNREACHABLE, requests[0])
    assert listener.engine.state(numbers[0]) is QpState.ERR
    assert listener.engine.state(numbers[1]) is QpState.RTS
    assert not listener.cm.make_room(requests[2])  # it would have as many as the other one
    with pytest.raises(UsageError, match="connection is None"):
        listener.cm.make_room(None)  # type: ignore[arg-type]


def test_when_the_numbers_for_queue_pairs_are_used_up_that_is_said(pair: Pair) -> None:
    us, listener = pair.nics
    few = RdmaCm(us.engine, us.address.mac, us.address.ip, random.Random(1), numbers=iter([0x50]))
    few.connect(listener.address, PORT, PD, 0)
    with pytest.raises(ResourceError, match="no numbers left"):
        few.connect(listener.address, PORT, PD, 0)


def spoiled(place: int, value: bytes) -> Kept:
    """Return a filter that changes bytes of REQs and makes the ICRC right again."""

    def changed(frame: bytes) -> list[bytes]:
        mad = bytearray(frame[62 : 62 + MAD_BYTES])
        if mad[17] != 0x10:
            return [frame]
        mad[24 + place : 24 + place + len(value)] = value
        framer = RoceFramer(frame[6:12], frame[:6], frame[26:30], frame[30:34])
        return [encode_gsi_frame(framer, 0, bytes(mad))]

    return changed


@pytest.mark.parametrize(
    ("place", "value", "reason", "drop"),
    [
        (140, b"\x10", RejectReason.UNSUPPORTED_REQUEST, "ip_cm.version"),
        (141, b"\x60", RejectReason.UNSUPPORTED_REQUEST, "ip_cm.ip_version"),
        (172, b"\x0a\x07\x00\x09", RejectReason.INVALID_GID, "ip_cm.address"),
        (156, b"\x0a\x07\x00\x09", RejectReason.INVALID_GID, "ip_cm.address"),
    ],
)
def test_a_request_whose_header_is_wrong_is_refused_and_counted(
    pair: Pair, place: int, value: bytes, reason: RejectReason, drop: str
) -> None:
    us, listener = pair.nics
    listener.cm.listen(PORT)
    pair.kept = spoiled(place, value)
    us.cm.connect(listener.address, PORT, PD, 0)
    pair.run()
    assert not listener.cm.take_events()
    (told,) = us.cm.take_events()
    assert told.reason == reason
    assert listener.drops == {drop: 1}


def test_a_service_that_stands_for_no_port_has_all_of_the_private_data(pair: Pair) -> None:
    us, listener = pair.nics
    listener.cm.listen_service(0xABC)
    pair.kept = spoiled(8, (0xABC).to_bytes(8, "big"))
    us.cm.connect(listener.address, PORT, PD, 0, b"mine")
    pair.run()
    (event,) = listener.cm.take_events()
    assert len(event.private_data) == 92
    assert event.private_data[36:40] == b"mine"


def test_frames_that_are_not_for_our_gsi_are_counted_by_name(pair: Pair) -> None:
    us, listener = pair.nics
    listener.cm.listen(PORT)
    us.cm.connect(listener.address, PORT, PD, 0)
    (frame,) = us.cm.take_frames()
    _, req = decode_cm_message(frame[62 : 62 + MAD_BYTES])
    mad = req.encode(1)
    right = RoceFramer(us.address.mac, listener.address.mac, b"\x0a\7\0\1", b"\x0a\7\0\2")
    strangers = RoceFramer(us.address.mac, listener.address.mac, b"\x0a\7\0\1", b"\x0a\7\0\x09")
    no_key = right.frame(UdOpcode.SEND_ONLY, GSI_QP, 0, extension=Deth(1, GSI_QP).encode(), payload=[mad])
    spoilt = frame[:-1] + bytes([frame[-1] ^ 1])
    wrong = [spoilt, encode_gsi_frame(strangers, 0, mad), no_key, encode_gsi_frame(right, 0, mad[:-4])]
    assert listener.cm.take_in(wrong, 0) == []
    named = ("rocev2.icrc", "ip.destination", "gsi.q_key", "mad.too_short")
    assert listener.drops == dict.fromkeys(named, 1)
    assert not listener.cm.take_events()


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), max_size=6), st.integers(0, 3))
def test_frames_with_any_byte_changed_raise_nothing(changes: list[tuple[int, int]], kind: int) -> None:
    pair = Pair()
    us, listener = pair.nics
    listener.cm.listen(PORT)
    us.cm.connect(listener.address, PORT, PD, 0)
    (frame,) = us.cm.take_frames()
    mad = bytearray(frame[62 : 62 + MAD_BYTES])
    raw = bytearray(frame)
    for place, change in changes:
        mad[place % len(mad)] ^= change
        raw[place % len(raw)] ^= change
    framer = RoceFramer(us.address.mac, listener.address.mac, b"\x0a\7\0\1", b"\x0a\7\0\2")
    for whole in (bytes(raw), encode_gsi_frame(framer, 0, bytes(mad)), bytes(raw[: 50 + kind])):
        for other in listener.cm.take_in([whole], 0):
            listener.engine.on_frame(other, 0)
    for event in listener.cm.take_events():
        listener.cm.accept(event.connection, PD, 0)
    listener.cm.take_frames()


def test_a_guid_is_made_of_the_mac_address() -> None:
    assert eui64(bytes.fromhex("02000a070001")) == 0x0000_0AFF_FE07_0001
