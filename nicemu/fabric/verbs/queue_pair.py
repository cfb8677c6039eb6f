# SPDX-License-Identifier: Apache-2.0
"""One of a NIC's queue pairs on an RDMA device: one or two of the device's, and the work that waits for them.

A NIC's write with immediate may consume no receive; the device's always does. So a queue pair with implicit
receives is two of the device's: sends go on the second, whose receives are those that were posted, all else
on the first, whose receives are empty, many, and shared by all queue pairs of a protection domain. Order is
kept: work changes over from one to the other when nothing on it is under way any more.
Sources: ibv_create_qp(3), ibv_modify_qp(3), ibv_create_srq(3); InfiniBand Architecture Specification,
"Queue Pair State Machine".
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import ProtocolError, ResourceError, VerbsStatus
from nicemu.pcie import PAGE_BYTES
from nicemu.rdma import Completion

from .device import PORT, VerbsDevice
from .memory import LEDGER_SHIFT, Domain, Place, VerbsMemory
from .requests import Handle, Piece, Requests

SEND_DEPTH, RECEIVE_DEPTH = 64, 128
"""Work of one queue pair that the device holds at once; a NIC holds 64 receives a queue pair at most."""
RETRY_COUNT, INFINITE_RNR_RETRY = 6, 7
"""SoftRoCE retries for ever with a count of 7, of either kind. Source: Linux 6.1, rxe_comp.c."""
TIMEOUT, MIN_RNR_TIMER = 18, 12
"""1.07 s and 640 us. SoftRoCE counts what passes while a receiver is not ready as well: a peer that posts its
receive after RETRY_COUNT of these finds the queue pair in error. Source: ibv_modify_qp(3); InfiniBand
Architecture Specification, "Timeout Values"; seen on Linux 6.1.
"""
ATOMIC_BYTES = 8
LEDGER_CONTEXT = 0
"""Context of an atomic on a ledger, of whose end nobody is told unless it fails."""

_SENDS = frozenset({Opcode.SEND, Opcode.SEND_WITH_IMM})
_ATOMICS = frozenset({Opcode.COMPARE_SWAP, Opcode.FETCH_ADD})
_WITH_IMM = frozenset({Opcode.RDMA_WRITE_WITH_IMM, Opcode.SEND_WITH_IMM})
_READ = Opcode.RDMA_READ
_FETCHES = _ATOMICS | {_READ}
_SUCCESS = VerbsStatus.SUCCESS
_STATUSES = {int(status): status for status in VerbsStatus}
_Item = tuple[int, WorkRequest]
"""Work, behind its context."""
_Posted = tuple[int, WorkRequest, int]
"""Work that the device has: its context, itself, its length in bytes."""


@dataclass(slots=True, eq=False)
class Lane:
    """A queue pair of the device; `posted` is what it has not ended, `receives` what waits there (wr_ids)."""

    handle: Handle
    psn: int
    is_shared: bool
    posted: deque[_Posted] = field(default_factory=deque)
    receives: deque[int] = field(default_factory=deque)


class VerbsQueuePair:
    """A NIC's queue pair `number`.

    `psn` gives the first PSN of each lane. `report` is told of every end; `ask` of its number and a key, when
    work waits to learn where that region lies.
    """

    def __init__(
        self,
        device: VerbsDevice,
        memory: VerbsMemory,
        number: int,
        pd: int,
        shared: Handle,
        psn: Callable[[], int],
        report: Callable[[Completion], None],
        ask: Callable[[int, int], None],
    ) -> None:
        self.number = number
        self.pd = pd
        self.is_connected = self.has_failed = False
        self._device = device
        self._requests: Requests = device.requests
        self._memory = memory
        self._domain: Domain = memory.domain(pd)
        self._report = report
        self._ask = ask
        self._places: dict[int, Place] = {}
        self._waiting: deque[_Item] = deque()
        try:
            self.lanes = [self._create(shared, psn())]
            if shared is not None:
                self.lanes.append(self._create(None, psn()))
        except device.error as error:
            raise ResourceError(f"{device.name} makes no queue pair: {error}") from error
        self._current = self.lanes[0]

    def _create(self, shared: Handle, psn: int) -> Lane:
        v = self._device.verbs
        receives = 0 if shared is not None else RECEIVE_DEPTH
        caps = v.qp.QPCap(SEND_DEPTH, receives, 2, 1, 0)
        queue = self._device.queue
        first = v.qp.QPInitAttr(
            qp_type=v.enums.IBV_QPT_RC, scq=queue, rcq=queue, srq=shared, cap=caps, sq_sig_all=1
        )
        lane = Lane(v.qp.QP(self._domain.handle, first), psn, shared is not None)
        attr = v.qp.QPAttr(qp_state=v.enums.IBV_QPS_INIT, port_num=PORT)
        attr.qp_access_flags = (
            v.enums.IBV_ACCESS_REMOTE_WRITE
            | v.enums.IBV_ACCESS_REMOTE_READ
            | v.enums.IBV_ACCESS_REMOTE_ATOMIC
        )
        lane.handle.to_init(attr)
        return lane

    # Connecting

    def offer(self) -> dict[str, Any]:
        """Return what a peer has to know."""
        lanes = [[lane.handle.qp_num, lane.psn] for lane in self.lanes]
        device = self._device
        return {"gid": device.gid, "lid": device.lid, "mtu": device.mtu, "lanes": lanes}

    def connect(self, offer: object, mtu: int) -> None:
        """Bring all lanes to ready-to-send. Raises: ProtocolError."""
        try:
            assert isinstance(offer, dict)
            gid, lid, lanes = str(offer["gid"]), int(offer["lid"]), list(offer["lanes"])
            mtu = min(mtu, self._device.mtu, int(offer["mtu"]))
            for lane, (number, psn) in zip(self.lanes, lanes, strict=True):
                self._to_ready(lane, gid, lid, mtu, int(number), int(psn))
        except (AssertionError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ProtocolError(f"the offer {offer!r} names no queue pairs of an RDMA device") from error
        except self._device.error as error:
            raise ProtocolError(f"{self._device.name} does not connect to {offer!r}: {error}") from error
        self.is_connected = True
        self.pump()

    def _to_ready(self, lane: Lane, gid: str, lid: int, mtu: int, number: int, psn: int) -> None:
        v, device = self._device.verbs, self._device
        attr = v.qp.QPAttr(port_num=PORT)
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = number, psn, lane.psn
        attr.path_mtu = mtu.bit_length() - 8
        attr.max_rd_atomic = attr.max_dest_rd_atomic = device.max_reads
        attr.min_rnr_timer, attr.timeout = MIN_RNR_TIMER, TIMEOUT
        attr.retry_cnt, attr.rnr_retry = RETRY_COUNT, INFINITE_RNR_RETRY
        route = v.addr.GlobalRoute(dgid=v.addr.GID(gid), sgid_index=device.gid_index)
        attr.ah_attr = v.addr.AHAttr(gr=route, is_global=1, port_num=PORT, dlid=lid)
        attr.qp_state = v.enums.IBV_QPS_RTR
        lane.handle.to_rtr(attr)
        attr.qp_state = v.enums.IBV_QPS_RTS
        lane.handle.to_rts(attr)

    def fail(self) -> None:
        """Move all lanes to the error state; the device flushes what it holds, then the rest is flushed."""
        if not self.has_failed:
            self.has_failed = True
            v = self._device.verbs
            for lane in self.lanes:
                attr = v.qp.QPAttr(qp_state=v.enums.IBV_QPS_ERR, cur_qp_state=v.enums.IBV_QPS_RTS)
                try:
                    lane.handle.modify(attr, v.enums.IBV_QP_STATE)
                except self._device.error:
                    lane.posted.clear()
        self._flush()

    def is_in_error(self) -> bool:
        """Ask the device whether a lane is in the error state."""
        e = self._device.verbs.enums
        for lane in self.lanes:
            try:
                attr, _ = lane.handle.query(e.IBV_QP_STATE)
            except self._device.error:
                return True
            if attr.qp_state in (e.IBV_QPS_ERR, e.IBV_QPS_SQE):
                return True
        return False

    def destroy(self) -> None:
        """Destroy all lanes."""
        for lane in self.lanes:
            lane.handle.close()

    # Work

    @property
    def busy(self) -> bool:
        """Whether work has not ended."""
        return bool(self._waiting) or any(lane.posted for lane in self.lanes)

    def learn(self, key: int, place: Place | None) -> None:
        """Hear where a region of the peer lies; None: forget it."""
        if place is None:
            self._places.pop(key, None)
        else:
            self._places[key] = place
        self.pump()

    def post(self, work: WorkRequest, context: int) -> None:
        """Take work; it is posted at once unless it has to wait."""
        if self._waiting or not self._takes(context, work):
            self._waiting.append((context, work))
            if self.has_failed:
                self._flush()

    def pump(self) -> None:
        """Post what can be posted now: call it when something has ended or changed."""
        waiting = self._waiting
        while waiting:
            item = waiting.popleft()
            if not self._takes(*item):
                waiting.appendleft(item)
                break
        if self.has_failed:
            self._flush()

    def _takes(self, context: int, work: WorkRequest) -> bool:
        """Post work that nothing is before, or end it; return False if it has to wait."""
        if self.has_failed or not self.is_connected:
            return False
        opcode = work.opcode
        lane = self.lanes[-1] if opcode in _SENDS else self.lanes[0]
        posted = lane.posted
        if lane is not self._current:
            if self._current.posted:
                return False
            self._current = lane
        length = 0
        for sge in work.sges:
            length += sge.length
        pieces = self._pieces(work, length)
        if isinstance(pieces, VerbsStatus):
            if posted:
                return False
            self._end(context, work, pieces)
            self.fail()
            return True
        place = None
        if length and opcode not in _SENDS:
            place = self._places.get(work.rkey)
            if place is None:
                self._ask(self.number, work.rkey)
                return False
        ledger = None if place is None or opcode is _READ else place.ledger
        if len(posted) + (ledger is not None) >= SEND_DEPTH:
            return False
        try:
            lane.handle.post_send(self._request_for(work, pieces, place))
        except self._device.error:
            self._end(context, work, VerbsStatus.LOC_QP_OP_ERR)
            self.fail()
            return True
        posted.append((context, work, length))
        if ledger is not None:
            self._count(lane, work, ledger, length)
        return True

    def _pieces(self, work: WorkRequest, length: int) -> list[Piece] | VerbsStatus:
        """Return the device's pieces for those of work, one at least, or what is wrong with the work.

        What is wrong at the peer's end the device reports.
        """
        opcode = work.opcode
        is_atomic = opcode in _ATOMICS
        if is_atomic and (len(work.sges) != 1 or length != ATOMIC_BYTES):
            return VerbsStatus.LOC_QP_OP_ERR
        if opcode not in self._device.opcodes:
            return VerbsStatus.LOC_QP_OP_ERR
        if length > self._device.max_message_bytes:
            return VerbsStatus.LOC_LEN_ERR
        fetches = opcode in _FETCHES
        pieces = []
        for sge in work.sges:
            if sge.length:
                found = self._memory.piece(self.pd, sge.lkey, sge.address, sge.length, fetches)
                if found is None:
                    return VerbsStatus.LOC_PROT_ERR
                pieces.append(found)
        if is_atomic and work.remote_address % ATOMIC_BYTES:  # its library would not take it
            return VerbsStatus.REM_INV_REQ_ERR
        return pieces or [self._nothing]

    def _request_for(self, work: WorkRequest, pieces: list[Piece], place: Place | None) -> Handle:
        """Return what stands for work; `place`: of the peer's region, if it names one."""
        opcode = work.opcode
        request = self._requests.request(self._device.opcodes[opcode], pieces)
        if opcode in _WITH_IMM:
            request.imm_data = socket.htonl(work.imm_data)
        rkey, address = (0, 0) if place is None else (place.rkey, place.locate(work.remote_address))
        if opcode in _ATOMICS:
            request.set_wr_atomic(rkey, address, work.compare_add, work.swap)
        elif opcode not in _SENDS:
            request.set_wr_rdma(rkey, address)
        return request

    @property
    def _nothing(self) -> Piece:
        """A piece without bytes: pyverbs takes no work without a piece."""
        return self._domain.scratch_address, 0, self._domain.scratch.lkey

    def _count(self, lane: Lane, work: WorkRequest, ledger: tuple[int, int], length: int) -> None:
        """Post the atomic that tells a peer's ledger of a write."""
        piece = self._domain.scratch_address, ATOMIC_BYTES, self._domain.scratch.lkey
        request = self._requests.request(self._device.opcodes[Opcode.FETCH_ADD], [piece])
        request.set_wr_atomic(*ledger, 1 << LEDGER_SHIFT | length, 0)
        try:
            lane.handle.post_send(request)
        except self._device.error:
            self.fail()
            return
        lane.posted.append((LEDGER_CONTEXT, work, 0))

    def ended(self, lane: Lane, status: int) -> None:
        """The device says that the oldest work of a lane has ended."""
        if not lane.posted:
            return
        context, work, length = lane.posted.popleft()
        if status == _SUCCESS:
            if context != LEDGER_CONTEXT:
                self._report(Completion(context, self.number, _SUCCESS, work.opcode, length, work.wr_id))
        else:
            if context != LEDGER_CONTEXT:
                self._end(context, work, _STATUSES.get(status, VerbsStatus.GENERAL_ERR))
            self.fail()
        if self._waiting:
            self.pump()

    def _end(self, context: int, work: WorkRequest, status: VerbsStatus) -> None:
        """Report work that has not ended well."""
        self._report(Completion(context, self.number, status, work.opcode, 0, work.wr_id))

    def _flush(self) -> None:
        """Flush what was never posted, behind what was."""
        if not any(lane.posted for lane in self.lanes):
            while self._waiting:
                self._end(*self._waiting.popleft(), VerbsStatus.WR_FLUSH_ERR)

    def post_receive(self, wr_id: int, sges: Sequence[Sge]) -> None:
        """Take a receive. One whose memory its key does not cover takes no message: the device fails then."""
        lane, domain = self.lanes[-1], self._domain
        sge = next((sge for sge in sges if sge.length), None)
        piece = self._nothing
        if sge is not None:
            found = self._memory.piece(self.pd, sge.lkey, sge.address, sge.length, True)
            beyond = domain.scratch_address + PAGE_BYTES, sge.length, domain.scratch.lkey
            piece = found or beyond
        try:
            lane.handle.post_recv(self._requests.receive(piece))
        except self._device.error:
            self.fail()
            return
        lane.receives.append(wr_id)
