# SPDX-License-Identifier: Apache-2.0
"""A ring that the NIC fills and an owner drains; one that is full overruns and takes no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from nicemu.abi import COMPLETION, Opcode, registers
from nicemu.errors import VerbsStatus
from nicemu.hot import interpreted
from nicemu.pcie import Backing, store_u64
from nicemu.rdma import new_state, post_completion

COUNT = registers.COMPLETION_COUNT
RING = 4096
CQ = 2
Post = Callable[[int], bool]


@pytest.fixture
def owner() -> Iterator[SimpleNamespace]:
    """A ring between two guard pages, its consumer word, and the queue's record."""
    backing = Backing.anonymous(RING + COUNT * 64 + 4096)
    backing.view[:RING] = b"\xa5" * RING
    backing.view[RING + COUNT * 64 :] = b"\xa5" * 4096
    consumer = Backing.anonymous(64)
    state = new_state(0)
    queue = state.completion_queues[CQ]
    queue.ring, queue.consumer, queue.open = backing.address + RING, consumer.address, 1
    yield SimpleNamespace(
        state=state,
        queue=queue,
        entries=np.frombuffer(backing.view[RING : RING + COUNT * 64], COMPLETION),
        consume=lambda head: store_u64(consumer.address, head),
        guards_hold=lambda: (
            bytes(backing.view[:RING]) == b"\xa5" * RING and bytes(backing.view[-4096:]) == b"\xa5" * 4096
        ),
    )
    backing.close()
    consumer.close()


@pytest.fixture(params=["interpreted", "compiled"])
def post(request: pytest.FixtureRequest, owner: SimpleNamespace) -> Post:
    """Post a completion with this wr_id."""
    function = post_completion if request.param == "compiled" else interpreted(post_completion)

    def run(wr_id: int) -> bool:
        return bool(
            function(
                owner.state,
                CQ,
                np.uint64(wr_id),
                int(VerbsStatus.REM_ACCESS_ERR),
                int(Opcode.SEND_WITH_IMM),
                np.uint64(1 << 40),
                77,
                np.uint32(0xFEDCBA98),
                1,
            )
        )

    return run


def test_an_entry_holds_what_ibv_poll_cq_returns(owner: SimpleNamespace, post: Post) -> None:
    assert post((1 << 64) - 1)
    entry = owner.entries[0]
    assert {name: int(entry[name]) for name in COMPLETION.names or () if name != "words"} == {
        "wr_id": (1 << 64) - 1,
        "status": 10,
        "opcode": 5,
        "byte_len": 1 << 40,
        "qp": 77,
        "imm_data": 0xFEDCBA98,
        "has_imm": 1,
        "cq": CQ,
        "ready": 1,
    }
    assert not owner.entries[1:].tobytes().strip(b"\0")


def test_an_entry_is_ready_with_its_number_plus_one_so_that_a_stale_one_is_never_taken(
    owner: SimpleNamespace, post: Post
) -> None:
    for wr_id in range(COUNT + 2):
        owner.consume(wr_id)
        assert post(wr_id)
    assert [int(owner.entries[place]["ready"]) for place in (0, 1, 2, COUNT - 1)] == [
        COUNT + 1,
        COUNT + 2,
        3,
        COUNT,
    ]
    assert [int(owner.entries[place]["wr_id"]) for place in (0, 1, 2)] == [COUNT, COUNT + 1, 2]
    assert owner.guards_hold()


def test_a_queue_whose_consumer_is_a_whole_ring_behind_overruns_and_takes_no_more(
    owner: SimpleNamespace, post: Post
) -> None:
    for wr_id in range(COUNT):
        assert post(wr_id)
    assert owner.queue.error == 0
    before = owner.entries.tobytes()
    assert not post(COUNT)
    assert owner.queue.error == 1
    owner.consume(COUNT)
    assert not post(COUNT + 1)
    assert owner.entries.tobytes() == before
    assert int(owner.queue.tail) == COUNT
    assert owner.guards_hold()


def test_one_entry_that_was_consumed_makes_room_for_one(owner: SimpleNamespace, post: Post) -> None:
    for wr_id in range(COUNT):
        post(wr_id)
    owner.consume(1)
    assert post(COUNT)
    assert int(owner.entries[0]["wr_id"]) == COUNT
    assert not post(COUNT + 1)


@pytest.mark.parametrize("claimed", [1, 1 << 63, (1 << 64) - 1])
def test_a_consumer_that_claims_more_than_was_produced_overruns_the_queue(
    owner: SimpleNamespace, post: Post, claimed: int
) -> None:
    owner.consume(claimed)
    assert not post(0)
    assert owner.queue.error == 1
    assert not owner.entries.tobytes().strip(b"\0")


def test_a_queue_that_is_not_open_takes_nothing(owner: SimpleNamespace, post: Post) -> None:
    owner.queue.open = 0
    assert not post(0)
    assert owner.queue.error == 0
    assert not owner.entries.tobytes().strip(b"\0")
