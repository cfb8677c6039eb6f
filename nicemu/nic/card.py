# SPDX-License-Identifier: Apache-2.0
"""The device as its own firmware sees it: implements `nicemu.firmware.Card`."""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

import numpy as np

from nicemu.abi import ARMED, Access, DeferredWork, Opcode, WorkRequest, pack_deferred, pack_work
from nicemu.errors import ControlError, P4RuntimeCode, UsageError
from nicemu.firmware import Buffer, Event, LandingSlot, Signal, Task
from nicemu.hot import Records
from nicemu.nvme import FIRST_QUEUE
from nicemu.pipeline import HOST_PORT, Exact, TableEntry
from nicemu.wire import ETHERTYPE_IPV4, Ethernet, encode_udp_frame, parse_ipv4

from .arena import FIRMWARE
from .datapath import DOWN_ADD, DOWN_ARM
from .firing import READY_TO_SEND

if TYPE_CHECKING:
    from .device import SmartNic

SERVICE_PD = 1
"""Protection domain of the firmware's memory and queue pairs."""
KV_PORT = 19286
RESTING_COUNTERS = 64
"""Counters of failed tasks that are kept back."""


class FirmwareCard:
    """What `Nic` calls; one a NIC. Tracks what each task holds, and takes it back when the task fails."""

    def __init__(self, device: SmartNic) -> None:
        self._device = device
        self.landing: deque[LandingSlot] = deque()
        self.held: dict[Task, list[LandingSlot | int]] = {}
        self.signals: dict[int, tuple[Signal, int]] = {}
        self.keys: set[int] = set()
        self.counters: set[int] = set()
        self.prepared: dict[str, tuple[int, WorkRequest, int | None]] = {}
        self._resting: deque[int] = deque()
        self._next_cookie = 1

    def _cookie(self, signal: Signal, counter: int = -1) -> int:
        """Return the number under which a signal is set; `counter`: what it waits for, for `forget`."""
        cookie = self._next_cookie
        self._next_cookie += 1
        self.signals[cookie] = (signal, counter)
        return cookie

    def forget_all(self) -> None:
        """The script is gone: so are its keys, its counters, and what it has prepared."""
        self.keys.clear()
        self.prepared.clear()
        for counter in sorted(self.counters):
            self._rest(counter)

    def forget(self, counter: int) -> None:
        """A counter is closed: nothing waits for it any more."""
        for cookie in [cookie for cookie, (_, one) in self.signals.items() if one == counter]:
            del self.signals[cookie]

    def _hold(self, thing: LandingSlot | int) -> None:
        task = self._device.scheduler.current
        if task is not None:
            self.held.setdefault(task, []).append(thing)

    def _let_go(self, thing: LandingSlot | int) -> None:
        for things in self.held.values():
            if thing in things:
                things.remove(thing)
                return

    def release(self, task: Task) -> None:
        """Take back what a task that ended still held: counters, and landing slots under a new key.

        Arrivals that name such a counter may be on their way, so its number is not given out again soon.
        """
        for thing in self.held.pop(task, []):
            if isinstance(thing, LandingSlot):
                self.return_landing_slot(thing, rotate_key=True)
            else:
                self._rest(thing)

    def _rest(self, counter: int) -> None:
        """Take a counter back, and free the ones that have rested longest."""
        self.counters.discard(counter)
        self._device.interrupts.forget_counter(counter)
        self._device.unit.state.counters[counter].remote = 0
        self._resting.append(counter)
        while len(self._resting) > RESTING_COUNTERS:
            self.free_counter(self._resting.popleft())

    # Card

    def now_ns(self) -> int:
        """The time of the way in that runs now."""
        return self._device.now_ns

    def spawn(self, name: str, coroutine: Coroutine[Signal, None, None], *things: LandingSlot | int) -> None:
        """Start a firmware task without a deadline; what it is given to hold is no longer the caller's."""
        task = self._device.scheduler.spawn(name, coroutine, self._device.now_ns)
        for thing in things:
            self._let_go(thing)
            self.held.setdefault(task, []).append(thing)

    def read_memory(self, address: int, length_bytes: int) -> bytes:
        """Copy memory."""
        return self._device.memory.space.read(address, length_bytes, "firmware")

    def write_memory(self, address: int, data: bytes) -> None:
        """Store into memory."""
        self._device.memory.space.write(address, data, "firmware")

    def memory_view(self, address: int, length_bytes: int) -> memoryview:
        """Return memory itself."""
        return self._device.memory.space.view(address, length_bytes, "firmware")

    def allocate_memory(self, length_bytes: int, remote: bool, atomic: bool = False) -> Buffer:
        """Return registered NIC memory."""
        memory = self._device.memory
        access = Access.LOCAL_WRITE
        if remote:
            access |= Access.REMOTE_WRITE | Access.REMOTE_READ
        if atomic:
            access |= Access.REMOTE_ATOMIC
        address = memory.allocate(length_bytes)
        region = memory.register(SERVICE_PD, address, length_bytes, access, FIRMWARE)
        self.keys.add(region.key)
        return Buffer(address, length_bytes, region.key)

    def allocate_counter(self, pd: int) -> int:
        """Return a counter of the firmware."""
        unit = self._device.unit
        while self._resting and unit.state.counters["allocated"].all():
            self.free_counter(self._resting.popleft())
        counter = unit.allocate(owner=FIRMWARE, pd=pd or SERVICE_PD, remote=True)
        self._hold(counter)
        self.counters.add(counter)
        self._device.notes.say("counter", counter=counter, name="")
        return counter

    def free_counter(self, counter: int) -> None:
        """Give a counter back."""
        self._let_go(counter)
        self.counters.discard(counter)
        self._device.interrupts.forget_counter(counter)
        record = self._device.unit.state.counters[counter]
        if record.armed or record.aimed or record.in_flight:
            with self._device.rings.paused():
                self._device.unit.close(counter, force=True)
        else:
            self._device.unit.close(counter)
        self.forget(counter)

    def counter_add(self, counter: int, success: int, errors: int) -> None:
        """Count."""
        self._device.rings.push(DOWN_ADD, counter, success, errors)

    def renew_key(self, buffer: Buffer) -> Buffer:
        """Zero a buffer and give it a new key."""
        region = self._device.memory.table.regions[buffer.key]
        with self._device.rings.paused():
            self._device.memory.deregister(buffer.key)
            self._device.drain_peers()
        self.memory_view(buffer.address, buffer.length_bytes)[:] = bytes(buffer.length_bytes)
        renewed = self._device.memory.register(
            SERVICE_PD, buffer.address, buffer.length_bytes, region.access, FIRMWARE
        )
        self.keys.discard(buffer.key)
        self.keys.add(renewed.key)
        return Buffer(buffer.address, buffer.length_bytes, renewed.key)

    def counter_value(self, counter: int) -> tuple[int, int]:
        """Return (success, errors)."""
        return self._device.unit.read(counter)

    def _arm(self, record: Records, owner: int = FIRMWARE) -> None:
        record["owner"] = owner
        self._device.rings.push(DOWN_ARM, work=record[()])

    def arm_signal(self, counter: int, threshold: int, signal: Signal, owner: int = FIRMWARE) -> int:
        """Set `signal` when the counter reaches the threshold: a deferred firmware event, one trigger slot.

        Returns the number under which `is_armed` knows it.
        """
        record: Any = np.zeros((), ARMED)
        cookie = self._cookie(signal, counter)
        pack_deferred(record, DeferredWork(counter, threshold, Opcode.FIRMWARE_EVENT, cookie=cookie))
        self._arm(record, owner)
        return cookie

    def is_armed(self, cookie: int | None) -> bool:
        """Whether a signal that was armed still waits in a trigger slot."""
        state = self._device.unit.state
        slots = state.slots[: int(state.unit[0].touched)]
        return cookie in self.signals and bool(
            (
                (slots["wr_id"] == cookie)
                & (slots["opcode"] == Opcode.FIRMWARE_EVENT)
                & (slots["state"] != 0)
            ).any()
        )

    def post_work(self, qp_num: int, work: WorkRequest, signal: Signal | None) -> None:
        """Post work on a queue pair of the firmware; `signal` gets its VerbsStatus.

        Raises: UsageError for a queue pair that is not the firmware's.
        """
        self._check_queue_pair(qp_num)
        record: Any = np.zeros((), ARMED)
        pack_work(record, work, qp_num)
        record["options"] = 1 if signal is not None else 0
        record["wr_id"] = self._cookie(signal) if signal is not None else work.wr_id
        record["trigger"] = self._device.arena.queue_counters[qp_num]
        record["completion"] = -1
        self._arm(record)

    def _check_queue_pair(self, qp_num: int) -> None:
        pairs = self._device.arena.rdma.queue_pairs
        if qp_num not in self._device.queue_pairs.numbers or pairs[qp_num].owner != FIRMWARE:
            raise UsageError(f"queue pair {qp_num} is not one of the firmware")

    def arm_work(
        self, counter: int, threshold: int, qp_num: int, work: WorkRequest, completion: int | None
    ) -> None:
        """Arm work on a queue pair of the firmware.

        Raises: UsageError for a queue pair that is not the firmware's, or what no trigger slot can hold.
        """
        self._check_queue_pair(qp_num)
        for number in (counter,) if completion is None else (counter, completion):
            self._device.unit.check_counter(number)
        record: Any = np.zeros((), ARMED)
        deferred = DeferredWork(counter, threshold, work.opcode, work, qp_num, completion)
        pack_deferred(record, deferred)
        self._arm(record)

    def prepare_work(self, name: str, qp_num: int, work: WorkRequest, completion: int | None) -> None:
        """Keep work that the match-action program arms by its name, in place of what was kept under it.

        Raises: UsageError for a queue pair that is not the firmware's, or a counter that there is not.
        """
        self._check_queue_pair(qp_num)
        if completion is not None:
            self._device.unit.check_counter(completion)
        self.prepared[name] = qp_num, work, completion

    def arm_prepared(self, name: str, counter: int, threshold: int) -> str:
        """Arm work that was prepared; return why not, "" if it is armed.

        Packets ask for it, as many as there are: no more is armed than finds a trigger slot at once.
        """
        counters = self._device.unit.state.counters
        if name not in self.prepared:
            return "pipeline.no_prepared_work"
        if counter >= len(counters) or not counters[counter].allocated:
            return "pipeline.counter_not_allocated"
        if self._device.unit.free_slots(FIRMWARE) <= self._device.rings.unread:
            return "pipeline.no_trigger_slot"
        qp_num, work, completion = self.prepared[name]
        try:
            self.arm_work(counter, threshold, qp_num, work, completion)
        except UsageError:  # its queue pair, or the counter of its end, is gone
            return "pipeline.no_prepared_work"
        return ""

    def nvme(
        self,
        opcode: str,
        nsid: int,
        slba: int,
        nlb: int,
        address: int,
        signal: Signal,
        queue: int = FIRST_QUEUE,
    ) -> None:
        """Submit an NVMe command; `signal` gets its status."""
        if self._device.storage is None:
            raise UsageError(f"{self._device.config.name} has no NVMe namespace")
        if queue != FIRST_QUEUE:
            self._device.interrupts.check(queue, FIRMWARE)
        self._device.storage.submit(opcode, nsid, slba, nlb, address, signal, queue)

    def count_completions(self, counter: int) -> int:
        """Return a queue pair of the NVMe controller whose completions count at a counter."""
        self._device.unit.check_counter(counter)
        return self._device.interrupts.open(counter, FIRMWARE)

    def stop_counting(self, queue: int) -> None:
        """Give such a queue pair back."""
        self._device.interrupts.close(queue, FIRMWARE)

    def send_message(self, peer: str, payload: bytes) -> None:
        """Send a request-protocol message to a peer NIC."""
        found = self._device.queue_pairs.peer(peer)
        self.send_datagram(int(IPv4Address(found.ip)), KV_PORT, payload)

    def send_datagram(self, address: int, udp_port: int, payload: bytes) -> None:
        """Send a datagram as one frame."""
        destination = IPv4Address(address).packed
        config = self._device.config
        ethernet = Ethernet(b"\x02\x00" + destination, config.mac, ETHERTYPE_IPV4)
        source = parse_ipv4(config.ip)
        self._device.send_frame(encode_udp_frame(ethernet, source, destination, KV_PORT, udp_port, payload))

    def deliver(self, event: Event, info: tuple[int, ...]) -> bool:
        """Pass an event's packet to the host, once; False if the host did not get it."""
        if event.settled:
            return False
        event.settled = True
        return bool(event.frame) and self._device.to_host(event.frame, info)

    def transmit(self, event: Event) -> None:
        """Pass an event's packet on to the network, once."""
        if not event.settled:
            event.settled = True
            if event.frame:
                self._device.send_frame(event.frame)

    def let_go(self, event: Event) -> None:
        """Pass an event's packet on, if it has not been, to where it goes that no program holds."""
        if event.port == HOST_PORT:
            self.transmit(event)
        else:
            self.deliver(event, (0,))

    def take_landing_slot(self) -> LandingSlot | None:
        """Take a landing slot off the free ring."""
        if not self.landing:
            return None
        slot = self.landing.popleft()
        self._hold(slot)
        return slot

    def keep_landing_slot(self, slot: LandingSlot) -> None:
        """A session has landed: the slot is the host's from here on."""
        self._let_go(slot)

    def return_landing_slot(self, slot: LandingSlot, rotate_key: bool) -> None:
        """Put a slot back on the free ring, under a new key where a late write must not land any more.

        A slot whose process is gone, or has taken its key back, is nobody's.
        """
        self._let_go(slot)
        owner = next((owner for owner in self._device.owners.values() if owner.pd == slot.pd), None)
        if owner is not None and slot.key in owner.keys:
            self.landing.append(self._device.rotate_key(slot) if rotate_key else slot)

    def routes(self, pd: int) -> dict[int, tuple[str, int]]:
        """Connected peers of a protection domain: number to name and remote queue pair; none in error."""
        pairs = self._device.queue_pairs
        state = self._device.arena.rdma.queue_pairs
        return {
            pairs.remote_nics[qp]: (pairs.numbers[qp], remote)
            for qp, remote in pairs.remote_numbers.items()
            if state[qp].pd == pd and state[qp].state == READY_TO_SEND
        }

    def table_insert(
        self, table: str, keys: tuple[int, ...], action: str, parameters: tuple[int, ...]
    ) -> None:
        """Insert or replace an exact entry."""
        entry = TableEntry(tuple(Exact(key) for key in keys), action, parameters)
        try:
            self._device.pipeline.insert(table, entry)
        except ControlError as error:
            if error.code is not P4RuntimeCode.ALREADY_EXISTS:
                raise
            self._device.pipeline.modify(table, entry)

    def table_delete(self, table: str, keys: tuple[int, ...]) -> None:
        """Delete an exact entry if it is there."""
        try:
            self._device.pipeline.delete(table, tuple(Exact(key) for key in keys))
        except ControlError as error:
            if error.code is not P4RuntimeCode.NOT_FOUND:
                raise

    def namespaces(self) -> dict[int, tuple[int, int]]:
        """NVMe namespaces: nsid to (block bytes, blocks)."""
        return self._device.storage.namespaces if self._device.storage else {}

    def count(self, name: str) -> None:
        """Count under a name of the script's choice."""
        self._device.drops[name] += 1
