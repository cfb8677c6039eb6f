# SPDX-License-Identifier: Apache-2.0
"""The transport between NICs of one machine: every operation, and every way to be refused, with guards."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nicemu.abi import ARMED, Access, Opcode, Sge, WorkRequest, pack_work, registers
from nicemu.errors import VerbsStatus
from nicemu.hot import interpreted
from nicemu.pcie import Backing, load_u32, load_u64, store_u32, store_u64
from nicemu.rdma import (
    ARRIVED_RECEIVE,
    ARRIVED_WRITE,
    BUSY,
    FLAG_IMPLICIT_RECEIVES,
    KIND_DIRECT,
    MemoryRegionTable,
    direct_post,
    new_state,
)

PAGE = 4096
GUARD = b"\xa5" * 64
LOCAL, REMOTE = 0x1_0000_0000, 0x2_0000_0000
LOCAL_PD, REMOTE_PD = 3, 9
QP, PEER_QP, PEER = 4, 5, 1
EVERY_RIGHT = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
READY_TO_SEND = 3
Pieces = tuple[tuple[int, int], ...]


class Node:
    """One NIC by hand: public tables, a page of memory as backing 2, a region of 1024 bytes in its middle."""

    START, LENGTH = 1024, 1024

    def __init__(self, iova: int, pd: int, seed: int) -> None:
        self.pd, self.iova = pd, iova
        self.public = Backing.anonymous(registers.PUBLIC_BYTES)
        self.memory = Backing.anonymous(PAGE)
        self.memory.view[:] = bytes(random.Random(seed).randbytes(PAGE))
        self.state = new_state(self.public.address)
        self.state.backings[2] = self.memory.address
        self.table = MemoryRegionTable(self.public.address + registers.REGION_TABLE, random.Random(seed))
        self.key = self.register().key

    def register(
        self,
        access: Access = EVERY_RIGHT,
        pd: int | None = None,
        counter: int | None = None,
        iova: int | None = None,
    ) -> Any:  # noqa: ANN401
        """Register the middle of the memory."""
        return self.table.register(
            self.pd if pd is None else pd,
            self.iova if iova is None else iova,
            self.LENGTH,
            access,
            2,
            self.START,
            counter,
        )

    def read(self, offset: int, length: int) -> bytes:
        start = self.START + offset
        return bytes(self.memory.view[start : start + length])

    def fill(self, offset: int, data: bytes) -> None:
        start = self.START + offset
        self.memory.view[start : start + len(data)] = data


@dataclass
class Link:
    """Node `a` posts on a queue pair that is connected with one of node `b`."""

    a: Node
    b: Node
    inbox: Backing
    function: Callable[..., int]

    @property
    def peer_entry(self) -> int:
        return self.b.public.address + registers.QUEUE_PAIR_TABLE + PEER_QP * registers.QUEUE_PAIR_BYTES

    def work(self, opcode: Opcode, pieces: Pieces = ((0, 64),), remote: int = 0, **fields: int) -> Any:  # noqa: ANN401
        """Return a record; pieces are (offset, length) in a's region, `remote` an offset in b's."""
        lkey = fields.pop("lkey", self.a.key)
        address = fields.pop("remote_address", REMOTE + remote)
        rkey = fields.pop("rkey", self.b.key)
        sges = tuple(Sge(LOCAL + offset, length, lkey) for offset, length in pieces)
        record = np.zeros(1, ARMED).view(np.recarray)[0]
        pack_work(record, WorkRequest(opcode, sges, address, rkey, **fields), QP)  # type: ignore[arg-type]
        return record

    def post_record(self, record: Any) -> int:  # noqa: ANN401
        status = int(self.function(self.a.state, QP, record))
        assert load_u64(self.inbox.address + registers.INBOX_BUSY) == 0
        return status

    def post(self, opcode: Opcode, pieces: Pieces = ((0, 64),), remote: int = 0, **fields: int) -> int:
        return self.post_record(self.work(opcode, pieces, remote, **fields))

    def post_receive(self, offset: int, length: int, wr_id: int, lkey: int | None = None) -> None:
        """Post a receive at b, as its own datapath does."""
        tail = load_u64(self.peer_entry + 16)
        slot = PEER_QP * registers.RECEIVE_QUEUE_COUNT + tail % registers.RECEIVE_QUEUE_COUNT
        receive = self.b.public.address + registers.RECEIVE_QUEUES + slot * registers.RECEIVE_BYTES
        store_u64(receive, REMOTE + offset)
        store_u32(receive + 8, length)
        store_u32(receive + 12, self.b.key if lkey is None else lkey)
        store_u64(receive + 16, wr_id)
        store_u64(receive + 24, tail + 1)
        store_u64(self.peer_entry + 16, tail + 1)

    def records(self) -> list[dict[str, int]]:
        """Take what stands in b's inbox."""
        base = self.inbox.address
        head, taken = load_u64(base + registers.INBOX_HEAD), []
        while head < load_u64(base + registers.INBOX_TAIL):
            entry = (
                base + registers.INBOX_RECORDS + head % registers.INBOX_COUNT * registers.INBOX_RECORD_BYTES
            )
            assert load_u64(entry + 56) == head + 1
            words = ("kind", "qp", "opcode", "imm_data")
            record = {name: int(load_u32(entry + 4 * place)) for place, name in enumerate(words)}
            record |= {"byte_len": load_u64(entry + 16), "wr_id": load_u64(entry + 24)}
            taken.append(record | {"counter": load_u32(entry + 32) - 1})
            head += 1
        store_u64(base + registers.INBOX_HEAD, head)
        return taken

    def everything(self) -> list[bytes]:
        """All that an operation could change, but the busy flag."""
        inbox = bytearray(self.inbox.view)
        inbox[registers.INBOX_BUSY : registers.INBOX_BUSY + 8] = bytes(8)
        nodes = [bytes(backing.view) for node in (self.a, self.b) for backing in (node.public, node.memory)]
        return [*nodes, bytes(inbox)]


