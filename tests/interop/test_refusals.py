# SPDX-License-Identifier: Apache-2.0
"""What one side must not do, the other refuses by the NAK that the specification names, and touches nothing.

Source: InfiniBand Architecture Specification Volume 1, "Responder: Generating Responses", "NAK Codes",
"Remote Memory Access Protection"; ibv_reg_mr(3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from nicemu.abi import Access, Opcode
from nicemu.errors import VerbsStatus
from nicemu.rdma import QpState

from .world import ALL_RIGHTS, REGION_BYTES, Connection, some_bytes

pytestmark = [pytest.mark.interop, pytest.mark.slow]
Connect = Callable[..., Connection]
INVALID_REQUEST, REMOTE_ACCESS = 0x61, 0x62
IBV_QPS_ERR = 6
EITHER = [Opcode.RDMA_WRITE, Opcode.RDMA_READ, Opcode.FETCH_ADD, Opcode.COMPARE_SWAP]
VERBS = {
    Opcode.RDMA_WRITE: "RDMA_WRITE",
    Opcode.RDMA_READ: "RDMA_READ",
    Opcode.FETCH_ADD: "ATOMIC_FETCH_AND_ADD",
    Opcode.COMPARE_SWAP: "ATOMIC_CMP_AND_SWP",
}
RIGHTS = {
    Opcode.RDMA_WRITE: Access.REMOTE_WRITE,
    Opcode.RDMA_READ: Access.REMOTE_READ,
    Opcode.FETCH_ADD: Access.REMOTE_ATOMIC,
    Opcode.COMPARE_SWAP: Access.REMOTE_ATOMIC,
}


@dataclass(frozen=True)
class Sin:
    """A wrong request: how far from the region's start it begins, by what its key is wrong, what it lacks."""

    place: int = 0
    key: int = 0
    lacks_right: bool = False


SINS = {
    "unknown key": Sin(key=0x77),
    "key of another registration": Sin(key=0x1000000),
    "missing right": Sin(lacks_right=True),
    "past the end": Sin(place=REGION_BYTES),
    "before the start": Sin(place=-8),
}


@pytest.mark.parametrize("sin", SINS.values(), ids=SINS)
@pytest.mark.parametrize("opcode", EITHER)
def test_rxe_refuses_what_our_request_may_not_touch(connect: Connect, opcode: Opcode, sin: Sin) -> None:
    rights = ALL_RIGHTS & ~RIGHTS[opcode] if sin.lacks_right else ALL_RIGHTS
    one = connect(peer_rights=int(rights))
    kept = one.peer_fill(3, 64)
    one.write(some_bytes(4, 64))
    one.post(opcode, 8, remote_offset=sin.place, rkey=one.peer_key ^ sin.key, compare_add=1, swap=1)
    one.post(Opcode.RDMA_WRITE, 8)
    refused, flushed = one.completed(2)
    assert refused.status == VerbsStatus.REM_ACCESS_ERR
    assert flushed.status == VerbsStatus.WR_FLUSH_ERR
    assert REMOTE_ACCESS in one.syndromes(ours=False)
    assert one.world.engine.state(one.qp) is QpState.ERR
    assert one.peer_state() == IBV_QPS_ERR
    assert one.peer_holds(kept)
    assert one.read(64) == some_bytes(4, 64)


@pytest.mark.parametrize("sin", SINS.values(), ids=SINS)
@pytest.mark.parametrize("opcode", EITHER)
def test_we_refuse_what_rxe_s_request_may_not_touch(connect: Connect, opcode: Opcode, sin: Sin) -> None:
    one = connect(rights=ALL_RIGHTS & ~RIGHTS[opcode] if sin.lacks_right else ALL_RIGHTS)
    kept = some_bytes(4, 64)
    one.write(kept)
    theirs = one.peer_fill(3, 64)
    operands = {} if opcode in (Opcode.RDMA_WRITE, Opcode.RDMA_READ) else {"compare_add": 1, "swap": 1}
    one.peer_post(VERBS[opcode], 8, remote_offset=sin.place, rkey=one.key ^ sin.key, **operands)
    assert one.peer_completed()[0]["status"] == VerbsStatus.REM_ACCESS_ERR
    assert one.syndromes(ours=True) == [REMOTE_ACCESS]
    assert one.peer_state() == IBV_QPS_ERR
    assert one.world.engine.state(one.qp) is QpState.ERR
    assert one.read(64) == kept
    assert one.peer_holds(theirs)


