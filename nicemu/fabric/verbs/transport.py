# SPDX-License-Identifier: Apache-2.0
"""RDMA over an RDMA device of this machine, SoftRoCE or hardware: its kernel segments, acknowledges, retries.

The trigger unit above it is ours, so triggered operations run on any device. Work is posted when it fires and
ends when the device's completion queue says so, which is read in batches; while there is nothing to do its
channel's descriptor tells.
Sources: ibv_post_send(3), ibv_post_recv(3), ibv_poll_cq(3), ibv_post_srq_recv(3), ibv_get_async_event(3).
"""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from typing import Any

from nicemu.abi import Sge, WorkRequest
from nicemu.errors import ResourceError, VerbsStatus
from nicemu.rdma import Arrival, ArrivalKind, Completion, MemoryRegion

from .device import POLL_BATCH, VerbsDevice
from .memory import Domain, Place, VerbsMemory
from .queue_pair import Lane, VerbsQueuePair
from .requests import RECEIVE_ID, SEND_ID, Handle

SHARED_RECEIVES, REFILL = 512, 32
"""Empty receives of a protection domain, for writes with immediate that consume none of the NIC's; how many
are posted at once.
"""
MAX_BATCHES = 64
"""Batches of completions in one `run`, so that others have their turn."""
LOOK_FOR_EVENTS = 64
"""In so many runs the device's events are looked for once, if nobody waits for them."""
PSN_BITS = 24


class _SharedReceives:
    """The shared receive queue of a protection domain, full of empty receives."""

    def __init__(self, device: VerbsDevice, domain: Domain) -> None:
        v = device.verbs
        first = v.srq.SrqInitAttr(v.srq.SrqAttr(max_wr=SHARED_RECEIVES, max_sge=1, srq_limit=0))
        self.handle: Handle = v.srq.SRQ(domain.handle, first)
        self.used = SHARED_RECEIVES
        piece = v.wr.SGE(domain.scratch_address, 0, domain.scratch.lkey)
        self._chain: list[Handle] = []
        for _ in range(REFILL):
            following = {"next_wr": self._chain[-1]} if self._chain else {}
            self._chain.append(v.wr.RecvWR(wr_id=RECEIVE_ID, num_sge=1, sg=[piece], **following))
        self.top_up()

    def top_up(self) -> None:
        """Post receives in place of those that have been consumed."""
        while self.used >= REFILL:
            self.handle.post_recv(self._chain[-1])
            self.used -= REFILL


