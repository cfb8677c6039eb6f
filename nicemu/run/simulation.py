# SPDX-License-Identifier: Apache-2.0
"""The stepper: many NICs, one event heap, virtual time. Same seed, same trace, byte for byte."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nicemu.abi import Event, EventLog, SharedMemory
from nicemu.clock import VirtualClock
from nicemu.errors import ControlError, NicemuError, NvmeStatus, P4RuntimeCode, UsageError
from nicemu.fabric import FaultPort, FaultRates, Port, loopback_pair
from nicemu.firmware import load_firmware
from nicemu.hot import interpreted
from nicemu.nic import (
    STAGES_A_NIC,
    Admin,
    NicConfig,
    OutsideWork,
    Owner,
    PerformIo,
    SendFrames,
    SmartNic,
    attach,
    make_inbox,
    map_backing,
    send_frame,
    shared_backings,
    stages_of,
)
from nicemu.nvme import OutsideController
from nicemu.pcie import Backing
from nicemu.pipeline import Engine, Exact, TableEntry
from nicemu.programs import find_program
from nicemu.rdma import FLAG_IMMEDIATE_COUNTS, FLAG_IMPLICIT_RECEIVES, OutsideTransport
from nicemu.timing import Timings

from .block_io import MemoryBlockIo
from .program_file import read_program
from .small_steps import About, SmallSteps
from .stage import Chooser, enter_stage
from .stepped_stream import SteppedStream

_DESTINATION_IP = slice(30, 34)
_START_LIMIT_NS = 60_000_000_000
_SETTLING_NS = 10_000_000


class Simulation:
    """NICs in one process, stepped in virtual time.

    Give it the NICs, then programs and firmware, then let hosts and clients act; `run_until_idle` carries out
    what follows. `faults` spoils the frames between NICs, seeded. `trace` holds one line an event.
    A `chooser` says what happens next wherever several things could; see `small_steps.py`.
    `controllers`: by NIC, NVMe controllers outside that hold its namespaces; `transports`: RDMA devices that
    carry its work. They work in real time, which the virtual one passes in polls: what they do, and when, the
    seed does not say.
    """

    def __init__(
        self,
        configs: Sequence[NicConfig],
        *,
        compiled: bool = False,
        seed: int = 1,
        faults: FaultRates | None = None,
        chooser: Chooser | None = None,
        check_races: bool = False,
        controllers: Mapping[str, OutsideController] | None = None,
        transports: Mapping[str, OutsideTransport] | None = None,
    ) -> None:
        outside = controllers or {}
        self.host_log: EventLog | None = None
        self._logs: list[list[Event]] = []
        if check_races:
            self.host_log = self._new_log("host", "the host")
        self.clock = VirtualClock()
        self.trace: list[str] = []
        self.events: list[tuple[int, int, Callable[[], None], About]] = []
        self._sequence = 0
        self._awaited: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self.nics: dict[str, SmartNic] = {}
        self.admins: dict[str, Admin] = {}
        self.disks: dict[str, MemoryBlockIo] = {}
        self.clients: dict[bytes, deque[bytes]] = {}
        self._ports: dict[tuple[str, bool], tuple[Port, Port]] = {}
        self.chooser: Chooser | None = None
        self._small: SmallSteps | None = None
        self._streams = 0
        rng = random.Random(seed)
        self._stages = stages_of([*(config.timings for config in configs), Timings()])
        self._send_frame = send_frame if compiled else interpreted(send_frame)
        self._places = {config.name: place * STAGES_A_NIC for place, config in enumerate(configs)}
        for place, config in enumerate(configs):
            nic = SmartNic(
                config,
                stages=(self._stages, place),
                compiled=compiled,
                controller=outside.get(config.name),
                transport=(transports or {}).get(config.name),
            )
            nic.observe = self._observer(config.name)
            self.nics[config.name] = nic
            if check_races:
                nic.notes.begin(self._new_log("nic", config.name))
            self.admins[config.name] = Admin(nic)
            for entry in () if config.name in outside else config.namespaces:
                self.disks[config.name] = MemoryBlockIo(
                    entry.block_bytes, entry.block_count, nic.memory.space
                )
            for roce in (False, True):  # a frame that is held back must not change sides
                sender, receiver = loopback_pair(1 << 16)
                spoilt: Port = sender
                if faults is not None:
                    spoilt = FaultPort(sender, random.Random(rng.getrandbits(64)), faults)
                self._ports[config.name, roce] = (spoilt, receiver)
        self._by_ip = {nic.config.ip: nic for nic in self.nics.values()}
        self._attach_all()
        of_stage = enter_stage(self)
        self.step_by(chooser or of_stage)

    def step_by(self, chooser: Chooser | None) -> None:
        """Let `chooser` say what happens next from now on; None: nobody."""
        if self._small is not None:
            self._small.close()
        self.chooser = chooser
        self._small = None if chooser is None else SmallSteps(self, chooser)

    def _new_log(self, kind: str, name: str) -> EventLog:
        self._logs.append([])
        return EventLog(kind, name, self._logs[-1].append)

    @property
    def logs(self) -> list[list[Event]]:
        """What host and NICs have put down of themselves; nothing without `check_races`.

        `nicemu.testing.check_races` makes a report of it.
        """
        for nic in self.nics.values():
            nic.notes.drain()
        return self._logs

    def _observer(self, name: str) -> Callable[[str, str, dict[str, Any]], None]:
        def observe(block: str, what: str, details: dict[str, Any]) -> None:
            text = " ".join(f"{key}={value}" for key, value in details.items())
            self.trace.append(f"{self.clock.now_ns()} {name} {block} {what} {text}")

        return observe

    def _attach_all(self) -> None:
        for name, nic in self.nics.items():
            for peer_name, peer in self.nics.items():
                if name != peer_name:
                    inbox = make_inbox(peer, name, nic.config.ip)
                    attach(nic, peer_name, peer.config.ip, peer.public, inbox)
                    known = nic.queue_pairs.peers[peer_name].index
                    nic.arena.pacing.peers[known] = self._places[peer_name]
                    for index, backing in shared_backings(peer):
                        map_backing(nic, peer_name, index, backing)
            nic.memory.on_backing = self._backing_teller(name)
            if nic.outside is not None:
                nic.outside.ask = self._region_asker(name, nic.outside)
                nic.outside.revoke = self._region_revoker(name)

    def _region_asker(self, name: str, own: OutsideWork) -> Callable[[str, int], None]:
        def ask(peer: str, key: int) -> None:
            other = self.nics[peer].outside
            own.learn(peer, key, None if other is None else other.describe(name, key))

        return ask

    def _region_revoker(self, name: str) -> Callable[[str, int], None]:
        def revoke(peer: str, key: int) -> None:
            other = self.nics[peer].outside
            if other is not None:
                other.learn(name, key, None)

        return revoke

    def _backing_teller(self, name: str) -> Callable[[int, Backing], None]:
        def tell(index: int, backing: Backing) -> None:
            for other_name, other in self.nics.items():
                if other_name != name:
                    map_backing(other, name, index, backing)

        return tell

    # Programs

    def load_program(
        self,
        nic: str,
        path: str | Path,
        include_paths: Sequence[Path] = (),
        defines: Mapping[str, str] | None = None,
    ) -> None:
        """Run a program on a NIC, P4 or BMv2 JSON. Raises: CompileError, Bmv2Error, ControlError."""
        self.nics[nic].pipeline.load(read_program(find_program(path), include_paths, defines).program)

    def load_firmware(self, nic: str, path: str | Path) -> None:
        """Load a firmware script on a NIC, and let time pass until its `@on_start` has ended, or waits for
        what nothing brings yet; and until nothing is left to happen, but no more than 10 ms: a script may go
        on for ever.

        Raises: FirmwareError; NicemuError if its start takes more than 60 s of virtual time.
        """
        device = self.nics[nic]
        device.load_firmware(load_firmware(find_program(path)), self.clock.now_ns())
        if not self.run_until(
            lambda: not device.scheduler.starting or self.next_ns() is None, _START_LIMIT_NS
        ):
            raise NicemuError(f"{path}: @on_start has not ended in {_START_LIMIT_NS} ns of virtual time")
        self.run_until(lambda: self.next_ns() is None, _SETTLING_NS)

    # Time

    def schedule(self, when_ns: int, action: Callable[[], None], about: About | None = None) -> None:
        """Have `action` happen at a virtual time; `about` tells a chooser what it is."""
        self._sequence += 1
        about = about or About(("scheduled", self._sequence), "something that was scheduled happens")
        heapq.heappush(self.events, (when_ns, self._sequence, action, about))

    def when(self, is_true: Callable[[], bool], action: Callable[[], None]) -> None:
        """Have `action` happen as soon as `is_true()`; it is asked whenever something has happened."""
        self._awaited.append((is_true, action))

    def look_at_awaited(self) -> bool:
        """Let happen what `when` was given and is due; False if nothing is."""
        ready = [action for is_true, action in self._awaited if is_true()]
        self._awaited = [entry for entry in self._awaited if entry[1] not in ready]
        for action in ready:
            action()
        return bool(ready)

    def settle(self) -> None:
        """Run every NIC until none has anything due now, moving effects as they come."""
        if self._small is not None:
            self._small.settle()
            return
        now_ns = self.clock.now_ns()
        busy = True
        while busy:
            busy = False
            for name, nic in self.nics.items():
                nic.now_ns = now_ns
                busy |= nic.settle() > 0
                for effect in nic.take_effects():
                    busy = True
                    self.perform(name, nic, effect)
            busy |= self.look_at_awaited()

    def perform(self, name: str, nic: SmartNic, effect: SendFrames | PerformIo) -> None:
        """Carry out what a NIC wants done outside it."""
        now_ns = self.clock.now_ns()
        if isinstance(effect, PerformIo):
            disk = self.disks[name]
            disk.submit(effect.io)
            for tag, status in disk.take_completions():
                at_ns = max(now_ns, effect.io.target_ns)
                about = About(("io", name, tag), f"{name}: block I/O {tag} ends")
                self.schedule(at_ns, self._dma_teller(nic, tag, status), about)
            return
        sender, receiver = self._ports[name, effect.roce]
        sender.send(list(effect.frames))
        for frame in receiver.receive(1 << 16):
            to = ".".join(map(str, frame[_DESTINATION_IP]))
            arrives_ns = self._arrival_ns(nic, to, len(frame), effect.roce)
            about = About(("link", name, to), f"a frame of {len(frame)} bytes from {name} reaches {to}")
            self.schedule(arrives_ns, self._deliverer(frame, effect.roce), about)

    def _arrival_ns(self, nic: SmartNic, to: str, length_bytes: int, roce: bool) -> int:
        """When a frame that is sent now has arrived, and, if it is a packet, passed the pipeline there."""
        arrives_ns, receiver = self.clock.now_ns(), self._by_ip.get(to)
        outside = len(self.nics) * STAGES_A_NIC
        place = outside if receiver is None else self._places[receiver.config.name]
        if nic.config.timings.paces_transfers:
            arrives_ns = int(self._send_frame(nic.arena.pacing, place, length_bytes, arrives_ns))
        if receiver is not None and not roce:
            arrives_ns += round(receiver.config.timings.pipeline_ns)
        return arrives_ns

    def _dma_teller(self, nic: SmartNic, tag: int, status: NvmeStatus) -> Callable[[], None]:
        return lambda: nic.on_dma_complete(tag, self.clock.now_ns(), status)

    def _deliverer(self, frame: bytes, roce: bool) -> Callable[[], None]:
        return lambda: self._deliver(frame, roce)

    def _deliver(self, frame: bytes, roce: bool) -> None:
        destination = frame[_DESTINATION_IP]
        nic = self._by_ip.get(".".join(map(str, destination)))
        if nic is not None:
            nic.on_frames([frame], self.clock.now_ns(), roce=roce)
        elif destination in self.clients:
            self.clients[destination].append(frame)

    def soonest_deadline_ns(self) -> int | None:
        """When a NIC wants to look at its timers, or a transfer lands."""
        deadlines = [nic.next_deadline_ns() for nic in self.nics.values()]
        deadlines += [nic.flights.next_ns for nic in self.nics.values()]
        return min((when for when in deadlines if when is not None), default=None)

    def next_ns(self) -> int | None:
        """When something happens next; None if nothing is left to happen."""
        soonest = self.soonest_deadline_ns()
        if self.events and (soonest is None or self.events[0][0] < soonest):
            return self.events[0][0]
        return soonest

    def step(self) -> bool:
        """Carry out what is due now, or else move time to the next event; False if nothing is left."""
        self.settle()
        soonest = self.soonest_deadline_ns()
        if self.events and (soonest is None or self.events[0][0] <= soonest):
            when_ns, _, action, _ = heapq.heappop(self.events)
            self.clock.advance_to(max(when_ns, self.clock.now_ns()))
            action()
        elif soonest is not None:
            self.clock.advance_to(max(soonest, self.clock.now_ns()))
            for nic in self.nics.values():
                nic.on_timer(self.clock.now_ns())
        else:
            return False
        self.settle()
        return True

    def _run_ahead(self, end_ns: int) -> None:
        """Let the NIC whose transfer lands next go on by itself until somebody else has something to do, or
        until `end_ns`.
        """
        landing = [
            (when, name) for name, nic in self.nics.items() if (when := nic.flights.next_ns) is not None
        ]
        if not landing or self._awaited or self.host_log is not None:  # a log is drained between landings
            return
        _, name = min(landing)
        if any(_is_watching(nic) for other, nic in self.nics.items() if other != name):
            return
        others = [nic.next_deadline_ns() for nic in self.nics.values()]
        others += [when for when, other in landing if other != name]
        others += [self.events[0][0]] if self.events else []
        until_ns = min([when - 1 for when in others if when is not None] + [end_ns])
        nic = self.nics[name]
        nic.now_ns = self.clock.now_ns()
        nic.run_ahead(until_ns)
        self.clock.advance_to(max(self.clock.now_ns(), nic.now_ns))

    def run_until_idle(self, limit_ns: int = 60_000_000_000) -> None:
        """Step until nothing is left to happen. Raises: NicemuError if that takes more than `limit_ns`."""
        end_ns = self.clock.now_ns() + limit_ns
        if self._small is not None:
            if not self._small.run_until_idle(end_ns):
                raise NicemuError(f"still busy after {limit_ns} ns of virtual time")
            return
        self.settle()
        self._run_ahead(end_ns)
        while self.step():
            self._run_ahead(end_ns)
            if self.clock.now_ns() > end_ns:
                raise NicemuError(f"still busy after {limit_ns} ns of virtual time")

    def run_until(self, is_true: Callable[[], bool], limit_ns: int) -> bool:
        """Step until `is_true()`; False if that does not happen within `limit_ns`, which have then passed."""
        end_ns = self.clock.now_ns() + limit_ns
        if self._small is not None:
            return self._small.run_until(is_true, end_ns)
        self.settle()
        while not is_true():
            when_ns = self.next_ns()
            if when_ns is None or when_ns > end_ns:
                self.clock.advance_to(end_ns)
                return is_true()
            self.step()
        return True

    # Hosts and clients

    def open_nic(self, name: str) -> SimulatedConnection:
        """Return a host's connection to a NIC."""
        if name not in self.nics:
            raise UsageError(f"there is no NIC {name!r}; there are {', '.join(self.nics)}")
        return SimulatedConnection(self, name)

    def send(self, nic: str, frame: bytes) -> None:
        """Let a frame from outside arrive at a NIC now, as request-protocol traffic."""
        arrives_ns = self.clock.now_ns() + round(self.nics[nic].config.timings.pipeline_ns)
        self.schedule(arrives_ns, lambda: self.nics[nic].on_frames([frame], self.clock.now_ns()))

    def add_client(self, ip: bytes) -> deque[bytes]:
        """Return the queue that frames to `ip` (4 bytes) will stand in."""
        return self.clients.setdefault(ip, deque())

    def stream(self) -> SteppedStream:
        """Return a stream whose kernels run at once and whose stores happen in virtual time."""
        self._streams += 1
        return SteppedStream(self, number=self._streams)


