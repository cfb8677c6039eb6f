# SPDX-License-Identifier: Apache-2.0
"""What every transport between connected queue pairs promises: `data_promises`, and what only these promise.

`joined` is a fixture of the file that imports this: two NICs (`JoinedNics`) over one transport. Sources:
ibv_post_send(3), ibv_poll_cq(3); InfiniBand Architecture Specification, "Transport Layer".
"""

from __future__ import annotations

import random

import pytest

from nicemu.abi import Access, Opcode, WorkRequest
from nicemu.errors import VerbsStatus
from tests.contract.data_promises import *  # noqa: F403
from tests.contract.joined_nics import EVERY_RIGHT, JoinedNics, some_bytes, work

LENGTHS = (0, 1, 64, 4096, 4097, 65_537, (1 << 20) + 3)
OK = VerbsStatus.SUCCESS
WRITE, WRITE_IMM, READ = Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM, Opcode.RDMA_READ
SEND, SEND_IMM = Opcode.SEND, Opcode.SEND_WITH_IMM
FETCH_ADD, COMPARE_SWAP = Opcode.FETCH_ADD, Opcode.COMPARE_SWAP
TRANSFERS, ATOMICS = (WRITE, WRITE_IMM, READ), (FETCH_ADD, COMPARE_SWAP)
RIGHT = {
    WRITE: Access.REMOTE_WRITE,
    WRITE_IMM: Access.REMOTE_WRITE,
    READ: Access.REMOTE_READ,
    FETCH_ADD: Access.REMOTE_ATOMIC,
    COMPARE_SWAP: Access.REMOTE_ATOMIC,
}


@pytest.mark.parametrize("length", [0, 64, 70_000])
def test_when_an_immediate_counts_its_bytes_are_there(joined: JoinedNics, length: int) -> None:
    data = some_bytes(length)
    source, target = joined.a.region(data or b"x"), joined.b.region(length + 1)
    (counter,) = joined.b.host.counters("arrived", remote=True)
    joined.post(work(WRITE_IMM, source, target, length, imm_data=counter.index))
    joined.until(lambda: counter.success == 1)
    assert target.data == data + b"\0"
    assert joined.ends(1)[0].status is OK


@pytest.mark.parametrize("opcode", [SEND, SEND_IMM])
@pytest.mark.parametrize("length", [0, 1, 5000, 70_000])
def test_a_send_lands_in_the_receive_that_was_posted_first(
    joined: JoinedNics, opcode: Opcode, length: int
) -> None:
    data = some_bytes(length)
    source, target = joined.a.region(data or b"x"), joined.b.region(length + 100)
    for number in (1, 2):
        joined.b.host.post_receive(target.span, joined.b.qp, wr_id=number)
    joined.post(work(opcode, source, length=length, imm_data=0xC0FFEE))
    (received,) = joined.ends(1, joined.b)
    assert (received.wr_id, received.status, received.byte_len) == (1, OK, length)
    assert received.imm_data == (0xC0FFEE if opcode is SEND_IMM else None)
    assert target.data == data + bytes(100)
    assert joined.ends(1)[0].status is OK


# Order.


def test_work_ends_in_the_order_in_which_it_was_posted(joined: JoinedNics) -> None:
    source, target = joined.a.region(bytes(range(200))), joined.b.region(8)
    joined.post(*(work(WRITE, source, target, 1, at=number, wr_id=number) for number in range(200)))
    assert [(one.wr_id, one.status) for one in joined.ends(200)] == [(number, OK) for number in range(200)]
    assert target.data[0] == 199


def test_what_was_written_before_an_immediate_or_a_send_is_there(joined: JoinedNics) -> None:
    source, target, inbox = joined.a.region(some_bytes(60_000)), joined.b.region(60_000), joined.b.region(64)
    (counter,) = joined.b.host.counters("arrived", remote=True)
    joined.b.host.post_receive(inbox.span, joined.b.qp, wr_id=5)
    joined.post(
        work(WRITE, source, target, 30_000),
        work(WRITE_IMM, None, imm_data=counter.index),
        work(WRITE, source, target, 30_000, at=30_000, to=30_000),
        work(SEND, source, length=8),
    )
    joined.until(lambda: counter.success == 1)
    assert target.data[:30_000] == source.data[:30_000]
    assert joined.ends(1, joined.b)[0].wr_id == 5
    assert target.data == source.data
    assert [one.status for one in joined.ends(4)] == [OK] * 4


