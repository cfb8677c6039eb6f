# SPDX-License-Identifier: Apache-2.0
"""Fired work that the control thread carries out for host processes: NVMe commands and firmware events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicemu.abi import Opcode, unpack_work
from nicemu.errors import NvmeStatus, UsageError, VerbsStatus
from nicemu.firmware import Event, Signal
from nicemu.nvme import FIRST_QUEUE
from nicemu.rdma import AccessError

from .control import Record
from .datapath import DOWN_NVME
from .memory import Piece
from .owner import Owner

if TYPE_CHECKING:
    from .device import SmartNic


class ControlWork:
    """What comes up from the datapath because a host process has armed it."""

    def __init__(self, device: SmartNic) -> None:
        self._device = device
        self._waiting: dict[Owner, list[Piece]] = {}

    def nvme(self, record: Record) -> None:
        """Submit a fired NVMe command; its end goes back to the datapath.

        The local piece is checked as an RDMA operation's would be: the key must be one of the process, cover
        the piece, and allow writing where the command reads from the namespace.
        """
        work = unpack_work(record.work)
        owner, completion = int(record.words[1]), int(record.work["completion"])
        sequence = int(record.work["sequence"])
        packed = owner | int(record.work["cq"]) << 8 | int(work.signaled) << 16 | int(work.opcode) << 24

        def end(status: VerbsStatus) -> None:
            length = work.length_bytes if status is VerbsStatus.SUCCESS else 0
            self._device.rings.push(
                DOWN_NVME, completion + 1, int(status), length, packed, work.wr_id, sequence
            )

        try:
            done = self._submit(owner, work.opcode, record)
        except AccessError as error:
            end(error.status)
        except UsageError:
            end(VerbsStatus.LOC_QP_OP_ERR)
        else:
            done.when_done(lambda: end(_verbs_status(done.value)))

    def _submit(self, owner: int, opcode: Opcode, record: Record) -> Signal:
        device = self._device
        work = unpack_work(record.work)
        nsid, slba = work.rkey, work.remote_address
        if device.storage is None or nsid not in device.storage.namespaces or len(work.sges) != 1:
            raise UsageError(f"no namespace {nsid}, or not one piece of local memory")
        if owner not in device.owners:
            raise UsageError("the process is gone")
        piece, block_bytes = work.sges[0], device.storage.namespaces[nsid][0]
        if piece.length == 0 or piece.length % block_bytes:
            raise UsageError(f"{piece.length} bytes are no whole blocks of {block_bytes}")
        queue = int(record.work["qp"]) or FIRST_QUEUE
        if queue != FIRST_QUEUE:
            device.interrupts.check(queue, owner)
        process, reads = device.owners[owner], opcode is Opcode.NVME_READ
        device.regions.local(process.pd, piece.address, piece.length, piece.lkey, reads)
        done = Signal()
        blocks = piece.length // block_bytes
        device.storage.submit("read" if reads else "write", nsid, slba, blocks, piece.address, done, queue)
        process.io_in_flight += 1
        done.when_done(lambda: self._ended(process))
        return done

    def _ended(self, process: Owner) -> None:
        process.io_in_flight -= 1
        if process.io_in_flight == 0:
            for piece in self._waiting.pop(process, []):
                self._device.memory.remove_host(piece)

    def free(self, process: Owner) -> None:
        """Unmap the memory of a process that is gone, once no NVMe command moves it any more."""
        if process.io_in_flight:
            self._waiting[process] = list(process.pieces.values())
        else:
            for piece in process.pieces.values():
                self._device.memory.remove_host(piece)

    def event(self, words: tuple[int, int, int, int]) -> None:
        """Start the firmware's handler of an event that a process armed; nobody's event is counted."""
        number, counter, value, owner = words
        device = self._device
        process = device.owners.get(owner)
        name = process.events.get(number, "") if process is not None else ""
        handler = device.firmware.triggers.get(name)
        if handler is None:
            device.drops["firmware.no_handler"] += 1
        elif len(device.scheduler.tasks) >= device.config.event_queue_depth:
            device.drops["firmware.queue_full"] += 1
        else:
            event = Event(name, {"counter": counter, "value": value}, b"")
            device.start_task(name, handler(device.nic, event), event)


def _verbs_status(status: object) -> VerbsStatus:
    """Return how an NVMe command ended, in the codes of a completion queue."""
    if status == NvmeStatus.SUCCESS:
        return VerbsStatus.SUCCESS
    if status in (NvmeStatus.LBA_OUT_OF_RANGE, NvmeStatus.INVALID_FIELD):
        return VerbsStatus.REM_INV_REQ_ERR
    return VerbsStatus.REM_OP_ERR
