# SPDX-License-Identifier: Apache-2.0
"""One emulated NIC: six ways in, one way out. No clock, no sockets, no threads."""

from __future__ import annotations

import random
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from nicemu.abi import Access, WorkCompletion, registers
from nicemu.errors import NicemuError, NvmeStatus, ResourceError, VerbsStatus
from nicemu.firmware import (
    Arrival,
    Event,
    HookError,
    LandingSlot,
    Nic,
    Registry,
    Scheduler,
    Task,
    place_of,
)
from nicemu.hot import Records, interpreted
from nicemu.nvme import OutsideController
from nicemu.pcie import Backing, load_u64, store_u64
from nicemu.pipeline import Engine, OwnExterns
from nicemu.rdma import OutsideTransport, RoceEngine, close_queues
from nicemu.trigger import TriggerUnit
from nicemu.wire import FrameBatch

from . import datapath, firing
from .arena import FIRMWARE, new_arena
from .card import FirmwareCard
from .carriers import carrier_of
from .config import NicConfig
from .connections import Connections
from .control import ControlRings, Record
from .control_work import ControlWork
from .descriptors import collect_if_many, gone
from .effects import Effect, PerformIo, SendFrames
from .flights import Flights
from .interrupts import CountedInterrupts
from .memory import NicMemory, RegionAccess
from .notes import DRAIN_NS, Notes
from .outside_work import OutsideWork
from .owner import Owner
from .packets import PacketPath
from .port_transport import PortTransport
from .queue_pairs import QueuePairs
from .statistics import statistics_of
from .storage import Storage
from .windows import Windows

MIN_FRAME_BYTES, MAX_FRAME_BYTES = 14, 9216
"""What a port carries: an Ethernet header at least, a jumbo frame at most."""

LIVE_ROUNDS = 64
"""Rounds of a live control side before its driver looks after sockets again, should firmware never rest."""