def test_both_ends_may_work_at_the_same_time(joined: JoinedNics) -> None:
    one, two = joined.a.region(some_bytes(9000, 1)), joined.b.region(some_bytes(9000, 2))
    here, there = joined.a.region(9000), joined.b.region(9000)
    joined.post(work(WRITE, one, there), work(READ, here, two, 4000))
    joined.post(work(WRITE, two, here, 5000, at=4000, to=4000), by=joined.b)
    assert [end.status for end in joined.ends(2)] == [OK, OK]
    assert joined.ends(1, joined.b)[0].status is OK
    assert there.data == one.data
    assert here.data == two.data


# Refusals.


def refused(joined: JoinedNics, request: WorkRequest, status: VerbsStatus) -> None:
    """The request ends with this status, nothing has changed anywhere, and what follows it is flushed."""
    before = [region.data for end in (joined.a, joined.b) for region in end.regions]
    joined.post(request, work(WRITE, joined.a.regions[0], joined.b.regions[0], 1, wr_id=2))
    assert [end.status for end in joined.ends(2)] == [status, VerbsStatus.WR_FLUSH_ERR]
    joined.post(work(SEND, None, wr_id=3))
    assert joined.ends(1)[0].status is VerbsStatus.WR_FLUSH_ERR
    assert [region.data for end in (joined.a, joined.b) for region in end.regions] == before
    assert joined.guards_hold


@pytest.mark.parametrize("opcode", TRANSFERS + ATOMICS)
@pytest.mark.parametrize("which", ["zero", "other tag", "taken back", "of the other NIC"])
def test_a_key_that_names_nothing_is_a_remote_access_error(
    joined: JoinedNics, opcode: Opcode, which: str
) -> None:
    here, there = joined.a.region(b"ours    "), joined.b.region(b"theirs  ")
    rkey = {"zero": 0, "other tag": there.span.key ^ 1 << 20, "of the other NIC": here.span.key}.get(which)
    if rkey is None:
        lent = joined.b.region(8)
        rkey = lent.span.key
        joined.b.host.deregister(lent.span)
    refused(joined, work(opcode, here, there, 8, rkey=rkey), VerbsStatus.REM_ACCESS_ERR)


@pytest.mark.parametrize("opcode", TRANSFERS + ATOMICS)
def test_a_key_that_worked_is_refused_when_it_was_taken_back(joined: JoinedNics, opcode: Opcode) -> None:
    """R41."""
    here, there, lent = joined.a.region(bytes(8)), joined.b.region(bytes(8)), joined.b.region(bytes(8))
    assert joined.do(work(opcode, here, lent, 8)) is OK
    joined.b.host.deregister(lent.span)
    again = joined.b.region(b"new     ")
    assert again.span.key != lent.span.key
    refused(joined, work(opcode, here, lent, 8), VerbsStatus.REM_ACCESS_ERR)
    assert there.data == bytes(8)


@pytest.mark.parametrize("opcode", TRANSFERS + ATOMICS)
def test_a_key_of_another_domain_is_a_remote_access_error(joined: JoinedNics, opcode: Opcode) -> None:
    here, _ = joined.a.region(b"ours    "), joined.b.region(b"theirs  ")
    foreign = joined.b.region(b"foreign ", pd=joined.b.owner.pd + 1)
    refused(joined, work(opcode, here, foreign, 8), VerbsStatus.REM_ACCESS_ERR)


@pytest.mark.parametrize("opcode", RIGHT)
def test_a_key_without_the_right_is_a_remote_access_error(joined: JoinedNics, opcode: Opcode) -> None:
    here, enough = joined.a.region(b"ours    "), joined.b.region(b"theirs  ", RIGHT[opcode])
    assert joined.do(work(opcode, here, enough, 8)) is OK
    every_other = joined.b.region(b"private ", EVERY_RIGHT & ~RIGHT[opcode])
    joined.b.regions[0] = joined.b.region(8)
    refused(joined, work(opcode, here, every_other, 8), VerbsStatus.REM_ACCESS_ERR)


@pytest.mark.parametrize("opcode", TRANSFERS)
@pytest.mark.parametrize("to", [-1, 57, 1 << 40])
def test_a_range_outside_the_region_is_a_remote_access_error(
    joined: JoinedNics, opcode: Opcode, to: int
) -> None:
    here, there = joined.a.region(some_bytes(64)), joined.b.region(some_bytes(64, 1))
    address = (there.span.address + to) % (1 << 64)
    refused(joined, work(opcode, here, there, 8, remote_address=address), VerbsStatus.REM_ACCESS_ERR)


