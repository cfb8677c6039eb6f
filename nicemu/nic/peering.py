# SPDX-License-Identifier: Apache-2.0
"""Attaching NICs of one machine to each other, so that `direct` queue pairs can copy between their
memories.
"""

from __future__ import annotations

from nicemu.abi import registers
from nicemu.pcie import Backing
from nicemu.rdma import MAX_BACKINGS

from .device import SmartNic


def make_inbox(device: SmartNic, peer_name: str, peer_ip: str) -> Backing:
    """Create the inbox that a peer will post to; hand its descriptor to the peer."""
    peer = device.queue_pairs.peer(peer_name, peer_ip)
    inbox = Backing.memfd(f"nicemu-inbox-{device.config.name}-{peer_name}", registers.INBOX_BYTES)
    with device.rings.paused():
        device.inboxes[peer_name] = inbox
        device.arena.rdma.peers[peer.index].inbox = inbox.address
    return inbox


def shared_backings(device: SmartNic) -> list[tuple[int, Backing]]:
    """What peers have to map to reach this NIC's regions, by backing number."""
    return [(index, piece.window.backing) for index, piece in device.memory.pieces.items()]


def attach(device: SmartNic, peer_name: str, peer_ip: str, public: Backing, outbox: Backing) -> None:
    """Let `device` use a peer's public tables and post to the inbox that the peer made for it."""
    peer = device.queue_pairs.peer(peer_name, peer_ip)
    with device.rings.paused():
        record = device.arena.rdma.peers[peer.index]
        record.public, record.outbox = public.address, outbox.address
    device.peer_memory[peer_name] = [public, outbox]
    peer.attached = True


def map_backing(device: SmartNic, peer_name: str, index: int, backing: Backing) -> None:
    """Let `device` reach a peer's backing `index`."""
    if not 0 <= index < MAX_BACKINGS:
        return
    peer = device.queue_pairs.peer(peer_name)
    device.arena.rdma.peer_backings[peer.index, index] = backing.address
    device.peer_memory[peer_name].append(backing)


def unmap_backing(device: SmartNic, peer_name: str, index: int) -> None:
    """Forget a peer's backing: work that names it waits or is refused, and never touches it again."""
    peer = device.queue_pairs.peer(peer_name)
    if 0 <= index < MAX_BACKINGS:
        with device.rings.paused():
            device.arena.rdma.peer_backings[peer.index, index] = 0


def detach(device: SmartNic, peer_name: str) -> None:
    """Forget a peer that is gone: its queue pairs fail, its memory is unmapped."""
    peer = device.queue_pairs.peers.get(peer_name)
    if peer is None:
        return
    with device.rings.paused():
        for qp in sorted(peer.queue_pairs):
            device.queue_pairs.fail(qp)
        record = device.arena.rdma.peers[peer.index]
        record.public = record.outbox = record.inbox = 0
        device.arena.rdma.peer_backings[peer.index] = 0
    peer.attached = False
    for backing in [
        *device.peer_memory.pop(peer_name, []),
        *([device.inboxes.pop(peer_name)] if peer_name in device.inboxes else []),
    ]:
        backing.close()
