# SPDX-License-Identifier: Apache-2.0
"""The transport between NICs of one machine: every way to be refused or put off, and that nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nicemu.abi import Access, Opcode, registers
from nicemu.errors import VerbsStatus
from nicemu.hot import interpreted
from nicemu.pcie import load_u64, store_u32, store_u64
from nicemu.rdma import BUSY, FLAG_IMPLICIT_RECEIVES, direct_post
from tests.contract.direct_link import (
    ATOMICS,
    EVERY_RIGHT,
    LOCAL_PD,
    PEER,
    REMOTE,
    REMOTE_PD,
    Link,
    connect,
)

TRANSFERS = [Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM, Opcode.RDMA_READ]
NEEDED = {
    Opcode.RDMA_WRITE: Access.REMOTE_WRITE,
    Opcode.RDMA_WRITE_WITH_IMM: Access.REMOTE_WRITE,
    Opcode.RDMA_READ: Access.REMOTE_READ,
    Opcode.COMPARE_SWAP: Access.REMOTE_ATOMIC,
    Opcode.FETCH_ADD: Access.REMOTE_ATOMIC,
}


@pytest.fixture(params=["interpreted", "compiled"])
def link(request: pytest.FixtureRequest) -> Iterator[Link]:
    made = connect(direct_post if request.param == "compiled" else interpreted(direct_post))
    yield made
    made.close()


def refused(link: Link, status: int, opcode: Opcode, **fields: Any) -> None:  # noqa: ANN401
    """The operation ends with this status, and nothing at all has changed."""
    link.post_receive(0, 1024, 1)
    before = link.everything()
    assert link.post(opcode, fields.pop("pieces", ((0, 8),)), **fields) == status
    assert link.everything() == before


@pytest.mark.parametrize("opcode", TRANSFERS + ATOMICS)
def test_an_unknown_rkey_is_a_remote_access_error(link: Link, opcode: Opcode) -> None:
    for key in (0, link.b.key ^ 1, link.b.key ^ 1 << 12, link.a.key):
        refused(link, VerbsStatus.REM_ACCESS_ERR, opcode, rkey=key)


@pytest.mark.parametrize("opcode", TRANSFERS + ATOMICS)
def test_an_rkey_that_was_given_back_is_a_remote_access_error(link: Link, opcode: Opcode) -> None:
    """R41: also when its entry names something else by now."""
    link.b.table.deregister(link.b.key)
    refused(link, VerbsStatus.REM_ACCESS_ERR, opcode, rkey=link.b.key)
    old, link.b.key = link.b.key, link.b.register().key
    refused(link, VerbsStatus.REM_ACCESS_ERR, opcode, rkey=old)


@pytest.mark.parametrize("opcode", TRANSFERS + ATOMICS)
def test_an_rkey_of_another_domain_than_the_peer_queue_pair_is_a_remote_access_error(
    link: Link, opcode: Opcode
) -> None:
    refused(link, VerbsStatus.REM_ACCESS_ERR, opcode, rkey=link.b.register(pd=LOCAL_PD).key)


@pytest.mark.parametrize("opcode", NEEDED)
def test_an_rkey_without_the_right_is_a_remote_access_error(link: Link, opcode: Opcode) -> None:
    every_other = link.b.register(access=EVERY_RIGHT & ~NEEDED[opcode])
    refused(link, VerbsStatus.REM_ACCESS_ERR, opcode, rkey=every_other.key)
    store_u32(link.peer_entry + 8, FLAG_IMPLICIT_RECEIVES)
    enough = link.b.register(access=NEEDED[opcode])
    assert link.post(opcode, ((0, 8),), rkey=enough.key) == VerbsStatus.SUCCESS


@pytest.mark.parametrize("opcode", TRANSFERS)
@pytest.mark.parametrize(
    "address", [REMOTE - 1, REMOTE + 1017, REMOTE + 1024, 0, (1 << 64) - 1, (1 << 64) - 8, REMOTE + (1 << 63)]
)
def test_a_range_outside_the_region_is_a_remote_access_error(
    link: Link, opcode: Opcode, address: int
) -> None:
    refused(link, VerbsStatus.REM_ACCESS_ERR, opcode, remote_address=address)


@pytest.mark.parametrize("opcode", ATOMICS)
@pytest.mark.parametrize("offset", [-8, 1024, 1 << 40])
def test_an_atomic_outside_the_region_is_a_remote_access_error(
    link: Link, opcode: Opcode, offset: int
) -> None:
    refused(link, VerbsStatus.REM_ACCESS_ERR, opcode, remote=offset)


@pytest.mark.parametrize("opcode", ATOMICS)
@pytest.mark.parametrize("offset", [1, 4, 7])
def test_an_unaligned_atomic_is_an_invalid_request(link: Link, opcode: Opcode, offset: int) -> None:
    refused(link, VerbsStatus.REM_INV_REQ_ERR, opcode, remote=offset)


@pytest.mark.parametrize("opcode", [*TRANSFERS, *ATOMICS, Opcode.SEND, Opcode.SEND_WITH_IMM])
def test_local_memory_that_the_key_does_not_cover_is_a_local_protection_error(
    link: Link, opcode: Opcode
) -> None:
    refused(link, VerbsStatus.LOC_PROT_ERR, opcode, lkey=link.a.key ^ 1 << 20)
    refused(link, VerbsStatus.LOC_PROT_ERR, opcode, lkey=link.a.register(pd=REMOTE_PD).key)
    refused(link, VerbsStatus.LOC_PROT_ERR, opcode, pieces=((1017, 8),))
    refused(link, VerbsStatus.LOC_PROT_ERR, opcode, pieces=((-8, 8),))
    if opcode not in ATOMICS:
        refused(link, VerbsStatus.LOC_PROT_ERR, opcode, pieces=((0, 8), (1017, 8)))


@pytest.mark.parametrize("opcode", [Opcode.RDMA_READ, *ATOMICS])
def test_what_comes_back_needs_local_memory_that_may_be_written(link: Link, opcode: Opcode) -> None:
    refused(link, VerbsStatus.LOC_PROT_ERR, opcode, lkey=link.a.register(access=Access.REMOTE_READ).key)
    readable = link.a.register(access=Access(0))
    assert link.post(Opcode.RDMA_WRITE, lkey=readable.key) == VerbsStatus.SUCCESS


@pytest.mark.parametrize("state", [0, 1, 4, 5, 6, 255])
@pytest.mark.parametrize("opcode", [*TRANSFERS, *ATOMICS, Opcode.SEND])
def test_a_peer_queue_pair_that_is_not_ready_does_not_answer(link: Link, opcode: Opcode, state: int) -> None:
    store_u32(link.peer_entry, state)
    refused(link, VerbsStatus.RETRY_EXC_ERR, opcode)


@pytest.mark.parametrize("state", [2, 3])
def test_a_peer_queue_pair_that_is_ready_to_receive_answers(link: Link, state: int) -> None:
    store_u32(link.peer_entry, state)
    assert link.post(Opcode.RDMA_WRITE) == VerbsStatus.SUCCESS


@pytest.mark.parametrize("missing", ["public", "outbox"])
def test_a_peer_that_is_not_attached_does_not_answer(link: Link, missing: str) -> None:
    record = link.work(Opcode.RDMA_WRITE)
    link.a.state.peers[PEER][missing] = 0
    before = link.everything()
    assert link.post_record(record) == VerbsStatus.RETRY_EXC_ERR
    assert link.everything() == before


@pytest.mark.parametrize("opcode", [0, 8, 9, 16, 17, 18, 255])
def test_what_is_no_operation_of_a_queue_pair_is_refused(link: Link, opcode: int) -> None:
    record = link.work(Opcode.RDMA_WRITE)
    record.opcode = opcode
    before = link.everything()
    assert link.post_record(record) == VerbsStatus.LOC_QP_OP_ERR
    assert link.everything() == before


@pytest.mark.parametrize("opcode", ATOMICS)
@pytest.mark.parametrize(
    ("field", "value"), [("sge_count", 0), ("sge_count", 2), ("sge0_length", 4), ("sge0_length", 16)]
)
def test_an_atomic_has_one_local_piece_of_eight_bytes(
    link: Link, opcode: Opcode, field: str, value: int
) -> None:
    record = link.work(opcode, ((0, 8),))
    record[field] = value
    before = link.everything()
    assert link.post_record(record) == VerbsStatus.LOC_QP_OP_ERR
    assert link.everything() == before


def test_more_than_two_local_pieces_are_refused(link: Link) -> None:
    record = link.work(Opcode.RDMA_WRITE)
    record.sge_count = 3
    assert link.post_record(record) == VerbsStatus.LOC_QP_OP_ERR


# Not now.

NOTIFYING = [Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM, Opcode.SEND, Opcode.SEND_WITH_IMM, *ATOMICS]


@pytest.mark.parametrize("opcode", NOTIFYING)
def test_with_a_full_inbox_nothing_happens_until_a_record_was_taken(link: Link, opcode: Opcode) -> None:
    """R32: the operation stays due."""
    counted = link.b.register(counter=17)
    base = link.inbox.address
    store_u64(base + registers.INBOX_HEAD, 5)
    store_u64(base + registers.INBOX_TAIL, 5 + registers.INBOX_COUNT)
    refused(link, BUSY, opcode, rkey=counted.key)
    store_u64(base + registers.INBOX_HEAD, 6)
    assert link.post(opcode, ((0, 8),), rkey=counted.key) == VerbsStatus.SUCCESS
    assert load_u64(base + registers.INBOX_TAIL) == 6 + registers.INBOX_COUNT
    assert link.post(opcode, ((0, 8),), rkey=counted.key) == BUSY


def test_with_a_full_inbox_what_posts_no_record_goes_on(link: Link) -> None:
    store_u64(link.inbox.address + registers.INBOX_TAIL, registers.INBOX_COUNT)
    for opcode in (Opcode.RDMA_WRITE, Opcode.RDMA_READ, *ATOMICS):
        assert link.post(opcode, ((0, 8),)) == VerbsStatus.SUCCESS


@pytest.mark.parametrize("head", [1, 1 << 63, (1 << 64) - 1])
def test_an_inbox_whose_owner_claims_to_have_taken_more_than_was_posted_takes_nothing(
    link: Link, head: int
) -> None:
    store_u64(link.inbox.address + registers.INBOX_HEAD, head)
    refused(link, BUSY, Opcode.SEND)


@pytest.mark.parametrize("opcode", [Opcode.SEND, Opcode.SEND_WITH_IMM, Opcode.RDMA_WRITE_WITH_IMM])
def test_without_a_posted_receive_nothing_happens_until_there_is_one(link: Link, opcode: Opcode) -> None:
    """Receiver not ready, retried for ever."""
    before = link.everything()
    assert link.post(opcode) == BUSY
    assert link.everything() == before
    link.post_receive(0, 64, 1)
    assert link.post(opcode) == VerbsStatus.SUCCESS
    before = link.everything()
    assert link.post(opcode) == BUSY
    assert link.everything() == before


def test_memory_of_the_peer_that_is_not_mapped_yet_is_waited_for(link: Link) -> None:
    link.a.state.peer_backings[PEER, 2] = 0
    for opcode in (*TRANSFERS, *ATOMICS, Opcode.SEND):
        refused(link, BUSY, opcode)
    link.a.state.peer_backings[PEER, 2] = link.b.memory.address
    assert link.post(Opcode.SEND) == VerbsStatus.SUCCESS


# Receives that cannot take it.


@pytest.mark.parametrize("opcode", [Opcode.SEND, Opcode.SEND_WITH_IMM])
def test_a_message_longer_than_the_receive_is_an_invalid_request(link: Link, opcode: Opcode) -> None:
    link.post_receive(0, 63, 1)
    before = link.everything()
    assert link.post(opcode, ((0, 32), (0, 32))) == VerbsStatus.REM_INV_REQ_ERR
    assert link.everything() == before
    assert link.post(opcode, ((0, 32), (0, 31))) == VerbsStatus.SUCCESS


@pytest.mark.parametrize("wrong", ["key", "domain", "right", "bounds"])
def test_a_receive_into_memory_that_its_own_key_does_not_cover_is_a_remote_operation_error(
    link: Link, wrong: str
) -> None:
    lkey = {
        "key": 0xDEAD,
        "domain": link.b.register(pd=LOCAL_PD).key,
        "right": link.b.register(access=Access.REMOTE_WRITE).key,
        "bounds": link.b.key,
    }[wrong]
    link.post_receive(1000 if wrong == "bounds" else 0, 64, 1, lkey)
    before = link.everything()
    assert link.post(Opcode.SEND) == VerbsStatus.REM_OP_ERR
    assert link.everything() == before
