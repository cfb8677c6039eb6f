# SPDX-License-Identifier: Apache-2.0
"""What a host process asks of the NIC's control side, as JSON-able operations: counters, memory, keys, slots.

Every operation checks that what it names belongs to the process; a refused one raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from nicemu.abi import Access, registers
from nicemu.errors import ResourceError, UsageError, counted
from nicemu.firmware import LandingSlot
from nicemu.pcie import Backing, load_u64

from .arena import STAT_NAMES
from .device import SmartNic
from .firing import READY_TO_SEND
from .owner import Owner
from .windows import WITH_MEMORY, names_counter, names_key

MAX_EVENTS = 256
_ACCESS = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC


class Admin:
    """The operations of one device."""

    def __init__(self, device: SmartNic) -> None:
        self._device = device
        self._operations: dict[str, Callable[..., dict[str, Any]]] = {
            "counter_open": self._counter_open,
            "counter_close": self._counter_close,
            "doorbell_open": self._doorbell_open,
            "counter_follow": self._counter_follow,
            "counter_unfollow": self._counter_unfollow,
            "completions_count": self._completions_count,
            "completions_stop": self._completions_stop,
            "counter_publish": self._counter_publish,
            "counter_overflow": self._counter_overflow,
            "event_open": self._event_open,
            "limits": self._limits,
            "window_open": self._window_open,
            "window_close": self._window_close,
            "window_cancel": self._window_cancel,
            "register": self._register,
            "deregister": self._deregister,
            "listen": self._listen,
            "landing_post": self._landing_post,
            "landing_withdraw": self._landing_withdraw,
            "peers": self._peers,
        }

    def handle(self, owner: Owner, operation: str, operands: dict[str, Any]) -> dict[str, Any]:
        """Carry out an operation for a process.

        Raises: NicemuError if it is refused; UsageError for an unknown one or missing operands.
        """
        function = self._operations.get(operation)
        if function is None:
            raise UsageError(f"unknown operation {operation!r}; known are {', '.join(self._operations)}")
        try:
            return function(owner, **operands)
        except TypeError as error:
            raise UsageError(f"{operation}: {error}") from error

    def share(self, owner: Owner, backing: Backing, kind: str) -> int:
        """Map memory that a process brought; return its bus address."""
        if kind not in ("host", "gpu"):
            raise UsageError(f"memory is of kind host or gpu, not {kind!r}")
        piece = self._device.memory.add_host(backing, kind, owner.number)
        owner.pieces[piece.window.bus_address] = piece
        return piece.window.bus_address

    def _counter_open(
        self, owner: Owner, name: str, remote: bool = False, counts_bytes: bool = False
    ) -> dict[str, Any]:
        counter = self._device.unit.allocate(
            owner=owner.number, pd=owner.pd, remote=bool(remote), counts_bytes=bool(counts_bytes)
        )
        owner.counters[counter] = str(name)
        self._device.notes.say("counter", counter=counter, name=str(name))
        self._device.unit.publish_at(counter, owner.write_back_entry(counter))
        return {"counter": counter}

    def _counter_close(self, owner: Owner, counter: int, force: bool = False) -> dict[str, Any]:
        owner.check_counter(counter)
        with self._device.rings.paused():
            followed = self._device.arena.followed
            fed = (followed["address"] != 0) & (followed["counter"] == counter)
            if fed.any() and not force:
                raise _fed(counter, int(fed.sum()), self._device.interrupts.queues_of(counter))
            self._check_windows(owner, lambda work: names_counter(work, counter), force, f"counter {counter}")
            if force:
                self._device.windows.remove(owner, lambda work: names_counter(work, counter))
            self._device.unit.close(counter, force=bool(force))
            self._device.interrupts.forget_counter(counter)
            followed["address"][fed] = 0
            self._device.card.forget(counter)
            for cell, rung in list(owner.cells.items()):
                if rung == counter:
                    del owner.cells[cell]
                    self._device.arena.doorbells[owner.number, cell] = -1
            self._device.arena.owners[owner.number].doorbells = owner.cells_in_use
        del owner.counters[counter]
        owner.published.pop(counter, None)
        return {}

    def _doorbell_open(self, owner: Owner, counter: int) -> dict[str, Any]:
        owner.check_counter(counter)
        cell = owner.open_cell(counter)
        with self._device.rings.paused():
            place = owner.bar.address + registers.DOORBELLS + 8 * cell
            owner.bar.view[registers.DOORBELLS + 8 * cell : registers.DOORBELLS + 8 * cell + 8] = bytes(8)
            self._device.arena.rung[owner.number, cell] = 0
            self._device.arena.doorbells[owner.number, cell] = counter
            self._device.arena.owners[owner.number].doorbells = owner.cells_in_use
        return {"cell": cell, "address_in_bar": place - owner.bar.address}

    def _counter_follow(
        self, owner: Owner, counter: int, address: int, key: int, at_least: int = 0
    ) -> dict[str, Any]:
        owner.check_counter(counter)
        if not isinstance(at_least, int) or not 0 <= at_least < 1 << 64 or address % 8:
            raise UsageError("a followed word is 8 bytes, aligned, and at_least no negative number (EINVAL)")
        if key not in owner.keys:
            raise UsageError(f"key {key:#x} is not one of this process")
        self._device.regions.local(owner.pd, address, 8, key, False)
        window = self._device.memory.space.find(address, 8)
        raw = window.backing.address + address - window.bus_address
        followed = self._device.arena.followed
        free = np.flatnonzero(followed["address"] == 0)
        if not len(free):
            raise ResourceError(f"all {len(followed)} words that can be followed are (ENOSPC)")
        place = int(free[0])
        self._device.notes.say("follow", place=place, address=address, counter=counter)
        with self._device.rings.paused():
            word = followed[place]
            word.seen, word.at_least, word.counter, word.owner = (
                0 if at_least else load_u64(raw),
                at_least,
                counter,
                owner.number,
            )
            word.key, word.address = key, raw
            link = self._device.arena.link
            link["followed"] = max(int(link[0].followed), place + 1)
        return {"place": place}

    def _counter_unfollow(self, owner: Owner, place: int) -> dict[str, Any]:
        followed = self._device.arena.followed
        if not 0 <= place < len(followed) or followed[place].owner != owner.number:
            raise UsageError(f"nothing that this process follows is at place {place}")
        if self._device.interrupts.follow_at(place):
            raise UsageError(f"place {place} follows NVMe completions (EBUSY); give their queue pair back")
        with self._device.rings.paused():
            followed[place].address = 0
        return {}

    def _completions_count(self, owner: Owner, counter: int) -> dict[str, Any]:
        """Give a process a queue pair of the NVMe controller whose completions count."""
        owner.check_counter(counter)
        return {"queue": self._device.interrupts.open(counter, owner.number)}

    def _completions_stop(self, owner: Owner, queue: int) -> dict[str, Any]:
        self._device.interrupts.close(queue, owner.number)
        return {}

    def _counter_publish(self, owner: Owner, counter: int, address: int, key: int) -> dict[str, Any]:
        """Move a counter's write-back entry to registered memory (its old place shows no more changes)."""
        owner.check_counter(counter)
        if key not in owner.keys or address % 8:
            raise UsageError(f"a write-back entry lies aligned to 8 bytes in memory of key {key:#x} (EINVAL)")
        self._device.regions.local(owner.pd, address, registers.WRITE_BACK_BYTES, key, True)
        window = self._device.memory.space.find(address, registers.WRITE_BACK_BYTES)
        with self._device.rings.paused():
            raw = window.backing.address + address - window.bus_address
            self._device.unit.publish_at(counter, raw)
            owner.published[counter] = key
        return {}

    def _counter_overflow(self, owner: Owner, counter: int) -> dict[str, Any]:
        """Whether a value of a counter would have gone beyond its maximum since the counter was opened."""
        owner.check_counter(counter)
        return {"overflow": bool(self._device.unit.state.counters[counter].overflow)}

    def _event_open(self, owner: Owner, name: str) -> dict[str, Any]:
        for number, known in owner.events.items():
            if known == name:
                return {"event": number}
        if len(owner.events) >= MAX_EVENTS:
            raise ResourceError(f"{MAX_EVENTS} event names are open already (ENOSPC)")
        number = len(owner.events) + 1
        owner.events[number] = str(name)
        return {"event": number}

    def _check_windows(self, owner: Owner, is_meant: Callable[[Any], bool], force: bool, what: str) -> None:
        """Raise UsageError (EBUSY) if windows will arm operations that name what is to go."""
        if waiting := 0 if force else self._device.windows.count(owner, is_meant):
            raise UsageError(
                f"{what} is named by {counted(waiting, 'operation')} that no window has armed yet (EBUSY); "
                "cancel them or use force=True"
            )

    def _window_open(self, owner: Owner, address: int, key: int, count: int, size: int) -> dict[str, Any]:
        return {"window": self._device.windows.open(owner, address, key, count, size)}

    def _window_close(self, owner: Owner, window: int) -> dict[str, Any]:
        return {"cancelled": self._device.windows.close(owner, window)}

    def _window_cancel(self, owner: Owner, counter: int) -> dict[str, Any]:
        owner.check_counter(counter)
        waits = self._device.windows.remove(owner, lambda work: int(work["trigger"]) == counter)
        return {"cancelled": waits}

    def _limits(self, owner: Owner) -> dict[str, Any]:
        unit = self._device.unit
        return {
            "limits": {**asdict(unit.limits), "order": unit.limits.order.value},
            "slots_free": unit.free_slots(owner.number),
            "transport": self._device.config.transport,
        }

    def _register(
        self,
        owner: Owner,
        address: int,
        length_bytes: int,
        access: int | None = None,
        counter: int | None = None,
    ) -> dict[str, Any]:
        if counter is not None:
            owner.check_counter(counter)
        rights = _ACCESS if access is None else Access(access)
        region = self._device.memory.register(owner.pd, address, length_bytes, rights, owner.number, counter)
        owner.keys.add(region.key)
        return {"key": region.key}

    def _deregister(self, owner: Owner, key: int, force: bool = False) -> dict[str, Any]:
        if key not in owner.keys:
            raise UsageError(f"key {key:#x} is not one of this process")
        slots = self._device.unit.state.slots[: int(self._device.unit.state.unit[0].touched)]
        with self._device.rings.paused():
            waiting = (
                (slots["state"] != 0)
                & (slots["owner"] == owner.number)
                & np.isin(slots["opcode"], WITH_MEMORY)
            )
            followed = self._device.arena.followed
            fed = (followed["address"] != 0) & (followed["key"] == key)
            published = [counter for counter, one in owner.published.items() if one == key]
            if (fed.any() or published) and not force:
                raise UsageError(f"counters follow or are published in memory of key {key:#x} (EBUSY)")
            using = waiting & (
                ((slots["sge_count"] > 0) & (slots["sge0_lkey"] == key))
                | ((slots["sge_count"] > 1) & (slots["sge1_lkey"] == key))
            )
            if using.any() and not force:
                armed = counted(int(using.sum()), "armed operation")
                raise UsageError(
                    f"key {key:#x} is used by {armed} (EBUSY); cancel them first, "
                    "or force it and they will complete in error"
                )
            self._check_windows(owner, lambda work: names_key(work, key), force, f"key {key:#x}")
            followed["address"][fed] = 0
            for counter in published:
                self._device.unit.publish_at(counter, owner.write_back_entry(counter))
                del owner.published[counter]
            self._device.memory.deregister(key)
            self._device.drain_peers()
        owner.keys.discard(key)
        return {}

    def _listen(self, owner: Owner) -> dict[str, Any]:
        other = next((one for one in self._device.owners.values() if one.listening), None)
        if other is not None and other is not owner:
            raise UsageError(f"another process receives the packets of {self._device.config.name} already")
        owner.listening = True
        return {}

    def _landing_post(
        self, owner: Owner, index: int, address: int, length_bytes: int, key: int
    ) -> dict[str, Any]:
        region = self._device.memory.table.regions.get(key)
        if key not in owner.keys or region is None:
            raise UsageError(f"key {key:#x} is not one of this process")
        if address < region.iova or address + length_bytes > region.iova + region.length_bytes:
            raise UsageError(f"landing slot {index} lies outside the region of key {key:#x}")
        if any(slot.pd == owner.pd and slot.index == index for slot in self._device.card.landing):
            raise UsageError(f"landing slot {index} is on the free ring already")
        slot = LandingSlot(index, address, length_bytes, key, owner.pd)
        renewed = self._device.rotate_key(slot)
        self._device.card.landing.append(renewed)
        return {"key": renewed.key}

    def _landing_withdraw(self, owner: Owner, index: int) -> dict[str, Any]:
        landing = self._device.card.landing
        slot = next((slot for slot in landing if slot.pd == owner.pd and slot.index == index), None)
        if slot is not None:
            landing.remove(slot)
        return {"key": None if slot is None else slot.key}

    def _peers(self, owner: Owner) -> dict[str, Any]:
        pairs, state = self._device.queue_pairs, self._device.arena.rdma.queue_pairs
        ready = {pairs.numbers[qp] for qp in owner.queue_pairs if state[qp].state == READY_TO_SEND}
        return {"connected": sorted(ready)}

    def describe(self) -> dict[str, Any]:
        """What `nicemu stats` and `nicemu counter list` show."""
        device = self._device
        device.notes.drain()
        counters = []
        for owner in device.owners.values():
            for number, name in owner.counters.items():
                success, errors = device.unit.read(number)
                record = device.unit.state.counters[number]
                counters.append(
                    {
                        "counter": number,
                        "name": name,
                        "owner": owner.number,
                        "success": success,
                        "errors": errors,
                        "armed": int(record.armed),
                        "aimed": int(record.aimed),
                        "in_flight": int(record.in_flight),
                        "overflow": bool(record.overflow),
                    }
                )
        return {
            "nic": device.config.name,
            "address": device.config.ip,
            "statistics": device.statistics(),
            "counters": counters,
            "limits": device.unit.limits.profile,
            "firmware": device.firmware.names(),
            "faults": list(device.fault_log),
            "program": getattr(device.pipeline.program, "name", None),
            "missing_externs": list(getattr(device.pipeline, "missing_externs", ())),
            "interpreted_because": getattr(
                device.pipeline, "interpreted_because", "this NIC has no compiler"
            ),
            "peers": {peer.name: sorted(peer.queue_pairs) for peer in device.queue_pairs.peers.values()},
            "datapath": list(STAT_NAMES),
        }


def _fed(counter: int, count: int, queues: list[int]) -> UsageError:
    """Return the error of a counter that so many words feed; in those of `queues` completions land."""
    by, cures = [], []
    if words := count - len(queues):
        by.append(f"{counted(words, 'word')} of memory")
        cures.append("what counter.follow() returned")
    if queues:
        by.append(f"NVMe queue pair {' and '.join(map(str, queues))}")
        cures.append("what counter.count_completions() returned")
    return UsageError(
        f"counter {counter} is fed by {' and '.join(by)} (EBUSY); close {' and '.join(cures)} first, or "
        "close the counter with force=True"
    )