@pytest.mark.parametrize("opcode", ATOMICS)
def test_an_unaligned_atomic_is_an_invalid_request(joined: JoinedNics, opcode: Opcode) -> None:
    here, there = joined.a.region(some_bytes(64)), joined.b.region(some_bytes(64, 1))
    refused(joined, work(opcode, here, there, 8, to=4), VerbsStatus.REM_INV_REQ_ERR)


@pytest.mark.parametrize("opcode", [*TRANSFERS, *ATOMICS, SEND])
@pytest.mark.parametrize("wrong", ["key", "domain", "bounds"])
def test_local_memory_that_its_key_does_not_cover_is_a_local_protection_error(
    joined: JoinedNics, opcode: Opcode, wrong: str
) -> None:
    here, there = joined.a.region(some_bytes(64)), joined.b.region(some_bytes(64, 1))
    foreign = joined.a.region(64, pd=joined.a.owner.pd + 1)
    joined.b.host.post_receive(there.span, joined.b.qp)
    lkey = {"key": here.span.key ^ 1 << 20, "domain": foreign.span.key}.get(wrong, here.span.key)
    at = 60 if wrong == "bounds" else 0
    refused(joined, work(opcode, here, there, 8, at=at, lkey=lkey), VerbsStatus.LOC_PROT_ERR)


@pytest.mark.parametrize("opcode", [READ, *ATOMICS])
def test_what_comes_back_needs_local_memory_that_may_be_written(joined: JoinedNics, opcode: Opcode) -> None:
    here, there = joined.a.region(b"readable", Access.REMOTE_READ), joined.b.region(b"theirs  ")
    assert joined.do(work(WRITE, here, there, 8)) is OK
    refused(joined, work(opcode, here, there, 8), VerbsStatus.LOC_PROT_ERR)


@pytest.mark.parametrize("opcode", [SEND, SEND_IMM])
def test_a_message_longer_than_its_receive_is_an_invalid_request(joined: JoinedNics, opcode: Opcode) -> None:
    here, there = joined.a.region(some_bytes(64)), joined.b.region(63)
    joined.b.host.post_receive(there.span, joined.b.qp)
    before = joined.b.regions[0].data
    joined.post(work(opcode, here))
    named = joined.deviations.get("longer than its receive", VerbsStatus.REM_INV_REQ_ERR)
    assert joined.ends(1)[0].status is named
    assert joined.b.regions[0].data == before


def test_a_receive_in_memory_that_its_key_does_not_cover_is_a_remote_operation_error(
    joined: JoinedNics,
) -> None:
    here, there = joined.a.region(some_bytes(64)), joined.b.region(64)
    foreign = joined.b.region(64, pd=joined.b.owner.pd + 1)
    joined.b.host.post_receive(foreign.span, joined.b.qp)
    assert joined.do(work(SEND, here)) is VerbsStatus.REM_OP_ERR
    assert there.data == foreign.data == bytes(64)


def test_a_request_of_no_bytes_needs_no_key(joined: JoinedNics) -> None:
    """InfiniBand Architecture Specification: the R_Key of an operation of length zero is not validated."""
    for opcode in TRANSFERS:
        assert joined.do(WorkRequest(opcode, (), 5, 0xDEAD, signaled=True)) is OK


# Errors and after.


def test_an_error_lets_what_was_before_it_end_well_and_flushes_what_is_behind(joined: JoinedNics) -> None:
    here, there = joined.a.region(some_bytes(64)), joined.b.region(64)
    good = [work(WRITE, here, there, 8, at=8 * n, to=8 * n, wr_id=n) for n in range(4)]
    bad = work(WRITE, here, there, 8, wr_id=4, rkey=there.span.key ^ 1 << 20)
    rest = [work(opcode, here, there, 8, wr_id=5 + n) for n, opcode in enumerate((WRITE, READ, SEND))]
    joined.post(*good, bad, *rest)
    ends = [(one.wr_id, one.status) for one in joined.ends(8)]
    assert ends[:5] == [(0, OK), (1, OK), (2, OK), (3, OK), (4, VerbsStatus.REM_ACCESS_ERR)]
    assert ends[5:] == [(number, VerbsStatus.WR_FLUSH_ERR) for number in (5, 6, 7)]
    assert there.data == here.data[:32] + bytes(32)


def test_after_an_error_a_new_connection_works_and_others_have_not_noticed(joined: JoinedNics) -> None:
    here, there = joined.a.region(some_bytes(64)), joined.b.region(64)
    first = joined.a.qp, joined.b.qp
    joined.join()
    assert joined.do(work(WRITE, here, there, rkey=1)) is VerbsStatus.REM_ACCESS_ERR
    joined.disjoin()
    joined.join()
    assert joined.do(work(WRITE, here, there)) is OK
    assert there.data == here.data
    joined.a.qp, joined.b.qp = first
    there.fill(bytes(64))
    assert joined.do(work(WRITE, here, there)) is OK
    assert there.data == here.data