class SmartNic:
    """One emulated NIC. The caller brings time and memory, and moves effects.

    Ways in: `on_frames`, `on_doorbell`, `on_commands`, `on_dma_complete`, `on_transport_completion`,
    `on_timer`. Each runs everything it makes due before it returns; what has to be done outside comes out of
    `take_effects`. With `live=True` a datapath thread runs `run_datapath` over the arena, the ways in serve
    the control thread alone, and RDMA frames come out by `frames_into`.
    `compiled=False` runs the datapath's source without the JIT. `guard` brackets every firmware step.
    `controller`: an NVMe controller outside, in whose reach NIC memory then lies, instead of the NIC's own.
    `transport`: an RDMA device outside, which a NIC has whose config says "verbs".
    `stages`: a table of stages that NICs contend for, and this one's place in it.
    `pipeline` makes the match-action engine, given where drops are counted; without it one interprets.
    """

    def __init__(
        self,
        config: NicConfig,
        now_ns: int = 0,
        *,
        live: bool = False,
        compiled: bool = True,
        guard: Callable[[], AbstractContextManager[object]] = nullcontext,
        controller: OutsideController | None = None,
        transport: OutsideTransport | None = None,
        stages: tuple[Records, int] | None = None,
        pipeline: Callable[[Counter[str]], Engine] | None = None,
    ) -> None:
        self.config = config
        self.now_ns = now_ns
        rng = random.Random(f"{config.seed}/{config.name}")
        self.public = Backing.memfd(f"nicemu-public-{config.name}", registers.PUBLIC_BYTES)
        self.unit = TriggerUnit(config.limits, compiled)
        self.unit.allocate(owner=FIRMWARE)  # number 0 stays unused, as on Cassini
        collect_if_many()
        self.arena = new_arena(self.unit, self.public, config.timings, stages)
        self.flights = Flights(self.arena.pacing)
        weakref.finalize(self, gone, int(self.arena.link[0].eventfd))
        self.rings = ControlRings(self.arena)
        self.rings.live = live
        self.held = False
        reach = controller.reach if controller is not None else None
        self.memory = NicMemory(self.arena.rdma, config.memory_bytes, rng, reach)
        self.drops: Counter[str] = Counter()
        self.pipeline = Engine(drops=self.drops) if pipeline is None else pipeline(self.drops)
        self.scheduler = Scheduler(self._task_ended, guard, config.timings.firmware_step_ns)
        self.card = FirmwareCard(self)
        self.nic = Nic(self.card)
        self.firmware = Registry()
        self.packets = PacketPath(self)
        self.connections = Connections(self)
        self.control_work = ControlWork(self)
        self.windows = Windows(self, compiled)
        self.start_error = ""
        self.fault_log: deque[str] = deque(maxlen=32)
        self.regions = RegionAccess(self.memory)
        address = config.roce_mac, config.roce_ip
        self.roce = RoceEngine(self.arena.rdma, *address, rng, self.drops, compiled=compiled)
        carrier = carrier_of(config, self.roce, transport)
        self.queue_pairs = QueuePairs(config, self.arena, self.unit, carrier, rng)
        self.notes = Notes(self.arena, self.queue_pairs.connected)
        own = PortTransport(self.roce, self.queue_pairs, self.memory, self.arena, self.rings)
        self.outside = OutsideWork.of(self, transport)
        self.transport = self.outside or own
        self.storage = Storage.of(self, controller) if config.namespaces else None
        self.interrupts = CountedInterrupts(self)
        self.memory.keep()
        self.arena.link["has_storage"] = self.storage is not None
        self.owners: dict[int, Owner] = {}
        self._opened = 0
        self.inboxes: dict[str, Backing] = {}
        self.peer_memory: dict[str, list[Backing]] = {}
        self.observe: Callable[[str, str, dict[str, Any]], None] | None = None
        self._poll = datapath.poll if compiled else interpreted(datapath.poll)
        self._effects: list[Effect] = []
        self._frames: list[bytes] = []

    # Ways in

    def on_frames(self, frames: Sequence[bytes | memoryview], now_ns: int, *, roce: bool = False) -> None:
        """Frames arrived; `roce` ones belong to the RDMA transport, others to the match-action pipeline."""
        self.now_ns = now_ns
        for frame in frames:
            self.trace("port", "received", {"bytes": len(frame), "roce": roce})
            if not roce:
                self.packets.match(bytes(frame))
        if roce:
            self.roce.on_frames(frames, now_ns)
        self.settle()

    def on_batch(self, batch: FrameBatch, now_ns: int) -> None:
        """As `on_frames`, of RDMA frames in a batch."""
        self.now_ns = now_ns
        offsets, lengths = batch.offsets[: batch.count], batch.lengths[: batch.count]
        self._trace_batch("received", lengths)
        self.roce.on_memory(batch.address, offsets, lengths, now_ns)
        self.settle()

    def _trace_batch(self, what: str, lengths: np.ndarray[Any, Any]) -> None:
        if self.observe is not None:
            for length in lengths.tolist():
                self.trace("port", what, {"bytes": length, "roce": True})

    def on_doorbell(self, owner: int, cell: int, value: int, now_ns: int) -> None:
        """A doorbell cell of an owner's page holds a new total."""
        self.now_ns = now_ns
        store_u64(self.owners[owner].bar.address + registers.DOORBELLS + 8 * cell, value)
        self.settle()

    def on_commands(self, now_ns: int) -> None:
        """An owner's command ring has new entries."""
        self.now_ns = now_ns
        self.settle()

    def on_dma_complete(self, tag: int, now_ns: int, status: NvmeStatus = NvmeStatus.SUCCESS) -> None:
        """A PerformIo is done; with what status."""
        self.now_ns = now_ns
        if self.storage is not None:
            self.trace("nvme", "done", {"tag": tag, "status": status.name})
            self.storage.complete(tag, status, now_ns)
        self.settle()

    def on_transport_completion(self, completion: WorkCompletion, context: int, now_ns: int) -> None:
        """Work that a transport outside this device carried is done."""
        self.now_ns = now_ns
        self.transport.completed(context, completion.qp_num, completion.status, completion.byte_len)
        self.settle()

    def on_timer(self, now_ns: int) -> None:
        """Time has passed."""
        self.now_ns = now_ns
        self.roce.on_timer(now_ns)
        self.windows.run()
        self.settle()

    # The way out

    def take_effects(self) -> list[Effect]:
        """Take what has to be done outside, in order."""
        effects, self._effects = self._effects, []
        return effects

    def frames_into(self, batch: FrameBatch) -> int:
        """Make RDMA frames that a live NIC has to send, in a batch; return how many.

        They are made when there is a port to take them: call this after every way in, until there are none.
        """
        batch.count = self.roce.frames_into(batch.memory, batch.offsets, batch.lengths)
        self._trace_batch("sent", batch.lengths[: batch.count])
        if batch.count and self.roce.has_reports:  # work may end with the attempt to send it
            self.settle()
        return batch.count

    def run_ahead(self, until_ns: int) -> None:
        """Let transfers land, and what they make due fire, up to `until_ns`, as long as nobody but this NIC's
        trigger unit hears of it; `now_ns` is what has come then. There is nothing to be done now.
        """
        self.flights.now_ns = self.now_ns
        self._poll(self.arena, 256, until_ns)
        self.now_ns = self.flights.now_ns

    def next_deadline_ns(self) -> int | None:
        """When `on_timer` wants to be called, but for the landing of transfers."""
        deadlines = [self.scheduler.next_deadline_ns(), self.roce.next_deadline_ns()]
        deadlines.append(self.windows.next_deadline_ns())
        deadlines.append(self.outside.next_deadline_ns(self.now_ns) if self.outside else None)
        if self.notes.wanted and self.rings.live:
            deadlines.append(self.now_ns + DRAIN_NS)
        if self.storage is not None:
            deadlines.append(self.storage.next_deadline_ns())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # Running

    def settle(self) -> int:
        """Run until nothing is due: the datapath (unless a thread of its own runs it), then the control side.

        Returns how many things were done. While `held` nothing is run: the driver takes single steps.
        """
        if self.held:
            return 0
        if not self.rings.live:
            self.flights.now_ns = self.now_ns
        total = 0
        for _ in range(1 << 30 if not self.rings.live else LIVE_ROUNDS):
            done = 0 if self.rings.live else int(self._poll(self.arena, 256, 0))
            done += self._run_control()
            total += done
            if done == 0 and not self._frames:
                break
        return total

    def _run_control(self) -> int:
        self.notes.drain()
        self.rings.flush()
        records = self.rings.take()
        for record in records:
            self.handle(record)
        done = len(records) + self.scheduler.run(self.now_ns)
        return done + self.run_engines()

    def run_engines(self) -> int:
        """Let RoCEv2 engine and NVMe controller do what is due, and send frames; return how much was done."""
        done = self.transport.run(self.now_ns)
        self._send(self.transport.take_frames(), roce=True)
        if self.storage is not None:
            ios, reaped = self.storage.run(self.now_ns)
            for io in ios:
                details = {"tag": io.tag, "offset": io.offset_bytes, "bytes": io.length_bytes}
                self.trace("nvme", io.kind.name.lower(), details)
                self._effects.append(PerformIo(io))
            for signal, status in reaped:
                self.trace("nvme", "completed", {"status": int(status)})
                signal.set(status)
            done += len(reaped)
        self._send(self._frames, roce=False)
        self._frames = []
        return done

    def _send(self, frames: list[bytes], roce: bool) -> None:
        fitting = [frame for frame in frames if MIN_FRAME_BYTES <= len(frame) <= MAX_FRAME_BYTES]
        if len(fitting) < len(frames):
            self.drops["port.frame_length"] += len(frames) - len(fitting)
        for frame in fitting:
            self.trace("port", "sent", {"bytes": len(frame), "roce": roce})
        if fitting:
            self._effects.append(SendFrames(tuple(fitting), roce))

    def handle(self, record: Record) -> None:
        """Carry out a record from the datapath."""
        kind, words = record.kind, record.words
        if kind == firing.UP_WORK:
            self.transport.post(record)
        elif kind == firing.UP_EVENT:
            self.trace("trigger", "firmware_event", {"counter": words[1]})
            self._signal(words[0], None)
        elif kind == firing.UP_COMPLETION:
            details = {"qp": words[2], "status": VerbsStatus(words[1]).name, "bytes": words[3]}
            self.trace("rdma", "completed", details)
            self._signal(words[0], words[1])
        elif kind == firing.UP_ARRIVAL:
            arrival = Arrival(words[0], words[1] >> 32, words[1] & 0xFFFFFFFF, words[2], words[3])
            details = {"qp": arrival.qp_num, "imm_data": arrival.imm_data, "bytes": arrival.byte_len}
            self.trace("rdma", "arrival", details)
            if self.firmware.arrival is not None:
                self.start_task("arrival", self.firmware.arrival(self.nic, arrival), arrival)
        elif kind == firing.UP_WINDOW:
            self.windows.fired(words[0])
        elif kind == firing.UP_RECEIVE:
            self.transport.post_receive(record)
        elif kind == firing.UP_NVME:
            self.control_work.nvme(record)
        elif kind == firing.UP_HOST_EVENT:
            self.control_work.event(words)
        elif kind == firing.UP_TRANSMIT:
            owner = self.owners.get(words[0])
            for frame in owner.take_transmits() if owner is not None else ():
                self.packets.transmit(frame)

    def _signal(self, cookie: int, value: object) -> None:
        signal, _ = self.card.signals.pop(cookie, (None, -1))
        if signal is not None:
            signal.set(value)

    def trace(self, block: str, what: str, details: dict[str, Any]) -> None:
        """Tell whoever observes this NIC."""
        if self.observe is not None:
            self.observe(block, what, details)

    # Firmware tasks and packets

    def start_task(self, name: str, coroutine: Any, event: object) -> None:  # noqa: ANN401
        """Start a firmware task; what it cannot take goes to the host."""
        self.trace("firmware", "start", {"task": name})
        try:
            self.scheduler.spawn(name, coroutine, self.now_ns, event, self.config.event_timeout_ns)
        except ResourceError:
            self.drops["firmware.queue_full"] += 1
            if isinstance(event, Event):
                self.card.let_go(event)

    def _task_ended(self, task: Task, fault: str) -> None:
        self.trace("firmware", "end", {"task": task.name, "fault": fault, "error": str(task.error or "")})
        if fault:
            self.drops[fault] += 1
            self.fault_log.append(f"{task.name}: {fault}: {task.error}{place_of(task.error)}")
        if fault and task.name == "start":
            self.start_error = f"{fault}: {task.error}{place_of(task.error)}"
        if fault and isinstance(task.event, Event):
            self.card.let_go(task.event)
        self.card.release(task)

    def send_frame(self, frame: bytes) -> None:
        """Send a frame of the request protocol."""
        self._frames.append(frame)

    def to_host(self, frame: bytes, info: tuple[int, ...]) -> bool:
        """Put a packet into the receive ring of the process that listens; False if it was dropped."""
        listener = next((owner for owner in self.owners.values() if owner.listening), None)
        reason = "host.nobody_listens" if listener is None else listener.deliver(frame, info)
        told = "/".join(map(str, info))
        details = {"bytes": len(frame), "restored": info[0], "info": told, "dropped": reason}
        self.trace("host", "packet", details)
        if reason:
            self.drops[reason] += 1
        return not reason

    # Firmware

    def load_firmware(self, registry: Registry, now_ns: int) -> list[tuple[str, int]]:
        """Replace the firmware: its tasks end, their packets go to the host, events to the new one; what it
        held goes with it. Returns peers and their queue pairs that have lost the other end.
        Raises: ControlError where an extern is not as the running program declares it.
        """
        self.pipeline.use_externs(OwnExterns(registry.externs, self.scheduler.bracketed))
        self.now_ns = now_ns
        events = [task.event for task in self.scheduler.tasks if isinstance(task.event, Event)]
        self.scheduler.cancel_all()
        for event in events:
            self.card.let_go(event)
        lost = self._take_back_from_firmware()
        self.firmware = registry
        self.start_error = ""
        if registry.start is not None:
            self.scheduler.spawn("start", registry.start(self.nic), now_ns)
        self.settle()
        return lost

    def _take_back_from_firmware(self) -> list[tuple[str, int]]:
        """Destroy its queue pairs, take keys, counters and what is armed back, free its memory if unused."""
        self.interrupts.forget_owner(FIRMWARE)
        pairs = self.queue_pairs
        own = [qp for qp in pairs.numbers if self.arena.rdma.queue_pairs[qp].owner == FIRMWARE]
        lost = [(pairs.numbers[qp], pairs.remote_numbers[qp]) for qp in own if qp in pairs.remote_numbers]
        with self.rings.paused():
            self.unit.flush(FIRMWARE)
            for qp in own:
                pairs.destroy(qp)
            for key in self.card.keys:
                self.memory.deregister(key)
            self.drain_peers()
        self.card.forget_all()
        if self.storage is None or self.storage.outstanding == 0:
            self.memory.free_firmware()
        return lost

    def call_hook(self, name: str, hook: Callable[..., Any], operand: object) -> Any:  # noqa: ANN401
        """Call a plain function of the script, bracketed as a step; its fault is counted."""
        try:
            return self.scheduler.call(name, lambda: hook(self.nic, operand))
        except NicemuError as error:
            self.trace("firmware", "refused", {"task": name, "error": str(error)})
            if isinstance(error, HookError):
                self.drops[error.fault] += 1
            raise

    # Owners

    def open_owner(self) -> Owner:
        """Let a host process in.

        Raises: ResourceError if all places are taken.
        """
        free = [number for number in range(1, registers.MAX_OWNERS) if number not in self.owners]
        if not free:
            raise ResourceError(f"{registers.MAX_OWNERS - 1} processes have {self.config.name} open already")
        owner = Owner.create(free[0])
        self.owners[owner.number] = owner
        owner.enter(self.arena)
        self._opened += 1
        store_u64(owner.bar.address + registers.OPENED, self._opened)
        self.notes.say("open", owner=owner.number, opened=self._opened)
        self.arena.owners[owner.number].active = 1
        return owner

    def close_owner(self, owner: Owner, now_ns: int) -> list[int]:
        """A host process is gone: send its packets, cancel its work, drain copies in flight, free its memory.

        Returns the queue pairs it had, whose peers should hear of it.
        """
        self.now_ns = now_ns
        for frame in owner.take_transmits():
            self.packets.transmit(frame)
        queue_pairs = sorted(owner.queue_pairs)
        self.interrupts.forget_owner(owner.number)
        with self.rings.paused():
            self.arena.owners[owner.number].active = 0
            self.windows.close_all(owner)
            self.unit.flush(owner.number)
            for qp in queue_pairs:
                self.queue_pairs.destroy(qp)
            for counter in list(owner.counters):
                self.unit.state.counters[counter].in_flight = 0
                self.unit.close(counter, force=True)
                self.card.forget(counter)
            self.card.landing = deque(slot for slot in self.card.landing if slot.pd != owner.pd)
            for key in owner.keys:
                self.memory.deregister(key)
            self.drain_peers()
            self.control_work.free(owner)
            self.arena.followed["address"][self.arena.followed["owner"] == owner.number] = 0
            close_queues(self.arena.rdma, owner.number)
        self.notes.say("close", owner=owner.number)
        del self.owners[owner.number]
        owner.bar.close()
        self.settle()
        return queue_pairs

    def drain_peers(self, attempts: int = 1_000_000) -> None:
        """Wait until no peer is copying under a key that it checked before now."""
        self.rings.fence()
        for peer in self.arena.rdma.peers:
            inbox = int(peer.inbox)
            for _ in range(attempts):
                if not inbox or load_u64(inbox + registers.INBOX_BUSY) == 0:
                    break
            else:
                self.drops["rdma.drain_gave_up"] += 1

    def rotate_key(self, slot: LandingSlot) -> LandingSlot:
        """Give a landing slot a new key, so that the old one names nothing any more."""
        owner = next((owner for owner in self.owners.values() if owner.pd == slot.pd), None)
        if owner is None or slot.key not in owner.keys:
            return slot
        with self.rings.paused():
            self.memory.deregister(slot.key)
            self.drain_peers()
        owner.keys.discard(slot.key)
        access = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ
        region = self.memory.register(slot.pd, slot.address, slot.length_bytes, access, owner.number)
        owner.keys.add(region.key)
        return LandingSlot(slot.index, slot.address, slot.length_bytes, region.key, slot.pd)

    def statistics(self) -> dict[str, int]:
        """Return all counts of this NIC by name."""
        return statistics_of(self)
