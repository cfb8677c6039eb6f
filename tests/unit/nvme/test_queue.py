# SPDX-License-Identifier: Apache-2.0
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import NvmeStatus, ResourceError, UsageError
from nicemu.nvme import CompletionConsumer, CompletionQueue, Cqe, Sqe, SubmissionProducer, SubmissionQueue
from nicemu.pcie import AddressSpace, Backing

BASE = 0x10_0000
GUARD = 0xA5


@pytest.fixture
def memory() -> AddressSpace:
    space = AddressSpace()
    space.add(BASE, "nic", Backing.anonymous(8192)).backing.view[:] = bytes([GUARD]) * 8192
    return space


def submission_pair(memory: AddressSpace, entry_count: int) -> tuple[SubmissionProducer, SubmissionQueue]:
    address = BASE + 512
    return (
        SubmissionProducer(memory, address, entry_count),
        SubmissionQueue(memory, address, entry_count, sq_id=1, cq_id=1),
    )


def completion_pair(memory: AddressSpace, entry_count: int) -> tuple[CompletionQueue, CompletionConsumer]:
    address = BASE + 512
    consumer = CompletionConsumer(memory, address, entry_count)
    return CompletionQueue(memory, address, entry_count, cq_id=1, vector=1), consumer


def test_a_ring_of_n_entries_holds_n_minus_one(memory: AddressSpace) -> None:
    producer, queue = submission_pair(memory, 4)
    for cid in range(3):
        assert queue.ring(producer.post(Sqe(2, cid=cid)))
    assert producer.is_full
    with pytest.raises(ResourceError, match="is full"):
        producer.post(Sqe(2, cid=3))
    assert [sqe.cid for sqe in (queue.fetch(), queue.fetch(), queue.fetch()) if sqe] == [0, 1, 2]
    assert queue.fetch() is None


def test_the_head_in_a_completion_frees_submission_entries(memory: AddressSpace) -> None:
    producer, _ = submission_pair(memory, 2)
    producer.post(Sqe(2))
    producer.learn_head(1)
    assert not producer.is_full
    assert producer.post(Sqe(2)) == 0


def test_a_head_that_was_never_submitted_frees_nothing(memory: AddressSpace) -> None:
    producer, _ = submission_pair(memory, 4)
    producer.post(Sqe(2))
    producer.learn_head(3)
    assert producer.used_count == 1


@pytest.mark.parametrize("tail", [-1, 4, 0xFFFF, 0xFFFF_FFFF])
def test_a_tail_doorbell_past_the_ring_is_refused(memory: AddressSpace, tail: int) -> None:
    _, queue = submission_pair(memory, 4)
    assert not queue.ring(tail)
    assert queue.used_count == 0


def test_a_tail_doorbell_that_passes_the_head_is_refused(memory: AddressSpace) -> None:
    _, queue = submission_pair(memory, 4)
    assert queue.ring(2)
    assert not queue.ring(1)
    assert queue.used_count == 2


@pytest.mark.parametrize("head", [-1, 2, 4, 0xFFFF])
def test_a_head_doorbell_past_the_tail_is_refused(memory: AddressSpace, head: int) -> None:
    queue, _ = completion_pair(memory, 4)
    queue.post(Cqe(0, 0))
    assert not queue.ring(head)
    assert queue.ring(1)


def test_a_full_completion_queue_refuses_and_overwrites_nothing(memory: AddressSpace) -> None:
    queue, _ = completion_pair(memory, 2)
    queue.post(Cqe(7, 0))
    before = memory.read(BASE, 8192)
    with pytest.raises(ResourceError, match="completion queue 1 is full"):
        queue.post(Cqe(8, 0))
    assert memory.read(BASE, 8192) == before


def test_an_old_entry_is_not_taken_for_a_new_one_after_the_ring_wraps(memory: AddressSpace) -> None:
    queue, consumer = completion_pair(memory, 2)
    for cid in range(5):
        assert consumer.poll() is None
        queue.post(Cqe(cid, NvmeStatus.SUCCESS))
        cqe = consumer.poll()
        assert cqe is not None
        assert cqe.cid == cid
        assert queue.ring(consumer.head)
    assert consumer.poll() is None


@given(entry_count=st.integers(2, 9), steps=st.lists(st.booleans(), max_size=60))
def test_submissions_arrive_once_and_in_order(entry_count: int, steps: list[bool]) -> None:
    memory = AddressSpace()
    memory.add(BASE, "nic", Backing.anonymous(4096))
    producer, queue = submission_pair(memory, entry_count)
    sent: deque[int] = deque()
    for cid, is_post in enumerate(steps):
        if is_post:
            if len(sent) == entry_count - 1:
                assert producer.is_full
                continue
            assert queue.ring(producer.post(Sqe(2, cid=cid)))
            sent.append(cid)
        else:
            sqe = queue.fetch()
            assert (sqe.cid if sqe else None) == (sent.popleft() if sent else None)
            producer.learn_head(queue.head)


@given(entry_count=st.integers(2, 9), steps=st.lists(st.booleans(), max_size=60))
def test_completions_arrive_once_and_in_order(entry_count: int, steps: list[bool]) -> None:
    memory = AddressSpace()
    memory.add(BASE, "nic", Backing.anonymous(4096))
    queue, consumer = completion_pair(memory, entry_count)
    sent: deque[int] = deque()
    for cid, is_post in enumerate(steps):
        if is_post:
            if queue.is_full:
                assert len(sent) == entry_count - 1
                continue
            queue.post(Cqe(cid, NvmeStatus.SUCCESS))
            sent.append(cid)
        else:
            cqe = consumer.poll()
            assert (cqe.cid if cqe else None) == (sent.popleft() if sent else None)
            assert queue.ring(consumer.head)


def test_rings_touch_no_byte_outside_themselves(memory: AddressSpace) -> None:
    producer, queue = submission_pair(memory, 3)
    for _ in range(7):
        queue.ring(producer.post(Sqe(2)))
        queue.fetch()
        producer.learn_head(queue.head)
    view = memory.view(BASE, 8192)
    assert set(view[:512]) == {GUARD}
    assert set(view[512 + 3 * 64 :]) == {GUARD}
    completions = CompletionQueue(memory, BASE + 4096, 3, cq_id=1, vector=None)
    consumer = CompletionConsumer(memory, BASE + 4096, 3)
    for _ in range(7):
        completions.post(Cqe(1, 0))
        consumer.poll()
        completions.ring(consumer.head)
    assert set(view[512 + 3 * 64 : 4096]) == {GUARD}
    assert set(view[4096 + 3 * 16 :]) == {GUARD}


@pytest.mark.parametrize("entry_count", [0, 1, 65537])
def test_a_ring_of_an_impossible_size_is_refused(memory: AddressSpace, entry_count: int) -> None:
    with pytest.raises(UsageError, match="2 to 65536 entries"):
        SubmissionQueue(memory, BASE, entry_count, sq_id=1, cq_id=1)


def test_a_ring_that_ends_outside_its_window_is_refused(memory: AddressSpace) -> None:
    with pytest.raises(UsageError, match="ends outside its window"):
        CompletionQueue(memory, BASE + 8192 - 16, 2, cq_id=1, vector=None)
