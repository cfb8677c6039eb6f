# SPDX-License-Identifier: Apache-2.0
"""Two NICs of one process, made by hand, with a direct queue pair between them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nicemu.abi import ARMED, Access, Opcode, Sge, WorkRequest, pack_work, registers
from nicemu.pcie import Backing, load_u32, load_u64, store_u32, store_u64
from nicemu.rdma import KIND_DIRECT, MemoryRegionTable, new_state

PAGE = 4096
LOCAL, REMOTE = 0x1_0000_0000, 0x2_0000_0000
LOCAL_PD, REMOTE_PD = 3, 9
QP, PEER_QP, PEER = 4, 5, 1
EVERY_RIGHT = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
READY_TO_SEND = 3
ATOMICS = [Opcode.COMPARE_SWAP, Opcode.FETCH_ADD]
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
            record = {name: int(load_u32(entry + 4 * number)) for number, name in enumerate(words)}
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

    def close(self) -> None:
        """Give all memory back."""
        for backing in (self.a.public, self.a.memory, self.b.public, self.b.memory, self.inbox):
            backing.close()


def connect(function: Callable[..., int]) -> Link:
    """Return two NICs; `function` is `direct_post`, compiled or interpreted."""
    a, b = Node(LOCAL, LOCAL_PD, 1), Node(REMOTE, REMOTE_PD, 2)
    link = Link(a, b, Backing.anonymous(registers.INBOX_BYTES), function)
    a.state.peers[PEER].public, a.state.peers[PEER].outbox = b.public.address, link.inbox.address
    a.state.peer_backings[PEER, 2] = b.memory.address
    pair = a.state.queue_pairs[QP]
    pair.kind, pair.state, pair.pd = KIND_DIRECT, READY_TO_SEND, LOCAL_PD
    pair.peer, pair.remote_qp = PEER, PEER_QP
    store_u32(link.peer_entry, READY_TO_SEND)
    store_u32(link.peer_entry + 4, REMOTE_PD)
    return link