class VerbsTransport:
    """An `OutsideTransport` over the RDMA device `name`; `ip` chooses among its addresses.

    Raises: ResourceError where pyverbs or the device is missing, or cannot be opened.
    """

    def __init__(self, name: str, ip: str = "", path_mtu: int = 4096) -> None:
        self._device = VerbsDevice(name, ip)
        self._memory = VerbsMemory(self._device)
        self._path_mtu = path_mtu
        self._pairs: dict[int, VerbsQueuePair] = {}
        self._lanes: dict[int, tuple[VerbsQueuePair, Lane]] = {}
        self._shared: dict[int, _SharedReceives] = {}
        self._asked: set[tuple[int, int]] = set()
        self._wanted: list[tuple[int, int]] = []
        self._completions: list[Completion] = []
        self._arrivals: list[Arrival] = []
        self._failed: list[int] = []
        self._events: list[str] = []
        self._runs = 0
        self._has_slept = False
        self._rng = random.SystemRandom()
        e = self._device.verbs.enums
        self._with_imm: int = e.IBV_WC_WITH_IMM
        self._wrote_with_imm: int = e.IBV_WC_RECV_RDMA_WITH_IMM

    # Memory

    def register(self, region: MemoryRegion, address: int, counted: bool) -> None:
        """As the seam says."""
        self._memory.register(region, address, counted)

    def deregister(self, key: int) -> None:
        """As the seam says."""
        self._memory.deregister(key)

    def describe(self, key: int) -> dict[str, Any]:
        """As the seam says."""
        return self._memory.describe(key)

    def take_unknown(self) -> list[tuple[int, int]]:
        """As the seam says."""
        taken, self._wanted = self._wanted, []
        return taken

    def _want(self, qp_num: int, key: int) -> None:
        """Note that work waits to learn where a region lies."""
        if (qp_num, key) not in self._asked:
            self._asked.add((qp_num, key))
            self._wanted.append((qp_num, key))

    def learn(self, qp_num: int, key: int, place: object) -> None:
        """As the seam says; a peer that says something without sense is not believed, and asked no more."""
        pair = self._pairs.get(qp_num)
        if pair is None:
            return
        known = Place.of(place)
        if place is not None and known is None:
            pair.fail()
            return
        self._asked.discard((qp_num, key))
        pair.learn(key, known)

    # Queue pairs

    def create(self, qp_num: int, pd: int, implicit_receives: bool) -> None:
        """As the seam says."""
        shared = self._shared_receives(pd) if implicit_receives else None
        pair = VerbsQueuePair(
            self._device,
            self._memory,
            qp_num,
            pd,
            shared,
            lambda: self._rng.getrandbits(PSN_BITS),
            self._completions.append,
            self._want,
        )
        self._pairs[qp_num] = pair
        for lane in pair.lanes:
            self._lanes[lane.handle.qp_num] = pair, lane

    def _shared_receives(self, pd: int) -> Handle:
        """Return the shared receive queue of a protection domain, full."""
        if pd not in self._shared:
            try:
                self._shared[pd] = _SharedReceives(self._device, self._memory.domain(pd))
            except self._device.error as error:
                raise ResourceError(f"{self._device.name} makes no shared receives: {error}") from error
        return self._shared[pd].handle

    def offer(self, qp_num: int) -> dict[str, Any]:
        """As the seam says."""
        pair = self._pairs[qp_num]
        return {"psn": pair.lanes[0].psn, "device": pair.offer()}

    def connect(self, qp_num: int, offer: dict[str, Any]) -> None:
        """As the seam says."""
        self._pairs[qp_num].connect(offer.get("device"), self._path_mtu)

    def fail(self, qp_num: int) -> None:
        """As the seam says."""
        self._pairs[qp_num].fail()

    def destroy(self, qp_num: int) -> None:
        """As the seam says."""
        pair = self._pairs.pop(qp_num)
        self._asked = {asked for asked in self._asked if asked[0] != qp_num}
        self._wanted = [wanted for wanted in self._wanted if wanted[0] != qp_num]
        for lane in pair.lanes:
            del self._lanes[lane.handle.qp_num]
        pair.destroy()
        self._reap()  # what the device said of it is gone before it gives its numbers again

    # Work

    def post_send(self, qp_num: int, work: WorkRequest, context: int) -> None:
        """As the seam says."""
        self._pairs[qp_num].post(work, context)

    def post_receive(self, qp_num: int, wr_id: int, sges: Sequence[Sge]) -> None:
        """As the seam says."""
        self._pairs[qp_num].post_receive(wr_id, sges)

    def run(self) -> int:
        """As the seam says."""
        self._runs += 1
        found = self._reap()
        for key, writes, length in self._memory.take_counted() if self._memory.counts else ():
            # the last of them is told with all the bytes: which were whose nobody knows
            self._arrivals += [Arrival(0, ArrivalKind.WRITE, 0, rkey=key)] * (writes - 1)
            self._arrivals.append(Arrival(0, ArrivalKind.WRITE, length, rkey=key))
            found += writes
        if self._has_slept or self._runs % LOOK_FOR_EVENTS == 0:
            self._has_slept = False
            self._device.acknowledge()
            for event in self._device.events():
                self._events.append(event)
                self._look_for_errors()
                found += 1
        return found

    def _reap(self) -> int:
        """Read the completion queue, and post what has room now; return how many completions there were."""
        count, lanes = 0, self._lanes
        for _ in range(MAX_BATCHES):
            completions = self._device.poll()
            for completion in completions:
                found = lanes.get(completion.qp_num)
                if found is None:  # it was destroyed
                    continue
                if completion.wr_id == SEND_ID:
                    found[0].ended(found[1], completion.status)
                else:
                    self._received(*found, completion)
            count += len(completions)
            if len(completions) < POLL_BATCH:
                break
        return count

    def _received(self, pair: VerbsQueuePair, lane: Lane, completion: Handle) -> None:
        """Account for a receive that was consumed."""
        wr_id = 0
        if lane.is_shared:
            self._shared[pair.pd].used += 1
            self._top_up()
        elif lane.receives:
            wr_id = lane.receives.popleft()
        if completion.status != VerbsStatus.SUCCESS:
            self._break(pair)
            return
        has_imm = bool(completion.wc_flags & self._with_imm)
        imm_data = socket.ntohl(completion.imm_data) if has_imm else None
        kind = ArrivalKind.SEND_WITH_IMM if has_imm else ArrivalKind.SEND
        if completion.opcode == self._wrote_with_imm:
            kind = ArrivalKind.WRITE_WITH_IMM
        self._arrivals.append(Arrival(pair.number, kind, completion.byte_len, imm_data, 0, wr_id))

    def _top_up(self) -> None:
        """Post as many empty receives as have been consumed."""
        for shared in self._shared.values():
            try:
                shared.top_up()
            except self._device.error:
                self._events.append("shared_receives_refused")

    def _break(self, pair: VerbsQueuePair) -> None:
        if not pair.has_failed:
            pair.fail()
            self._failed.append(pair.number)

    def _look_for_errors(self) -> None:
        """Find the queue pairs that the device has moved to the error state."""
        for pair in self._pairs.values():
            if pair.is_connected and not pair.has_failed and pair.is_in_error():
                self._break(pair)

    def take_completions(self) -> list[Completion]:
        """As the seam says."""
        taken = self._completions[:]
        self._completions.clear()
        return taken

    def take_arrivals(self) -> list[Arrival]:
        """As the seam says."""
        taken, self._arrivals = self._arrivals, []
        return taken

    def take_failed(self) -> list[int]:
        """As the seam says."""
        taken, self._failed = self._failed, []
        return taken

    def take_events(self) -> list[str]:
        """As the seam says."""
        taken, self._events = self._events, []
        return taken

    # Waiting

    def prepare_sleep(self) -> bool:
        """As the seam says."""
        self._device.arm()
        self._has_slept = True
        return self._reap() == 0

    @property
    def descriptors(self) -> list[int]:
        """As the seam says."""
        return self._device.descriptors

    @property
    def busy(self) -> bool:
        """As the seam says."""
        return any(pair.busy for pair in self._pairs.values())

    @property
    def watches(self) -> bool:
        """As the seam says: the ledgers of counted regions."""
        return self._memory.counts

    def close(self) -> None:
        """As the seam says."""
        self._pairs.clear()
        self._lanes.clear()
        self._shared.clear()
        self._device.close()
        self._memory.release()