def _is_watching(nic: SmartNic) -> bool:
    """Whether a NIC may act on what a peer does without being told: it follows a word of its memory, or has
    work that is due and waits for the peer.
    """
    return bool(nic.arena.followed["address"].any() or nic.unit.state.unit["ready_count"][0])


class SimulatedConnection:
    """Implements `nicemu.abi.Connection`: waiting advances virtual time."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self._simulation = simulation
        self._nic = simulation.nics[name]
        self.nic_name = name
        self._owner: Owner = self._nic.open_owner()
        self.bar: SharedMemory = self._owner.bar
        self._mapped = self.bar.view[:]  # the BAR stays mapped while the host has it, as a live one does
        self.log = simulation.host_log

    def request(self, operation: str, **operands: Any) -> dict[str, Any]:  # noqa: ANN401
        """Ask the NIC's control side."""
        if operation == "connect":
            return self._connect(**operands)
        if operation == "disconnect":
            return self._disconnect(**operands)
        reply = self._simulation.admins[self.nic_name].handle(self._owner, operation, operands)
        self._simulation.settle()
        return reply

    def _connect(self, peer: str, private_data: dict[str, int]) -> dict[str, Any]:
        flags = FLAG_IMPLICIT_RECEIVES | FLAG_IMMEDIATE_COUNTS
        now_ns = self._simulation.clock.now_ns()
        qp, offer = self._nic.connections.begin(self._owner, peer, flags, private_data)
        answer = self._simulation.nics[peer].connections.accept(offer, now_ns)
        self._nic.queue_pairs.connect(qp, answer)
        return {"qp_num": qp, "number": answer["number"], "private_data": answer["private_data"]}

    def _disconnect(self, qp_num: int, force: bool) -> dict[str, Any]:
        peer, number = self._nic.connections.disconnect(self._owner, qp_num, force)
        if number is not None:
            self._simulation.nics[peer].connections.lost(number, self._simulation.clock.now_ns())
        return {}

    def share(self, length_bytes: int, kind: str) -> tuple[SharedMemory, int]:
        """Allocate memory that the NIC maps too."""
        backing = Backing.memfd("nicemu-host", length_bytes)
        return backing, self._simulation.admins[self.nic_name].share(self._owner, backing, kind)

    def notify(self) -> None:
        """Let the NICs see what changed."""
        self._simulation.settle()

    def wait(
        self, is_true: Callable[[], bool], timeout_s: float, wake: tuple[int, int] | None = None
    ) -> bool:
        """Advance virtual time until `is_true()`."""
        return self._simulation.run_until(is_true, round(timeout_s * 1e9))

    def insert(self, table: str, keys: dict[str, int], action: str, parameters: dict[str, int]) -> None:
        """Insert or replace an entry."""
        entry = TableEntry(tuple(Exact(value) for value in keys.values()), action, tuple(parameters.values()))
        engine: Engine = self._nic.pipeline
        try:
            engine.insert(table, entry)
        except ControlError as error:
            if error.code is not P4RuntimeCode.ALREADY_EXISTS:
                raise
            engine.modify(table, entry)

    def delete(self, table: str, keys: dict[str, int]) -> None:
        """Delete an entry if it is there."""
        try:
            self._nic.pipeline.delete(table, tuple(Exact(value) for value in keys.values()))
        except ControlError as error:
            if error.code is not P4RuntimeCode.NOT_FOUND:
                raise

    def close(self) -> None:
        """Close the owner; peers of its queue pairs hear of it."""
        if self._simulation.chooser is not None:
            self._simulation.settle()  # a host that went on early may have left something to do
        pairs = self._nic.queue_pairs
        remote = {qp: (pairs.numbers[qp], pairs.remote_numbers.get(qp)) for qp in self._owner.queue_pairs}
        now_ns = self._simulation.clock.now_ns()
        for qp in self._nic.close_owner(self._owner, now_ns):
            peer, number = remote[qp]
            if number is not None:
                self._simulation.nics[peer].connections.lost(number, now_ns)