def test_without_a_receive_a_send_waits_until_there_is_one(joined: JoinedNics) -> None:
    """Receiver not ready, retried for ever."""
    here, there = joined.a.region(b"at last "), joined.b.region(8)
    joined.post(work(SEND, here))
    for _ in range(50):
        joined.simulation.step()
    assert joined.a.statuses() == []
    joined.b.host.post_receive(there.span, joined.b.qp)
    assert joined.ends(1)[0].status is OK
    assert there.data == b"at last "


# Counting and triggers.


def test_a_region_counts_the_writes_and_atomics_that_arrive_in_it(joined: JoinedNics) -> None:
    """R12."""
    (counter,) = joined.b.host.counters("arrived")
    (told,) = joined.b.host.counters("told", remote=True)
    here, there = joined.a.region(some_bytes(64)), joined.b.region(64, counter=counter.index)
    joined.post(
        work(WRITE, here, there, 64),
        work(WRITE, here, there, 8),
        work(READ, here, there, 8),
        work(FETCH_ADD, here, there, 8),
        work(WRITE_IMM, here, there, 8, imm_data=told.index),
    )
    joined.until(lambda: counter.success == 4)
    assert [one.status for one in joined.ends(5)] == [OK] * 5
    joined.idle()
    assert (counter.read(), told.read()) == ((4, 0), (1, 0))


def test_a_region_counts_the_bytes_that_arrive_in_it(joined: JoinedNics) -> None:
    (counter,) = joined.b.host.counters("bytes", counts_bytes=True)
    here, there = joined.a.region(some_bytes(9000)), joined.b.region(9000, counter=counter.index)
    joined.post(work(WRITE, here, there, 9000), work(WRITE, here, there, 8))
    joined.until(lambda: counter.success == 9008)
    assert there.data == here.data


def test_deferred_work_that_is_refused_counts_an_error(joined: JoinedNics) -> None:
    source, target = joined.a.region(some_bytes(64)), joined.b.region(64)
    joined.b.host.deregister(target.span)
    go, done = joined.a.host.counters("go", "done")
    with joined.a.host.program("refused") as program:
        program.when(go >= 1).write(source.span, joined.remote(target), then=done)
        program.when(go >= 2).write(source.span, joined.remote(target), then=done)
    program.arm()
    go.add(2)
    joined.until(lambda: done.errors == 2)
    statuses = [status for _, status in joined.a.statuses()]
    assert statuses == [VerbsStatus.REM_ACCESS_ERR, VerbsStatus.WR_FLUSH_ERR]
    assert target.data == bytes(64)


# All together.


@pytest.mark.parametrize("seed", [1, 2])
def test_random_work_leaves_what_a_model_says(joined: JoinedNics, seed: int) -> None:
    rng = random.Random(seed)
    slot, count = 3000, 60
    here, there = joined.a.region(rng.randbytes(slot * count)), joined.b.region(rng.randbytes(slot * count))
    word, inbox = joined.b.region(8), joined.b.region(slot)
    (told,) = joined.b.host.counters("told", remote=True)
    ours, theirs, total, sends = bytearray(here.data), bytearray(there.data), 0, 0
    for number in range(count):
        start, length = number * slot, rng.choice([0, 1, 8, 500, slot])
        end = start + length
        opcode = rng.choice([WRITE, WRITE_IMM, READ, SEND, FETCH_ADD])
        if opcode is SEND:
            joined.b.host.post_receive(inbox.span, joined.b.qp, wr_id=sends)
            sends += 1
        if opcode is FETCH_ADD:
            request = work(opcode, here, word, 8, at=start, compare_add=number)
            ours[start : start + 8] = total.to_bytes(8, "little")
            total += number
        else:
            request = work(opcode, here, there, length, at=start, to=start, imm_data=told.index)
        if opcode in (WRITE, WRITE_IMM):
            theirs[start:end] = ours[start:end]
        elif opcode is READ:
            ours[start:end] = theirs[start:end]
        joined.post(request)
    assert [one.status for one in joined.ends(count)] == [OK] * count
    assert (here.data, there.data, word.word()) == (bytes(ours), bytes(theirs), total)
    assert [one.wr_id for one in joined.b.host.take_completions()] == list(range(sends))
    assert joined.guards_hold