@pytest.fixture(params=["interpreted", "compiled"])
def link(request: pytest.FixtureRequest) -> Iterator[Link]:
    a, b = Node(LOCAL, LOCAL_PD, 1), Node(REMOTE, REMOTE_PD, 2)
    inbox = Backing.anonymous(registers.INBOX_BYTES)
    a.state.peers[PEER].public = b.public.address
    a.state.peers[PEER].outbox = inbox.address
    a.state.peer_backings[PEER, 2] = b.memory.address
    pair = a.state.queue_pairs[QP]
    pair.kind, pair.state, pair.pd, pair.peer, pair.remote_qp = (
        KIND_DIRECT,
        READY_TO_SEND,
        LOCAL_PD,
        PEER,
        PEER_QP,
    )
    made = Link(a, b, inbox, direct_post if request.param == "compiled" else interpreted(direct_post))
    store_u32(made.peer_entry, READY_TO_SEND)
    store_u32(made.peer_entry + 4, REMOTE_PD)
    yield made
    for backing in (a.public, a.memory, b.public, b.memory, inbox):
        backing.close()


def changed(before: list[bytes], after: list[bytes]) -> SimpleNamespace:
    """Where each memory differs: first and last byte, or None."""
    places = []
    for old, new in zip(before, after, strict=True):
        where = [place for place in range(len(old)) if old[place] != new[place]] if old != new else []
        places.append((where[0], where[-1] + 1) if where else None)
    return SimpleNamespace(
        **dict(zip(("public_a", "memory_a", "public_b", "memory_b", "inbox"), places, strict=True))
    )


# Operations.


@pytest.mark.parametrize("opcode", [Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM])
def test_a_write_copies_its_bytes_and_touches_no_others(link: Link, opcode: Opcode) -> None:
    store_u32(link.peer_entry + 8, FLAG_IMPLICIT_RECEIVES)
    before = link.everything()
    assert link.post(opcode, ((100, 200),), remote=300) == VerbsStatus.SUCCESS
    assert link.b.read(300, 200) == link.a.read(100, 200)
    places = changed(before, link.everything())
    first, last = places.memory_b
    assert link.b.START + 300 <= first < last <= link.b.START + 500
    assert (places.public_a, places.memory_a, places.public_b) == (None, None, None)


