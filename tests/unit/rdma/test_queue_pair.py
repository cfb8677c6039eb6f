# SPDX-License-Identifier: Apache-2.0
import itertools
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import UsageError
from nicemu.hot import interpreted
from nicemu.rdma import new_state
from nicemu.rdma.queue_pair import TRANSITIONS, QpAttributes, QpState, QpType
from nicemu.rdma.roce import RemoteQp, RoceEngine
from nicemu.rdma.send_queue import packets_of, unwrap_psn

REMOTE = RemoteQp(b"\x02" * 6, "10.0.0.2", 9, 100)
_TO_RTS = [QpState.INIT, QpState.RTR, QpState.RTS]
WAY_TO = {
    QpState.RESET: [],
    QpState.INIT: _TO_RTS[:1],
    QpState.RTR: _TO_RTS[:2],
    QpState.RTS: _TO_RTS,
    QpState.SQD: [*_TO_RTS, QpState.SQD],
    QpState.SQE: [*_TO_RTS, QpState.SQE],
    QpState.ERR: [QpState.ERR],
}


def engine() -> RoceEngine:
    return RoceEngine(new_state(0), b"\x02" * 6, "10.0.0.1", random.Random(1), Counter())


@pytest.mark.parametrize(("before", "after"), list(itertools.product(QpState, QpState)))
def test_a_transition_happens_if_the_table_has_it_and_else_changes_nothing(
    before: QpState, after: QpState
) -> None:
    nic = engine()
    nic.create_qp(7, 1)
    for state in WAY_TO[before]:
        nic.modify(7, state, remote=REMOTE if state is QpState.RTR else None)
    assert nic.state(7) is before
    remote = REMOTE if after is QpState.RTR else None
    if after in TRANSITIONS[before]:
        nic.modify(7, after, remote=remote)
        assert nic.state(7) is after
    else:
        with pytest.raises(UsageError, match=f"is in {before.name} and cannot go to {after.name}"):
            nic.modify(7, after, remote=remote)
        assert nic.state(7) is before


def test_reset_and_error_are_reached_from_every_state_and_error_leads_only_to_reset() -> None:
    assert all({QpState.RESET, QpState.ERR} <= allowed for allowed in TRANSITIONS.values())
    assert TRANSITIONS[QpState.ERR] == {QpState.RESET, QpState.ERR}


@given(st.integers(0, 2**30), st.integers(-(2**23), 2**23 - 1))
def test_a_psn_unwraps_to_the_nearest_count(near: int, distance: int) -> None:
    psn = (near + distance) & 0xFFFFFF
    assert unwrap_psn(near, psn) == interpreted(unwrap_psn)(near, psn) == near + distance


@pytest.mark.parametrize(("length", "count"), [(0, 1), (1, 1), (1024, 1), (1025, 2), (4096, 4)])
def test_an_empty_message_takes_one_packet(length: int, count: int) -> None:
    assert packets_of(length, 1024) == interpreted(packets_of)(length, 1024) == count


WRONG_ATTRIBUTES: list[tuple[str, object]] = [
    ("pd", -1),
    ("pd", 1 << 32),
    ("path_mtu", 1000),
    ("path_mtu", "1024"),
    ("path_mtu", 1024.0),
    ("retry_count", 8),
    ("rnr_retry", -1),
    ("rnr_retry", None),
    ("send_queue_depth", 0),
    ("receive_queue_depth", True),
    ("receive_queue_depth", 1 << 40),
    ("timeout_ns", -1),
    ("timeout_ns", 1e6),
    ("timeout_ns", 1 << 63),
    ("min_rnr_timer_ns", "1"),
    ("traffic_class", 3),
    ("traffic_class", "32"),
    ("qp_type", "UD"),
    ("q_key", 1 << 32),
    ("selective_retransmission", 2),
    ("selective_retransmission", "no"),
    ("congestion_control", None),
    ("implicit_receives", 1),
]


@pytest.mark.parametrize(("name", "value"), WRONG_ATTRIBUTES)
def test_an_attribute_of_another_type_or_out_of_range_is_refused_and_takes_no_number(
    name: str, value: object
) -> None:
    nic = engine()
    with pytest.raises(UsageError, match=name):
        nic.create_qp(7, **{"pd": 1, name: value})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no queue pair 0x7"):
        nic.state(7)
    nic.create_qp(7, 1, selective_retransmission=True)
    nic.create_qp(8, 1)
    assert nic.state(7) is nic.state(8) is QpState.RESET


