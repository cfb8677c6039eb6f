# SPDX-License-Identifier: Apache-2.0
"""The transport between NICs of one machine: what every operation does, and to which bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from nicemu.abi import Opcode, registers
from nicemu.errors import VerbsStatus
from nicemu.hot import interpreted
from nicemu.pcie import load_u64, store_u32
from nicemu.rdma import ARRIVED_RECEIVE, ARRIVED_WRITE, BUSY, FLAG_IMPLICIT_RECEIVES, direct_post
from tests.contract.direct_link import (
    ATOMICS,
    PAGE,
    PEER_QP,
    Link,
    Pieces,
    connect,
)


@pytest.fixture(params=["interpreted", "compiled"])
def link(request: pytest.FixtureRequest) -> Iterator[Link]:
    made = connect(direct_post if request.param == "compiled" else interpreted(direct_post))
    yield made
    made.close()


def changed(before: list[bytes], after: list[bytes]) -> SimpleNamespace:
    """Where each memory differs: first and last byte, or None."""
    names = ("public_a", "memory_a", "public_b", "memory_b", "inbox")
    places: list[tuple[int, int] | None] = []
    for old, new in zip(before, after, strict=True):
        where = [place for place in range(len(old)) if old[place] != new[place]] if old != new else []
        places.append((where[0], where[-1] + 1) if where else None)
    return SimpleNamespace(**dict(zip(names, places, strict=True)))


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
    """InfiniBand Architecture Specification: the R_Key of an operation of length zero is not validated."""
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


# Both ways do the same.


def test_random_work_ends_the_same_both_ways_and_touches_nothing_outside_the_regions() -> None:
    """Five hundred operations, most of them with something wrong."""
    results = []
    for function in (direct_post, interpreted(direct_post)):
        rng = random.Random(11)
        link = connect(function)
        memories = [node.memory.view for node in (link.a, link.b)]
        outside = [bytes(memory[:1024]) + bytes(memory[2048:]) for memory in memories]
        statuses = []
        for number in range(500):
            opcode = rng.choice(list(Opcode)[:7])
            if rng.randrange(2):
                link.post_receive(rng.randrange(-50, 1000), rng.randrange(0, 500), number)
            count = 1 if opcode in ATOMICS else rng.randrange(3)
            length = 8 if opcode in ATOMICS else rng.choice([0, 1, 8, 64, 500])
            pieces = tuple((rng.randrange(-5, 1024), length) for _ in range(count))
            remote = rng.randrange(-10, 1030) & (~7 if rng.randrange(2) else ~0)
            operands = {"imm_data": number}
            if opcode in ATOMICS:
                operands |= {"compare_add": rng.getrandbits(64), "swap": rng.getrandbits(64)}
            statuses.append(link.post(opcode, pieces, remote, **operands))
        assert [bytes(memory[:1024]) + bytes(memory[2048:]) for memory in memories] == outside
        assert len(set(statuses)) >= 5
        assert statuses.count(VerbsStatus.SUCCESS) > 50
        results.append((statuses, link.everything(), link.records()))
        del memories
        link.close()
    assert results[0] == results[1]
