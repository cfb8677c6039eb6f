# SPDX-License-Identifier: Apache-2.0
import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.hot import interpreted
from nicemu.rdma import new_state
from nicemu.rdma.queue_pair import TRANSITIONS, QpAttributes, QpState
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


@pytest.mark.parametrize(
    "wrong",
    [{"path_mtu": 1000}, {"retry_count": 8}, {"rnr_retry": -1}, {"send_queue_depth": 0}, {"timeout_ns": -1}],
)
def test_attributes_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        QpAttributes(pd=1, **wrong)  # type: ignore[arg-type]


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
    for number in (7, -1, 1 << 24):
        with pytest.raises(UsageError, match="24 bits"):
            nic.create_qp(number, 1)
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
