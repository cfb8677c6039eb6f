# SPDX-License-Identifier: Apache-2.0
"""Completion queues, drained by a host over stepped NICs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nicemu.abi import Limits, Opcode, RemoteSpan, Span, WorkRequest, registers
from nicemu.errors import UsageError, VerbsStatus
from nicemu.host import CompletionQueue, Nic, Peer
from nicemu.kv import Lease
from nicemu.nic import NamespaceConfig, NicConfig
from nicemu.run import Simulation


@pytest.fixture
def host() -> Iterator[tuple[Nic, Peer, Span, RemoteSpan]]:
    """A host of one NIC, connected to a storage NIC that lets it write one slot."""
    storage = NicConfig("storage0", "127.0.1.2", 2, namespaces=(NamespaceConfig(1, 256),))
    simulation = Simulation([NicConfig("compute0", "127.0.1.1", 1, limits=Limits(slot_count=1024)), storage])
    simulation.load_program("storage0", "p4/kvserve.p4")
    simulation.load_firmware("storage0", "firmware/kv_storage.py")
    with Nic(simulation.open_nic("compute0")) as nic:
        peer = nic.connect("storage0", slot_count=1, slot_bytes=4096)
        lease = Lease.of_data(peer.private_data)
        local = nic.register(nic.allocate((4096,)))
        yield nic, peer, local, peer.span(lease.slots, 4096, lease.rkey)


def _write(local: Span, remote: RemoteSpan, wr_id: int, signaled: bool) -> WorkRequest:
    return WorkRequest(
        Opcode.RDMA_WRITE, (local.sge(),), remote.address, remote.rkey, wr_id=wr_id, signaled=signaled
    )


def test_a_signaled_request_completes_once_with_its_wr_id_and_length(
    host: tuple[Nic, Peer, Span, RemoteSpan],
) -> None:
    nic, peer, local, remote = host
    nic.post(peer.qp_num, _write(local, remote, 77, signaled=True))
    (completion,) = nic.completions.wait(1)
    assert (completion.wr_id, completion.status) == (77, VerbsStatus.SUCCESS)
    assert (completion.byte_len, completion.opcode) == (4096, Opcode.RDMA_WRITE)
    assert nic.completions.poll() == []


def test_an_unsignaled_request_leaves_no_completion(host: tuple[Nic, Peer, Span, RemoteSpan]) -> None:
    nic, peer, local, remote = host
    nic.post(peer.qp_num, _write(local, remote, 1, signaled=False))
    nic.connection.notify()
    assert nic.completions.poll() == []


def test_an_error_always_completes_and_the_rest_is_flushed(host: tuple[Nic, Peer, Span, RemoteSpan]) -> None:
    nic, peer, local, remote = host
    wrong = peer.span(remote.address, 4096, remote.rkey ^ 0x1000)
    nic.post(peer.qp_num, _write(local, wrong, 1, signaled=False), _write(local, remote, 2, signaled=False))
    completions = nic.completions.wait(2)
    assert [(entry.wr_id, entry.status) for entry in completions] == [
        (1, VerbsStatus.REM_ACCESS_ERR),
        (2, VerbsStatus.WR_FLUSH_ERR),
    ]


def test_completions_come_in_order_over_more_than_one_lap(host: tuple[Nic, Peer, Span, RemoteSpan]) -> None:
    nic, peer, local, remote = host
    seen: list[int] = []
    small = local[0:8], remote[0:8]
    for first in range(0, registers.COMPLETION_COUNT + 128, 128):
        nic.post(peer.qp_num, *(_write(*small, first + number, signaled=True) for number in range(128)))
        while batch := nic.completions.poll():
            seen += [entry.wr_id for entry in batch]
    assert seen == list(range(registers.COMPLETION_COUNT + 128))


def test_a_queue_that_is_not_drained_overruns_and_the_queue_pair_fails(
    host: tuple[Nic, Peer, Span, RemoteSpan],
) -> None:
    nic, peer, local, remote = host
    small = local[0:8], remote[0:8]
    for _ in range(registers.COMPLETION_COUNT // 128 + 1):
        nic.post(peer.qp_num, *(_write(*small, 0, signaled=True) for _ in range(128)))
    drained = 0
    while batch := nic.completions.poll():
        drained += len(batch)
    assert drained == registers.COMPLETION_COUNT
    nic.post(peer.qp_num, _write(*small, 0, signaled=True))
    assert nic.completions.poll() == []


def test_a_process_has_four_queues(host: tuple[Nic, Peer, Span, RemoteSpan]) -> None:
    with pytest.raises(UsageError, match="completion queue is a whole number, 0 to 3, not 4"):
        CompletionQueue(host[0].connection, 4)