def test_a_write_gathers_two_pieces(link: Link) -> None:
    pieces = ((700, 33), (5, 100))
    before = link.everything()
    assert link.post(Opcode.RDMA_WRITE, pieces, remote=11) == VerbsStatus.SUCCESS
    assert link.b.read(11, 133) == link.a.read(700, 33) + link.a.read(5, 100)
    first, last = changed(before, link.everything()).memory_b
    assert link.b.START + 11 <= first < last <= link.b.START + 144


def test_a_piece_without_bytes_needs_no_key(link: Link) -> None:
    record = link.work(Opcode.RDMA_WRITE, ((0, 0), (0, 16)))
    record.sge0_lkey = 0
    assert link.post_record(record) == VerbsStatus.SUCCESS
    assert link.b.read(0, 16) == link.a.read(0, 16)


def test_a_read_scatters_to_two_pieces_and_touches_no_other_bytes(link: Link) -> None:
    before = link.everything()
    assert link.post(Opcode.RDMA_READ, ((700, 33), (5, 100)), remote=11) == VerbsStatus.SUCCESS
    assert link.a.read(700, 33) + link.a.read(5, 100) == link.b.read(11, 133)
    places = changed(before, link.everything())
    after = link.a.memory.view
    for start, end in [(0, 1024 + 5), (1024 + 105, 1024 + 700), (1024 + 733, PAGE)]:
        assert bytes(after[start:end]) == before[1][start:end]
    assert (places.memory_b, places.public_b, places.inbox) == (None, None, None)


@pytest.mark.parametrize("opcode", [Opcode.SEND, Opcode.SEND_WITH_IMM])
def test_a_send_lands_in_the_receive_that_was_posted_first(link: Link, opcode: Opcode) -> None:
    link.post_receive(128, 512, 1001)
    link.post_receive(640, 256, 1002)
    before = link.everything()
    assert link.post(opcode, ((0, 100), (500, 20)), imm_data=7) == VerbsStatus.SUCCESS
    assert link.b.read(128, 120) == link.a.read(0, 100) + link.a.read(500, 20)
    first, last = changed(before, link.everything()).memory_b
    assert link.b.START + 128 <= first < last <= link.b.START + 248
    assert link.post(opcode, ((8, 256),), imm_data=8) == VerbsStatus.SUCCESS
    assert link.b.read(640, 256) == link.a.read(8, 256)
    assert [(record["wr_id"], record["byte_len"]) for record in link.records()] == [(1001, 120), (1002, 256)]
    assert link.post(opcode, ((0, 1),)) == BUSY


@pytest.mark.parametrize(
    ("old", "added"), [(5, 7), (0, (1 << 64) - 1), ((1 << 64) - 1, 1), (1 << 63, 1 << 63)]
)
def test_a_fetch_add_wraps_and_returns_the_old_value(link: Link, old: int, added: int) -> None:
    link.b.fill(64, old.to_bytes(8, "little"))
    before = link.everything()
    assert link.post(Opcode.FETCH_ADD, ((200, 8),), remote=64, compare_add=added) == VerbsStatus.SUCCESS
    assert link.b.read(64, 8) == ((old + added) % (1 << 64)).to_bytes(8, "little")
    assert link.a.read(200, 8) == old.to_bytes(8, "little")
    places = changed(before, link.everything())
    assert link.a.START + 200 <= places.memory_a[0] < places.memory_a[1] <= link.a.START + 208
    assert link.b.START + 64 <= places.memory_b[0] < places.memory_b[1] <= link.b.START + 72
    assert places.inbox is None


@pytest.mark.parametrize("equal", [True, False])
def test_a_compare_swap_stores_on_equality_and_returns_the_old_value(link: Link, equal: bool) -> None:
    old, swap = 0xFEDC_BA98_7654_3210, 0x0123_4567_89AB_CDEF
    link.b.fill(1016, old.to_bytes(8, "little"))
    compare = old if equal else old ^ 1 << 63
    status = link.post(Opcode.COMPARE_SWAP, ((1016, 8),), remote=1016, compare_add=compare, swap=swap)
    assert status == VerbsStatus.SUCCESS
    assert int.from_bytes(link.b.read(1016, 8), "little") == (swap if equal else old)
    assert int.from_bytes(link.a.read(1016, 8), "little") == old