def test_a_queue_pair_for_which_there_is_no_memory_takes_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    nic = engine()
    nic.create_qp(7, 1)
    nic.destroy_qp(7)
    with monkeypatch.context() as patch:
        patch.setattr("nicemu.rdma.roce_pairs.grown", lambda *_: (_ for _ in ()).throw(MemoryError()))
        with pytest.raises(MemoryError):
            nic.create_qp(9, 1)
    with pytest.raises(UsageError, match="no queue pair 0x9"):
        nic.state(9)
    nic.create_qp(9, 1)
    assert nic.state(9) is QpState.RESET


def test_a_q_key_is_for_type_ud_alone() -> None:
    with pytest.raises(UsageError, match="type UD alone has a Q_Key"):
        QpAttributes(pd=1, q_key=1)
    assert QpAttributes(pd=1, qp_type=QpType.UD, q_key=1).q_key == 1


def test_numbers_that_are_reserved_are_refused() -> None:
    nic = engine()
    nic.reserve(0, 1)
    for number in (0, 1):
        with pytest.raises(UsageError, match=f"{number:#x} is reserved, for management"):
            nic.create_qp(number, 1)
    nic.create_qp(2, 1)


@pytest.mark.parametrize(
    ("mac", "ip", "words"),
    [
        ("02:00:00:00:00:01", "10.0.0.1", "no MAC address"),
        (b"\x02" * 5, "10.0.0.1", "has 6 bytes"),
        (b"\x03" * 6, "10.0.0.1", "a group's address"),
        (b"\x02" * 6, 167772161, "no IPv4 address"),
        (b"\x02" * 6, b"\x0a\0\0\1", "no IPv4 address"),
        (b"\x02" * 6, None, "no IPv4 address"),
    ],
)
def test_an_engine_has_an_address_that_is_one(mac: Any, ip: Any, words: str) -> None:  # noqa: ANN401
    with pytest.raises(UsageError, match=words):
        RoceEngine(new_state(0), mac, ip, random.Random(1), Counter())


def test_states_numbers_and_peers_of_another_type_are_refused() -> None:
    nic: Any = engine()
    nic.create_qp(7, 1)
    with pytest.raises(UsageError, match=r"state is 'INIT'; pass a QpState"):
        nic.modify(7, "INIT")
    for call in (nic.state, nic.destroy_qp, lambda number: nic.modify(number, QpState.INIT)):
        with pytest.raises(UsageError, match="a queue pair number is '7'"):
            call("7")
        with pytest.raises(UsageError, match=r"a queue pair number is \[7\]"):
            call([7])
    nic.modify(7, QpState.INIT)
    with pytest.raises(UsageError, match="remote is 9; pass RemoteQp"):
        nic.modify(7, QpState.RTR, remote=9)
    nic.modify(7, QpState.RTR, remote=REMOTE)
    with pytest.raises(UsageError, match="sq_psn is 'x'"):
        nic.modify(7, QpState.RTS, sq_psn="x")


@pytest.mark.parametrize("now_ns", [0.5, -1, None, "now", 1 << 63])
def test_time_is_whole_nanoseconds(now_ns: Any) -> None:  # noqa: ANN401
    nic = engine()
    nic.create_qp(7, 1)
    nic.modify(7, QpState.INIT)
    nic.modify(7, QpState.RTR, remote=REMOTE)
    nic.modify(7, QpState.RTS)
    for call in (
        lambda: nic.post_send(7, WORK, 0, now_ns),
        lambda: nic.on_frame(bytes(60), now_ns),
        lambda: nic.on_timer(now_ns),
    ):
        with pytest.raises(UsageError, match="now_ns is "):
            call()
    assert nic.take_frames() == []


def test_numbers_of_numpy_are_taken() -> None:
    nic = engine()
    nic.create_qp(np.int64(7), np.uint32(1), send_queue_depth=np.int32(4))  # type: ignore[arg-type]
    assert nic.state(7) is QpState.RESET
    nic.on_timer(np.int64(5))  # type: ignore[arg-type]


