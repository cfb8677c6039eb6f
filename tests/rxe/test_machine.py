# SPDX-License-Identifier: Apache-2.0
"""The machine itself: verbs of the kernel's device do what they say, with nothing of ours in between."""

from __future__ import annotations

import random
import socket

import pytest

from nicemu.errors import VerbsStatus
from nicemu.fabric import Pyverbs

from .endpoints import Pair

pytestmark = pytest.mark.rxe

LENGTHS = (1, 64, 4096, 4097, 65536)


def some_bytes(length: int) -> bytes:
    """Return bytes that tell their places apart."""
    return random.Random(length).randbytes(length)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_write_puts_bytes_into_the_peer_s_region(verbs: Pyverbs, pair: Pair, length: int) -> None:
    pair.here.write(some_bytes(length))
    pair.there.write(b"\xee", 128 + length)
    pair.here.post(verbs.enums.IBV_WR_RDMA_WRITE, length, remote=pair.there.remote(128))
    assert pair.here.completion().status == VerbsStatus.SUCCESS
    assert pair.there.read(length + 1, 128) == some_bytes(length) + b"\xee"


@pytest.mark.parametrize("length", LENGTHS)
def test_a_read_fetches_bytes_of_the_peer_s_region(verbs: Pyverbs, pair: Pair, length: int) -> None:
    pair.there.write(some_bytes(length), 64)
    pair.here.post(verbs.enums.IBV_WR_RDMA_READ, length, offset=256, remote=pair.there.remote(64))
    assert pair.here.completion().status == VerbsStatus.SUCCESS
    assert pair.here.read(length, 256) == some_bytes(length)


def test_a_send_lands_in_the_receive_that_was_posted(verbs: Pyverbs, pair: Pair) -> None:
    pair.there.receive(512, 8192)
    pair.here.write(some_bytes(5000))
    pair.here.post(verbs.enums.IBV_WR_SEND, 5000)
    assert pair.here.completion().status == VerbsStatus.SUCCESS
    received = pair.there.completion()
    assert (received.status, received.byte_len) == (VerbsStatus.SUCCESS, 5000)
    assert pair.there.read(5000, 512) == some_bytes(5000)


def test_a_write_with_immediate_tells_the_peer_a_number(verbs: Pyverbs, pair: Pair) -> None:
    pair.there.receive(0, 64)
    pair.here.write(some_bytes(100))
    pair.here.post(
        verbs.enums.IBV_WR_RDMA_WRITE_WITH_IMM,
        100,
        remote=pair.there.remote(1000),
        immediate=socket.htonl(0xC0FFEE),
    )
    assert pair.here.completion().status == VerbsStatus.SUCCESS
    told = pair.there.completion()
    assert told.opcode == verbs.enums.IBV_WC_RECV_RDMA_WITH_IMM
    assert socket.ntohl(told.imm_data) == 0xC0FFEE
    assert pair.there.read(100, 1000) == some_bytes(100)


def test_a_fetch_and_add_adds_and_brings_back_what_was_there(verbs: Pyverbs, pair: Pair) -> None:
    pair.there.write((41).to_bytes(8, "little"), 64)
    opcode = verbs.enums.IBV_WR_ATOMIC_FETCH_AND_ADD
    pair.here.post(opcode, 8, remote=pair.there.remote(64), atomic=(1, 0))
    assert pair.here.completion().status == VerbsStatus.SUCCESS
    assert int.from_bytes(pair.here.read(8), "little") == 41
    assert int.from_bytes(pair.there.read(8, 64), "little") == 42


@pytest.mark.parametrize(("compared", "left"), [(41, 7), (40, 41)])
def test_a_compare_and_swap_swaps_only_what_is_equal(
    verbs: Pyverbs, pair: Pair, compared: int, left: int
) -> None:
    pair.there.write((41).to_bytes(8, "little"), 64)
    opcode = verbs.enums.IBV_WR_ATOMIC_CMP_AND_SWP
    pair.here.post(opcode, 8, remote=pair.there.remote(64), atomic=(compared, 7))
    assert pair.here.completion().status == VerbsStatus.SUCCESS
    assert int.from_bytes(pair.here.read(8), "little") == 41
    assert int.from_bytes(pair.there.read(8, 64), "little") == left


def test_a_write_under_a_key_that_nobody_gave_is_refused(verbs: Pyverbs, pair: Pair) -> None:
    rkey, address = pair.there.remote()
    before = pair.there.read(64)
    pair.here.write(some_bytes(64))
    pair.here.post(verbs.enums.IBV_WR_RDMA_WRITE, 64, remote=(rkey ^ 0xFF, address))
    assert pair.here.completion().status == VerbsStatus.REM_ACCESS_ERR
    assert pair.there.read(64) == before
