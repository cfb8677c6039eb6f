# SPDX-License-Identifier: Apache-2.0
"""A host of the plainest kind: it writes rings and registers by hand, so that it can also do wrong."""

from collections.abc import Callable

import pytest

from nicemu.errors import NvmeStatus
from nicemu.nvme import (
    AdminOpcode,
    CompletionConsumer,
    Configuration,
    Cqe,
    Namespace,
    NvmeController,
    Register,
    Sqe,
    doorbell_offset,
)
from nicemu.pcie import AddressSpace, Backing
from nicemu.timing import Cost

PAGE = 4096
NIC = 0x100_0000
NIC_BYTES = 1 << 20
GUARD = 0xA5


class Host:
    """Rings at fixed pages of one NIC window; `data` is the first of 200 free pages."""

    data = NIC + 32 * PAGE
    lists = NIC + 16 * PAGE
    page_bytes = PAGE
    guard = GUARD
    entry_count = 8

    def __init__(self, read_cost: Cost, write_cost: Cost) -> None:
        self.memory = AddressSpace()
        self.window = self.memory.add(NIC, "nic", Backing.anonymous(NIC_BYTES))
        self.window.backing.view[:] = bytes([GUARD]) * NIC_BYTES
        self.controller = NvmeController(
            self.memory,
            [Namespace(1, 4096, 100), Namespace(3, 512, 64)],
            read_cost=read_cost,
            write_cost=write_cost,
            io_queue_limit=4,
            max_queue_entry_count=64,
            mdts=8,
        )
        self.now_ns = 0
        self._tails: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._rings: dict[int, CompletionConsumer] = {}
        self._next_cid = 0

    def write(self, offset: int, value: int) -> None:
        self.controller.write_register(offset, value, self.now_ns)

    def read(self, offset: int) -> int:
        return self.controller.read_register(offset)

    def enable(self, configuration: Configuration = Configuration(enable=True)) -> None:  # noqa: B008
        self.write(Register.AQA, 31 << 16 | 31)
        self.write(Register.ASQ, NIC)
        self.write(Register.ASQ + 4, 0)
        self.write(Register.ACQ, NIC + PAGE)
        self.write(Register.ACQ + 4, 0)
        self._add_queue(0, 32, NIC + PAGE)
        self.write(Register.CC, configuration.encode())

    def disable(self) -> None:
        self.write(Register.CC, Configuration(enable=False).encode())

    def sq_address(self, qid: int) -> int:
        return NIC + 2 * qid * PAGE

    def cq_address(self, qid: int) -> int:
        return NIC + (2 * qid + 1) * PAGE

    def create_cq(self, qid: int = 1, *, vector: int | None = None, entry_count: int = 0) -> int:
        count = entry_count or self.entry_count
        flags = 1 if vector is None else vector << 16 | 3
        status = self.admin(
            Sqe(AdminOpcode.CREATE_IO_CQ, prp1=self.cq_address(qid), cdw10=count - 1 << 16 | qid, cdw11=flags)
        ).status
        if status == NvmeStatus.SUCCESS:
            self._add_queue(qid, self.entry_count, self.cq_address(qid), count)
        return status

    def create_sq(self, qid: int = 1, cq_id: int = 1) -> int:
        return self.admin(
            Sqe(
                AdminOpcode.CREATE_IO_SQ,
                prp1=self.sq_address(qid),
                cdw10=self.entry_count - 1 << 16 | qid,
                cdw11=cq_id << 16 | 1,
            )
        ).status

    def admin(self, sqe: Sqe) -> Cqe:
        """Send an admin command with a cid of its own and return its completion, the only new one."""
        self.send(sqe, qid=0, cid=self.fresh_cid())
        (cqe,) = self.reap(0)
        assert cqe.cid == self._next_cid
        return cqe

    def fresh_cid(self) -> int:
        self._next_cid += 1
        return self._next_cid

    def send(self, *sqes: Sqe, qid: int = 1, cid: int | None = None) -> None:
        """Store entries and ring once."""
        for sqe in sqes:
            data = bytearray(sqe.encode())
            if cid is not None:
                data[2:4] = cid.to_bytes(2, "little")
            self.memory.write(self.sq_address(qid) + self._tails[qid] * 64, bytes(data))
            self._tails[qid] = (self._tails[qid] + 1) % self._sizes[qid]
        self.write(doorbell_offset(qid, is_completion=False), self._tails[qid])

    def perform(self, status: NvmeStatus = NvmeStatus.SUCCESS) -> int:
        """Answer all the I/O there is, moving nothing; return how much it was."""
        ios = self.controller.take_io()
        for io in ios:
            self.controller.on_io_complete(io.tag, status, self.now_ns)
        return len(ios)

    def reap(self, qid: int = 1, *, ring: bool = True) -> list[Cqe]:
        """Take all new completions; with `ring` also tell the controller."""
        consumer = self._rings[qid]
        found = []
        while cqe := consumer.poll():
            found.append(cqe)
        if found and ring:
            self.write(doorbell_offset(qid, is_completion=True), consumer.head)
        return found

    def ring_head(self, qid: int = 1) -> None:
        self.write(doorbell_offset(qid, is_completion=True), self._rings[qid].head)

    def _add_queue(self, qid: int, sq_size: int, cq_address: int, cq_size: int = 0) -> None:
        self._tails[qid], self._sizes[qid] = 0, sq_size
        self._rings[qid] = CompletionConsumer(self.memory, cq_address, cq_size or sq_size)


@pytest.fixture
def new_host() -> Callable[[Cost, Cost], Host]:
    """Make an enabled host with one I/O queue pair, for a read and a write cost."""

    def make(read_cost: Cost, write_cost: Cost) -> Host:
        host = Host(read_cost, write_cost)
        host.enable()
        assert host.create_cq(vector=1) == host.create_sq() == NvmeStatus.SUCCESS
        return host

    return make


@pytest.fixture
def bare_host() -> Host:
    """A host whose controller is not enabled."""
    return Host(Cost(), Cost())


@pytest.fixture
def host(new_host: Callable[[Cost, Cost], Host]) -> Host:
    """An enabled host with one I/O queue pair; everything takes no time."""
    return new_host(Cost(), Cost())