WORK = WorkRequest(Opcode.SEND)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ("work", "work is 'work'; pass a WorkRequest"),
        (replace(WORK, wr_id=1 << 64), "wr_id is 18446744073709551616"),
        (replace(WORK, wr_id=None), "wr_id is None"),  # type: ignore[arg-type]
        (replace(WORK, wr_id=1.5), "wr_id is 1.5"),  # type: ignore[arg-type]
        (replace(WORK, opcode=256), "opcode is 256"),  # type: ignore[arg-type]
        (replace(WORK, rkey="k"), "rkey is 'k'; pass a whole number"),  # type: ignore[arg-type]
        (replace(WORK, sges=None), "sges is None"),  # type: ignore[arg-type]
        (replace(WORK, sges=(3,)), "a piece is 3"),  # type: ignore[arg-type]
        (replace(WORK, sges=(Sge(-1, 8, 1),)), "address of a piece is -1"),
        (replace(WORK, sges=(Sge(0, 1 << 63, 1),)), "length of a piece"),
        (replace(WORK, sges=(Sge(0, 8, 1 << 32),)), "lkey of a piece"),
    ],
)
def test_work_that_fits_no_queue_is_refused_in_words(work: Any, words: str) -> None:  # noqa: ANN401
    nic = engine()
    nic.create_qp(7, 1)
    nic.modify(7, QpState.INIT)
    nic.modify(7, QpState.RTR, remote=REMOTE)
    nic.modify(7, QpState.RTS)
    with pytest.raises(UsageError, match=words):
        nic.post_send(7, work, 0, 0)
    with pytest.raises(UsageError, match=r"context is 0\.5"):
        nic.post_send(7, WORK, 0.5, 0)  # type: ignore[arg-type]
    if isinstance(work, WorkRequest) and "opcode" not in words and "rkey" not in words:
        with pytest.raises(UsageError, match=words):
            nic.post_receive(7, work.wr_id, work.sges)
    assert nic.take_completions() == []


def test_ready_to_receive_needs_a_peer_and_a_refusal_changes_nothing() -> None:
    nic = engine()
    nic.create_qp(7, 1)
    nic.modify(7, QpState.INIT)
    for remote in (
        None,
        RemoteQp(b"\x02", "10.0.0.2", 9, 0),
        RemoteQp(b"\x02" * 6, "10.0.0", 9, 0),
        RemoteQp(b"\x02" * 6, "10.0.0.2", 1 << 24, 0),
        RemoteQp(b"\x02" * 6, "10.0.0.2", 9, 1 << 24),
    ):
        with pytest.raises(UsageError):
            nic.modify(7, QpState.RTR, remote=remote)
        assert nic.state(7) is QpState.INIT
    nic.modify(7, QpState.RTR, remote=REMOTE)
    with pytest.raises(UsageError, match="sq_psn"):
        nic.modify(7, QpState.RTS, sq_psn=1 << 24)
    with pytest.raises(UsageError, match="rnr_retry"):
        nic.modify(7, QpState.RTS, rnr_retry=8)
    assert nic.state(7) is QpState.RTR
    nic.modify(7, QpState.RTS, sq_psn=5)
    assert nic.local(7) == RemoteQp(b"\x02" * 6, "10.0.0.1", 7, 5)


def test_the_peer_is_set_only_on_the_way_to_ready_to_receive() -> None:
    nic = engine()
    nic.create_qp(7, 1)
    with pytest.raises(UsageError, match="on the way to RTR"):
        nic.modify(7, QpState.INIT, remote=REMOTE)
    assert nic.state(7) is QpState.RESET


def test_a_queue_pair_number_is_given_once_and_fits_24_bits() -> None:
    nic = engine()
    nic.create_qp(7, 1)
    with pytest.raises(UsageError, match="number 0x7 is taken; numbers have 24 bits"):
        nic.create_qp(7, 1)
    for number in (-1, 1 << 24, "8", 8.0):
        with pytest.raises(UsageError, match=r"is a whole number from 0 to 16777215"):
            nic.create_qp(number, 1)  # type: ignore[arg-type]
    nic.destroy_qp(7)
    with pytest.raises(UsageError, match="no queue pair"):
        nic.destroy_qp(7)
    nic.create_qp(7, 1)


def test_the_first_psn_is_random_but_the_seed_decides_it() -> None:
    first, second = engine(), engine()
    first.create_qp(7, 1)
    second.create_qp(7, 1)
    assert first.local(7) == second.local(7)
    before = first.local(7).psn
    first.modify(7, QpState.RESET)
    assert first.local(7).psn != before
