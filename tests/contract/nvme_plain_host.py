# SPDX-License-Identifier: Apache-2.0
"""A plain host for any NVMe controller: rings and registers by hand, so that it can also do wrong."""

from __future__ import annotations

import dataclasses

from nicemu.errors import NvmeStatus
from nicemu.nvme import (
    AdminOpcode,
    Capabilities,
    CompletionConsumer,
    Configuration,
    Cqe,
    IoOpcode,
    Register,
    Sqe,
    Status,
    doorbell_offset,
)
from nicemu.pcie import PAGE_BYTES
from tests.contract.nvme_rigs import NIC, Rig, until

ADMIN_ENTRIES = 32


class PlainHost:
    """Queue n has its submission ring at page 2n of NIC memory and its completion ring at page 2n + 1."""

    lists = NIC + 32 * PAGE_BYTES
    data = NIC + 64 * PAGE_BYTES

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.memory = rig.memory
        self._tails: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._rings: dict[int, CompletionConsumer] = {}
        self._next_cid = 0
        self.stride = Capabilities.decode(rig.registers.read64(Register.CAP)).doorbell_stride

    def enable(self) -> None:
        registers = self.rig.registers
        registers.write32(Register.CC, 0)
        until(lambda: not registers.read32(Register.CSTS) & Status.READY, self.rig)
        registers.write32(Register.AQA, ADMIN_ENTRIES - 1 << 16 | ADMIN_ENTRIES - 1)
        registers.write64(Register.ASQ, self.sq_address(0))
        registers.write64(Register.ACQ, self.cq_address(0))
        self.know(0, ADMIN_ENTRIES, ADMIN_ENTRIES)
        registers.write32(Register.CC, Configuration(enable=True).encode())
        until(lambda: bool(registers.read32(Register.CSTS) & Status.READY), self.rig)

    def sq_address(self, qid: int) -> int:
        return NIC + 2 * qid * PAGE_BYTES

    def cq_address(self, qid: int) -> int:
        return NIC + (2 * qid + 1) * PAGE_BYTES

    def know(self, qid: int, sq_entries: int, cq_entries: int) -> None:
        self._tails[qid], self._sizes[qid] = 0, sq_entries
        self._rings[qid] = CompletionConsumer(self.memory, self.cq_address(qid), cq_entries)

    def admin(self, sqe: Sqe) -> Cqe:
        """Send an admin command and return its completion."""
        cid = self.fresh_cid()
        self.send(dataclasses.replace(sqe, cid=cid), qid=0)
        (cqe,) = self.reap(1, qid=0)
        assert (cqe.cid, cqe.sq_id) == (cid, 0)
        return cqe

    def fresh_cid(self) -> int:
        self._next_cid += 1
        return self._next_cid

    def create_cq(self, qid: int, entries: int = 8, *, vector: int | None = None, address: int = 0) -> int:
        flags = 1 if vector is None else vector << 16 | 3
        place = address or self.cq_address(qid)
        cdw10 = (entries - 1 & 0xFFFF) << 16 | qid
        status = self.admin(Sqe(AdminOpcode.CREATE_IO_CQ, prp1=place, cdw10=cdw10, cdw11=flags)).status
        if status == NvmeStatus.SUCCESS:
            self._rings[qid] = CompletionConsumer(self.memory, place, entries)
        return status

    def create_sq(self, qid: int, cq_id: int, entries: int = 8, *, address: int = 0) -> int:
        place = address or self.sq_address(qid)
        cdw10 = (entries - 1 & 0xFFFF) << 16 | qid
        status = self.admin(
            Sqe(AdminOpcode.CREATE_IO_SQ, prp1=place, cdw10=cdw10, cdw11=cq_id << 16 | 1)
        ).status
        if status == NvmeStatus.SUCCESS:
            self._tails[qid], self._sizes[qid] = 0, entries
        return status

    def delete_sq(self, qid: int) -> int:
        return self.admin(Sqe(AdminOpcode.DELETE_IO_SQ, cdw10=qid)).status

    def delete_cq(self, qid: int) -> int:
        return self.admin(Sqe(AdminOpcode.DELETE_IO_CQ, cdw10=qid)).status

    def open(self, qid: int = 1, entries: int = 8, cq_entries: int = 0, *, vector: int | None = None) -> None:
        """Create an I/O queue pair."""
        assert self.create_cq(qid, cq_entries or entries, vector=vector) == NvmeStatus.SUCCESS
        assert self.create_sq(qid, qid, entries) == NvmeStatus.SUCCESS

    def send(self, *sqes: Sqe, qid: int = 1) -> None:
        """Store entries and ring once."""
        for sqe in sqes:
            self.memory.write(self.sq_address(qid) + self._tails[qid] * 64, sqe.encode())
            self._tails[qid] = (self._tails[qid] + 1) % self._sizes[qid]
        self.write_doorbell(qid, self._tails[qid], is_completion=False)

    def write_doorbell(self, qid: int, value: int, *, is_completion: bool) -> None:
        offset = doorbell_offset(qid, is_completion=is_completion, stride=self.stride)
        self.rig.registers.write32(offset, value)

    def reap(self, count: int, qid: int = 1, *, ring: bool = True) -> list[Cqe]:
        """Wait for that many completions, and see that there are no more."""
        found: list[Cqe] = []

        def take() -> bool:
            while cqe := self._rings[qid].poll():
                found.append(cqe)
            return len(found) >= count

        until(take, self.rig)
        assert len(found) == count
        if ring:
            self.ring_head(qid)
        return found

    def ring_head(self, qid: int = 1) -> None:
        self.write_doorbell(qid, self._rings[qid].head, is_completion=True)

    def do(self, sqe: Sqe, qid: int = 1) -> int:
        """Send one I/O command and return its status."""
        cid = self.fresh_cid()
        self.send(dataclasses.replace(sqe, cid=cid), qid=qid)
        (cqe,) = self.reap(1, qid)
        assert (cqe.cid, cqe.sq_id) == (cid, qid)
        return cqe.status

    def pages(self, *addresses: int, at: int = 0) -> int:
        """Store a PRP list and return where it lies."""
        place = at or self.lists
        self.memory.write(place, b"".join(address.to_bytes(8, "little") for address in addresses))
        return place


def command(opcode: int, slba: int = 0, blocks: int = 1, prp1: int = 0, prp2: int = 0, nsid: int = 1) -> Sqe:
    """Return a Read or Write of `blocks` (a count) blocks."""
    return Sqe(opcode, 0, nsid, prp1, prp2, cdw10=slba & 0xFFFF_FFFF, cdw11=slba >> 32, cdw12=blocks - 1)


def read(slba: int, blocks: int, prp1: int, prp2: int = 0, nsid: int = 1) -> Sqe:
    return command(IoOpcode.READ, slba, blocks, prp1, prp2, nsid)


def write(slba: int, blocks: int, prp1: int, prp2: int = 0, nsid: int = 1) -> Sqe:
    return command(IoOpcode.WRITE, slba, blocks, prp1, prp2, nsid)