def test_the_payload_is_read_when_the_work_is_carried_out(link: Link) -> None:
    """R18: not when it was prepared."""
    record = link.work(Opcode.RDMA_WRITE, ((0, 4),))
    link.a.fill(0, b"late")
    assert link.post_record(record) == VerbsStatus.SUCCESS
    assert link.b.read(0, 4) == b"late"


def test_a_whole_region_can_be_moved_but_not_a_byte_more(link: Link) -> None:
    for opcode in (Opcode.RDMA_WRITE, Opcode.RDMA_READ):
        assert link.post(opcode, ((0, 1024),)) == VerbsStatus.SUCCESS
        assert link.b.read(0, 1024) == link.a.read(0, 1024)
        before = link.everything()
        assert link.post(opcode, ((0, 1024),), remote=1) == VerbsStatus.REM_ACCESS_ERR
        assert link.post(opcode, ((1, 1024),)) == VerbsStatus.LOC_PROT_ERR
        assert link.everything() == before


@pytest.mark.parametrize("opcode", [Opcode.RDMA_WRITE, Opcode.RDMA_READ])
@pytest.mark.parametrize("pieces", [(), ((0, 0),)])
def test_nothing_can_be_written_or_read_without_a_key(link: Link, opcode: Opcode, pieces: Pieces) -> None:
    """InfiniBand Architecture Specification: the R_Key of an RDMA operation of length zero is not validated."""
    before = link.everything()
    assert link.post(opcode, pieces, rkey=0xDEAD, remote_address=5) == VerbsStatus.SUCCESS
    assert link.everything() == before


# Records in the inbox.


def test_a_plain_write_posts_no_record(link: Link) -> None:
    assert link.post(Opcode.RDMA_WRITE) == VerbsStatus.SUCCESS
    assert link.records() == []


@pytest.mark.parametrize("opcode", [Opcode.RDMA_WRITE, Opcode.FETCH_ADD])
def test_a_write_into_a_counted_region_names_the_counter(link: Link, opcode: Opcode) -> None:
    """R12."""
    counted = link.b.register(counter=17)
    assert link.post(opcode, ((0, 8),), rkey=counted.key) == VerbsStatus.SUCCESS
    assert link.records() == [
        {
            "kind": ARRIVED_WRITE,
            "qp": PEER_QP,
            "opcode": opcode,
            "imm_data": 0,
            "byte_len": 8,
            "wr_id": 0,
            "counter": 17,
        }
    ]


def test_a_read_of_a_counted_region_posts_no_record(link: Link) -> None:
    counted = link.b.register(counter=17)
    assert link.post(Opcode.RDMA_READ, rkey=counted.key) == VerbsStatus.SUCCESS
    assert link.records() == []


@pytest.mark.parametrize("pieces", [(), ((0, 64),)])
def test_an_immediate_without_receives_arrives_as_a_write(link: Link, pieces: Pieces) -> None:
    store_u32(link.peer_entry + 8, FLAG_IMPLICIT_RECEIVES)
    assert link.post(Opcode.RDMA_WRITE_WITH_IMM, pieces, imm_data=0xFEDCBA98) == VerbsStatus.SUCCESS
    (record,) = link.records()
    assert (record["kind"], record["imm_data"], record["counter"]) == (ARRIVED_WRITE, 0xFEDCBA98, -1)
    assert (record["opcode"], record["byte_len"]) == (Opcode.RDMA_WRITE_WITH_IMM, sum(n for _, n in pieces))


def test_an_immediate_consumes_a_receive_but_its_memory_is_not_touched(link: Link) -> None:
    link.post_receive(512, 64, 1001)
    assert link.post(Opcode.RDMA_WRITE_WITH_IMM, ((0, 64),), remote=0, imm_data=3) == VerbsStatus.SUCCESS
    (record,) = link.records()
    assert (record["kind"], record["wr_id"], record["imm_data"]) == (ARRIVED_RECEIVE, 1001, 3)
    assert link.b.read(0, 64) == link.a.read(0, 64)
    assert link.b.read(512, 64) != link.a.read(0, 64)
    assert load_u64(link.peer_entry + 24) == 1