def test_rxe_refuses_our_write_that_ends_outside_before_a_byte_is_written(connect: Connect) -> None:
    one = connect(256)
    kept = one.peer_fill(3, 512, REGION_BYTES - 512)
    one.post(Opcode.RDMA_WRITE, 1024, remote_offset=REGION_BYTES - 512)
    assert one.completed()[0].status == VerbsStatus.REM_ACCESS_ERR
    assert one.peer_holds(kept, REGION_BYTES - 512)


def test_we_refuse_rxe_s_write_that_ends_outside_before_a_byte_is_written(connect: Connect) -> None:
    one = connect(256)
    kept = some_bytes(3, 512)
    one.write(kept, REGION_BYTES - 512)
    one.peer_post("RDMA_WRITE", 1024, remote_offset=REGION_BYTES - 512)
    assert one.peer_completed()[0]["status"] == VerbsStatus.REM_ACCESS_ERR
    assert one.read(512, REGION_BYTES - 512) == kept


@pytest.mark.parametrize("opcode", [Opcode.RDMA_WRITE, Opcode.RDMA_READ])
def test_an_empty_request_needs_no_key(connect: Connect, opcode: Opcode) -> None:
    one = connect()
    one.post(opcode, 0, rkey=0, remote_address=0)
    assert one.completed()[0].status == VerbsStatus.SUCCESS
    one.peer_post(VERBS[opcode], 0, rkey=0, address=0)
    assert one.peer_completed()[0]["status"] == 0


@pytest.mark.parametrize("opcode", [Opcode.FETCH_ADD, Opcode.COMPARE_SWAP])
def test_an_atomic_that_is_not_aligned_is_an_invalid_request(connect: Connect, opcode: Opcode) -> None:
    one = connect()
    one.post(opcode, 8, remote_offset=4, compare_add=1, swap=1)
    assert one.completed()[0].status == VerbsStatus.REM_INV_REQ_ERR
    assert one.syndromes(ours=False) == [INVALID_REQUEST]
    with pytest.raises(RuntimeError, match="Invalid argument"):  # rxe posts none, so none arrives here
        connect().peer_post(VERBS[opcode], 8, remote_offset=4, compare_add=1, swap=1)


@pytest.mark.parametrize("length", [65, 5000])
def test_our_send_that_is_too_long_for_rxe_s_receive_is_refused(connect: Connect, length: int) -> None:
    """The specification has an invalid request (9) and a local length error (1) for it.

    Linux 6.1 says remote operational error (11) and local queue pair operation error (2).
    """
    one = connect(256)
    one.peer_fill(3, 256)
    one.peer_receive(64)
    one.post(Opcode.SEND, length)
    assert one.completed()[0].status in (VerbsStatus.REM_INV_REQ_ERR, VerbsStatus.REM_OP_ERR)
    assert one.peer_completed()[0]["status"] in (VerbsStatus.LOC_LEN_ERR, VerbsStatus.LOC_QP_OP_ERR)
    assert one.peer_holds(some_bytes(3, 256)[64:], 64)


@pytest.mark.parametrize("length", [65, 5000])
def test_rxe_s_send_that_is_too_long_for_our_receive_is_refused(connect: Connect, length: int) -> None:
    one = connect(256)
    one.write(some_bytes(3, 256))
    one.receive(64)
    one.peer_post("SEND", length)
    assert one.peer_completed()[0]["status"] == VerbsStatus.REM_INV_REQ_ERR
    assert one.completed()[0].status == VerbsStatus.LOC_LEN_ERR
    assert one.read(192, 64) == some_bytes(3, 256)[64:]
