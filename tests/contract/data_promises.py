# SPDX-License-Identifier: Apache-2.0
"""What every transport promises of bytes and triggers: our engine, verbs and libfabric alike.

`joined` is a fixture of the file that imports this. What only connected queue pairs promise (order of ends,
an error that flushes what is behind it, receives, immediates that count) is in `transport_promises`.
Sources: ibv_post_send(3); fi_rma(3), fi_atomic(3), fi_trigger(3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from nicemu.abi import Opcode, RemoteSpan, Sge, WorkRequest
from nicemu.errors import VerbsStatus
from tests.contract.joined_nics import Region, some_bytes, work

LENGTHS = (0, 1, 64, 4096, 4097, 65_537, (1 << 20) + 3)
OK = VerbsStatus.SUCCESS
WRITE, READ = Opcode.RDMA_WRITE, Opcode.RDMA_READ
FETCH_ADD, COMPARE_SWAP = Opcode.FETCH_ADD, Opcode.COMPARE_SWAP


class Joined(Protocol):
    """Two ends, "a" and "b", of which a asks; an end has `region`, and a `host` that arms programs."""

    a: Any
    b: Any

    def do(self, work: WorkRequest) -> VerbsStatus:
        """Carry work of a out, and return how it ends."""
        ...

    def remote(self, region: Region) -> RemoteSpan:
        """Return a region of b as programs of a name it."""
        ...

    def until(self, is_true: Callable[[], bool], what: str = "it") -> None:
        """Let it go on until something is so."""
        ...

    @property
    def guards_hold(self) -> bool:
        """Whether nothing was written beside any region."""
        ...


@pytest.mark.parametrize("length", LENGTHS)
def test_a_write_puts_its_bytes_there_and_nowhere_else(joined: Joined, length: int) -> None:
    data = some_bytes(length)
    source, target = joined.a.region(data or b"x"), joined.b.region(length + 16)
    assert joined.do(work(WRITE, source, target, length, to=8)) is OK
    assert target.data == bytes(8) + data + bytes(8)
    assert joined.guards_hold


@pytest.mark.parametrize("length", LENGTHS)
def test_a_read_fetches_the_bytes_and_writes_nothing_else(joined: Joined, length: int) -> None:
    data = some_bytes(length)
    source, target = joined.b.region(data or b"x"), joined.a.region(length + 16)
    assert joined.do(work(READ, target, source, length, at=8)) is OK
    assert target.data == bytes(8) + data + bytes(8)
    assert joined.guards_hold


def test_a_write_gathers_and_a_read_scatters_two_pieces(joined: Joined) -> None:
    data = some_bytes(500)
    here, there = joined.a.region(data), joined.b.region(300)
    pieces = [Sge(here.span.address + at, length, here.span.key) for at, length in ((300, 33), (5, 100))]
    both = {"remote_address": there.span.address + 11, "rkey": there.span.key, "signaled": True}
    assert joined.do(WorkRequest(WRITE, tuple(pieces), **both)) is OK
    assert there.data == bytes(11) + data[300:333] + data[5:105] + bytes(156)
    assert joined.do(WorkRequest(READ, tuple(reversed(pieces)), **both)) is OK
    moved = data[300:333] + data[5:105]
    assert here.data == data[:5] + moved[:100] + data[105:300] + moved[100:] + data[333:]


@pytest.mark.parametrize(
    ("old", "added"), [(5, 7), (0, (1 << 64) - 1), ((1 << 64) - 1, 1), (1 << 63, 1 << 63)]
)
def test_a_fetch_add_wraps_and_returns_the_old_value(joined: Joined, old: int, added: int) -> None:
    here, there = joined.a.region(24), joined.b.region(24)
    there.fill(old.to_bytes(8, "little"), 8)
    assert joined.do(work(FETCH_ADD, here, there, 8, at=8, to=8, compare_add=added)) is OK
    assert there.data == bytes(8) + ((old + added) % (1 << 64)).to_bytes(8, "little") + bytes(8)
    assert here.data == bytes(8) + old.to_bytes(8, "little") + bytes(8)


@pytest.mark.parametrize("equal", [True, False])
def test_a_compare_swap_stores_on_equality_and_returns_the_old_value(joined: Joined, equal: bool) -> None:
    old, swap = 0xFEDC_BA98_7654_3210, 0x0123_4567_89AB_CDEF
    here, there = joined.a.region(8), joined.b.region(old.to_bytes(8, "little"))
    compared = old if equal else old ^ 1 << 63
    assert joined.do(work(COMPARE_SWAP, here, there, compare_add=compared, swap=swap)) is OK
    assert (here.word(), there.word()) == (old, swap if equal else old)


def test_the_payload_is_read_when_the_work_is_carried_out(joined: Joined) -> None:
    """R18: not when it was armed."""
    source, target = joined.a.region(b"soon"), joined.b.region(4)
    go, gone = joined.a.host.counters("go", "gone")
    with joined.a.host.program("later") as program:
        program.when(go >= 1).write(source.span, joined.remote(target), then=gone)
    program.arm()
    source.fill(b"late")
    go.add()
    joined.until(lambda: gone.success == 1)
    assert target.data == b"late"


def test_a_chain_of_deferred_work_runs_from_one_count(joined: Joined) -> None:
    """Each write fires when the one before it has been delivered."""
    links = 8
    source, target = joined.a.region(some_bytes(links * 512)), joined.b.region(links * 512)
    go, done = joined.a.host.counters("go", "done")
    remote = joined.remote(target)
    with joined.a.host.program("chain") as program:
        for number in range(links):
            when = go >= 1 if number == 0 else done >= number
            piece = slice(number * 512, (number + 1) * 512)
            program.when(when).write(source.span[piece], remote[piece], then=done)
    program.arm()
    assert target.data == bytes(links * 512)
    go.add()
    joined.until(lambda: done.success == links)
    assert target.data == source.data


@pytest.mark.parametrize("opcode", [WRITE, READ, FETCH_ADD])
def test_a_key_that_names_nothing_moves_no_byte(joined: Joined, opcode: Opcode) -> None:
    here, there = joined.a.region(b"ours    "), joined.b.region(b"theirs  ")
    assert joined.do(work(opcode, here, there, 8, rkey=there.span.key ^ 1 << 20)) is not OK
    assert (here.data, there.data) == (b"ours    ", b"theirs  ")
    assert joined.guards_hold


def test_deferred_work_fires_once_however_far_the_count_goes(joined: Joined) -> None:
    word, there = joined.a.region(8), joined.b.region(8)
    go, done = joined.a.host.counters("go", "done")
    with joined.a.host.program("once") as program:
        program.when(go >= 2).fetch_add(word.span, joined.remote(there), 5, then=done)
    program.arm()
    go.add(9)
    joined.until(lambda: done.success == 1)
    go.add(9)
    assert joined.do(work(READ, word, there, 8)) is OK
    assert (word.word(), there.word()) == (5, 5)