def test_a_send_of_nothing_consumes_a_receive_of_any_memory(link: Link) -> None:
    link.post_receive(0, 0, 1001, lkey=0)
    assert link.post(Opcode.SEND, ()) == VerbsStatus.SUCCESS
    (record,) = link.records()
    assert (record["kind"], record["wr_id"], record["byte_len"]) == (ARRIVED_RECEIVE, 1001, 0)


def test_receives_and_records_go_round_their_rings(link: Link) -> None:
    for number in range(registers.INBOX_COUNT + 10):
        link.post_receive(0, 8, number)
        assert link.post(Opcode.SEND, ((number % 100, 8),)) == VerbsStatus.SUCCESS
        (record,) = link.records()
        assert record["wr_id"] == number
    assert load_u64(link.peer_entry + 24) == registers.INBOX_COUNT + 10


# Refusals.

TRANSFERS = [Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM, Opcode.RDMA_READ]
ATOMICS = [Opcode.COMPARE_SWAP, Opcode.FETCH_ADD]
NEEDED = {
    Opcode.RDMA_WRITE: Access.REMOTE_WRITE,
    Opcode.RDMA_WRITE_WITH_IMM: Access.REMOTE_WRITE,
    Opcode.RDMA_READ: Access.REMOTE_READ,
    Opcode.COMPARE_SWAP: Access.REMOTE_ATOMIC,
    Opcode.FETCH_ADD: Access.REMOTE_ATOMIC,
}


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


# Both ways do the same.


def test_random_work_has_the_same_result_both_ways_and_respects_every_guard(
    request: pytest.FixtureRequest,
) -> None:
    """A thousand operations, most of them with something wrong, against a model of status and bytes."""
    results = []
    for function in (direct_post, interpreted(direct_post)):
        rng = random.Random(11)
        a, b = Node(LOCAL, LOCAL_PD, 1), Node(REMOTE, REMOTE_PD, 2)
        inbox = Backing.anonymous(registers.INBOX_BYTES)
        a.state.peers[PEER].public, a.state.peers[PEER].outbox = b.public.address, inbox.address
        a.state.peer_backings[PEER, 2] = b.memory.address
        pair = a.state.queue_pairs[QP]
        pair.state, pair.pd, pair.peer, pair.remote_qp = READY_TO_SEND, LOCAL_PD, PEER, PEER_QP
        link = Link(a, b, inbox, function)
        store_u32(link.peer_entry, READY_TO_SEND)
        store_u32(link.peer_entry + 4, REMOTE_PD)
        outside = [bytes(node.memory.view[:1024]) + bytes(node.memory.view[2048:]) for node in (a, b)]
        statuses = []
        for number in range(500):
            opcode = rng.choice(list(Opcode)[:7])
            if rng.randrange(2):
                link.post_receive(rng.randrange(-50, 1000), rng.randrange(0, 500), number)
            count = 1 if opcode in ATOMICS else rng.randrange(3)
            length = 8 if opcode in ATOMICS else rng.choice([0, 1, 8, 64, 500])
            pieces = tuple((rng.randrange(-5, 1024), length) for _ in range(count))
            remote = rng.randrange(-10, 1030) & (~7 if rng.randrange(2) else ~0)
            operands = (
                {"compare_add": rng.getrandbits(64), "swap": rng.getrandbits(64)} if opcode in ATOMICS else {}
            )
            statuses.append(link.post(opcode, pieces, remote, imm_data=number, **operands))
        assert [bytes(node.memory.view[:1024]) + bytes(node.memory.view[2048:]) for node in (a, b)] == outside
        assert len(set(statuses)) >= 5
        assert statuses.count(0) > 50
        results.append((statuses, link.everything(), link.records()))
        for backing in (a.public, a.memory, b.public, b.memory, inbox):
            backing.close()
    assert results[0] == results[1]
