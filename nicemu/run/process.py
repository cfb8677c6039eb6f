# SPDX-License-Identifier: Apache-2.0
"""One NIC as an operating-system process: a datapath thread without the GIL, and a control thread with it."""

from __future__ import annotations

import json
import os
import queue
import selectors
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from nicemu.abi import EventLog, Limits, file_writer
from nicemu.clock import PATIENCE, WallClock
from nicemu.control import P4RuntimeServer
from nicemu.errors import ControlError, NicemuError, P4RuntimeCode
from nicemu.fabric import QemuFabric, QemuNamespace, VerbsTransport, load_ports
from nicemu.firmware import Registry, load_firmware
from nicemu.hot import JIT
from nicemu.model import read_profile, timings_of
from nicemu.nic import (
    NamespaceConfig,
    NicConfig,
    PerformIo,
    SendFrames,
    SmartNic,
    run_datapath,
)
from nicemu.pipeline import Engine, Listener, Program
from nicemu.rdma import load_engine
from nicemu.signals import woken_by_signals
from nicemu.timing import Timings
from nicemu.wire import FrameBatch

from .block_io import FileBlockIo
from .control_socket import ControlSocket
from .fabrics import VERBS
from .kept_programs import program_in
from .late_engine import LateEngine
from .links import PeerLinks
from .ports import LivePorts
from .program_file import program_of
from .trace import TraceWriter, write_part
from .watchdog import Watchdog

Result = TypeVar("Result")
CALL_TIMEOUT_S = 30.0
INTERPRETED_NAP_US = round(5_000 * PATIENCE)
"""An interpreted datapath holds the GIL while it polls: it naps so long that the control thread can work."""


class OnControlThread:
    """A NIC's pipeline as P4Runtime's threads may use it: work is handed to the control thread and waited
    for.
    """

    def __init__(
        self, device: SmartNic, call: Callable[[Callable[[], Any]], Any], now_ns: Callable[[], int]
    ) -> None:
        self._device = device
        self._call = call
        self._now_ns = now_ns

    @property
    def program(self) -> Program | None:
        """The program that runs."""
        return self._device.pipeline.program

    def run(self, work: Callable[[Engine], Result]) -> Result:
        """Return what `work` makes of the engine, between two frames."""

        def on_control_thread() -> Result:
            self._device.pipeline.tick(self._now_ns())
            return work(self._device.pipeline)

        result: Result = self._call(on_control_thread)
        return result

    def staged(self, program: Program) -> Engine:
        """Return an engine that runs a program, made by the thread that asks."""
        return self._device.pipeline.staged(program)

    def listen(self, listener: Listener | None) -> None:
        """Tell `listener`, on the control thread, what goes to the controller."""
        self._device.pipeline.listen(listener)

    def inject(self, frame: bytes) -> None:
        """Take a frame from the controller, and do with it what the program says."""
        self._call(lambda: self._device.packets.inject(frame))


class NicProcess:
    """Runs a `SmartNic` live. `settings` is what `nicemu.run.supervisor` wrote for this NIC."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._clock = WallClock(PATIENCE)
        self._folder = Path(settings["folder"])
        name = settings["nic"]["name"]
        spaces = tuple(NamespaceConfig(**entry) for entry in settings["namespaces"])
        limits = Limits.named(settings["nic"]["limits"])
        profile = settings.get("profile")
        timings = Timings() if profile is None else timings_of(read_profile(profile))
        told = {**settings["nic"], "limits": limits, "timings": timings}
        self.config = NicConfig(**told, namespaces=spaces)
        self._watchdog = Watchdog()
        self._pcie = _open_pcie(self.config) if settings["controller"] == "qemu" else None
        if self.config.transport == "port":
            load_engine()  # before the first frame comes, which would wait for it
            load_ports()
        self._verbs = _open_verbs(self.config, settings["fabric"])
        self.device = SmartNic(
            self.config,
            self._clock.now_ns(),
            live=True,
            guard=self._watchdog.step,
            controller=self._pcie.nvme if self._pcie is not None else None,
            transport=self._verbs,
            pipeline=(lambda drops: LateEngine(self._hand, drops=drops)) if JIT else None,
        )
        self._disks = {
            entry.nsid: FileBlockIo(
                Path(entry.path), entry.block_bytes, entry.block_count, self.device.memory.space
            )
            for entry in (spaces if self._pcie is None else ())
        }
        self._selector = selectors.DefaultSelector()
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopping = False
        self._closed = False
        self._ports = LivePorts(self.config, settings)
        on_port = self._ports.add_shared if settings["fabric"] == "shm" else None
        self._links = PeerLinks(
            self.device,
            self._watch,
            self._unwatch,
            self._clock.now_ns,
            on_port,
            self._ports.add_peer,
            settings["places"],
            self._folder,
            bytes.fromhex(settings["key"]) if settings["calls_over_tcp"] else None,
        )
        self._unsent: deque[bytes] = deque()
        self._going, self._coming = FrameBatch(), FrameBatch()
        self._gone = 0
        self._has_more = False
        self._trace = TraceWriter(name) if settings.get("trace") else None
        if self._trace is not None:
            self.device.observe = self._trace.observer(self._clock.now_ns)
        if settings.get("check_races"):
            events = self._folder / f"{name}.events"
            events.unlink(missing_ok=True)  # of the process before
            self.device.notes.begin(EventLog("nic", name, file_writer(events)))
        self._control = ControlSocket(
            self.device,
            settings,
            self._links,
            self._watch,
            self._unwatch,
            self._clock.now_ns,
            self._load,
            self._ports,
            self.stop,
        )
        target = OnControlThread(self.device, self._call, self._clock.now_ns)
        self._p4runtime = P4RuntimeServer(
            {1: target},
            f"unix:{self._folder / f'{name}.p4rt'}",
            also=settings.get("p4runtime"),
            reader=program_of,
        )

    # Threads

    def _call(self, function: Callable[[], Result]) -> Result:
        """Run `function` on the control thread and return its result (or raise what it raised)."""
        future: Future[Result] = Future()
        self._calls.put((function, future))
        if self._closed:
            self._refuse_calls()
        else:
            os.eventfd_write(self._wake_fd, 1)
        return future.result(CALL_TIMEOUT_S)

    def _hand(self, work: Callable[[], None]) -> None:
        """Have `work` done on the control thread, sooner or later, unless the NIC stops."""
        self._calls.put((work, Future()))
        if not self._closed:
            os.eventfd_write(self._wake_fd, 1)

    def _refuse_calls(self) -> None:
        """Answer calls that nobody will run any more."""
        with suppress(queue.Empty):
            while True:
                _, future = self._calls.get_nowait()
                future.set_exception(ControlError(P4RuntimeCode.UNAVAILABLE, "the NIC is stopping"))

    def _run_calls(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake_fd)
        while not self._calls.empty():
            function, future = self._calls.get()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

    def _watch(self, source: Any, action: Callable[[], object]) -> None:  # noqa: ANN401
        self._selector.register(source, selectors.EVENT_READ, action)

    def _unwatch(self, source: Any) -> None:  # noqa: ANN401
        self._selector.unregister(source)

    def _load(self, path: Path) -> Registry:
        return load_firmware(path, self._watchdog.load)

    def stop(self) -> None:
        """Let `run` return."""
        self._stopping = True
        os.eventfd_write(self._wake_fd, 1)

    def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until stopped. `on_ready` is called when the NIC has its programs and answers."""
        signal.signal(signal.SIGTERM, lambda *_: self.stop())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with woken_by_signals() as signalled:
            self._serve(on_ready, signalled)

    def _serve(self, on_ready: Callable[[], None], signalled: int) -> None:
        spin_ns, nap_us = self.config.spin_us * 1000, max(1, self.config.nap_us)
        if not JIT:
            nap_us = max(nap_us, INTERPRETED_NAP_US)
        datapath = threading.Thread(
            target=run_datapath, args=(self.device.arena, spin_ns, nap_us), name="datapath", daemon=True
        )
        datapath.start()
        try:
            self._watch(int(self.device.arena.link[0].eventfd), lambda: None)
            self._watch(self._wake_fd, self._run_calls)
            self._watch(signalled, lambda: os.read(signalled, 4096))
            self._control.listen()
            self._links.listen()
            for disk in self._disks.values():
                self._watch(disk.fileno(), lambda disk=disk: self._take_io(disk))  # type: ignore[misc]
            for descriptor in self._verbs.descriptors if self._verbs is not None else ():
                self._watch(descriptor, lambda: None)
            for source, roce in self._ports.sources():
                self._watch(source, self._take_batches if roce else self._take_frames)
            includes = [Path(place) for place in self._settings["include"]]
            program = program_in(Path(self._settings["p4"]), includes, self._settings["define"])
            self.device.pipeline.load(program)
            self.device.load_firmware(self._load(Path(self._settings["firmware"])), self._clock.now_ns())
            self._carry_out()
            self._p4runtime.start()
            is_ready = False
            while not self._stopping:
                if not is_ready and not self.device.scheduler.starting:
                    if self.device.start_error:
                        raise NicemuError(f"{self.config.name}: {self.device.start_error}")
                    is_ready = True
                    on_ready()
                self._turn()
        finally:
            self.device.rings.stop()
            datapath.join(timeout=5.0)
            self.close()

    def _turn(self) -> None:
        """One turn of the control thread: wait for something, take it in, run, carry the effects out."""
        timeout_s: float | None = None
        timed = (self.device, self._links, self._control)
        deadlines_ns = [ns for ns in (one.next_deadline_ns() for one in timed) if ns is not None]
        if deadlines_ns:
            timeout_s = max(0.0, (min(deadlines_ns) - self._clock.now_ns()) / 1e9 * PATIENCE)
        if self._ports.needs_polling:
            timeout_s = min(timeout_s or 0.0002, 0.0002) if timeout_s is None else min(timeout_s, 0.0002)
        if self._unsent or self._gone < self._going.count:
            timeout_s = 0.0002
        if self._has_more:
            timeout_s = 0
        is_idle = not self.device.scheduler.has_ready and self.device.rings.prepare_sleep()
        if not is_idle or (self._verbs is not None and not self._verbs.prepare_sleep()):
            timeout_s = 0
        ready = self._selector.select(timeout_s)
        self.device.rings.woke()
        for key, _ in ready:
            self._survive(key.data)
        if self._ports.needs_polling or self._has_more:
            self._survive(self._take_batches)
        self._survive(lambda: self.device.on_timer(self._clock.now_ns()))
        self._survive(lambda: self._links.on_timer(self._clock.now_ns()))
        self._survive(lambda: self._control.on_timer(self._clock.now_ns()))
        self._survive(self._carry_out)

    def _survive(self, action: Callable[[], object]) -> None:
        """Do one thing; should it fail, say so in the log, count it, and go on: a NIC serves everybody."""
        try:
            action()
        except Exception as error:
            self.device.drops[f"control.{type(error).__name__}"] += 1
            traceback.print_exc()

    def _carry_out(self) -> None:
        while True:
            effects = self.device.take_effects()
            for effect in effects:
                if isinstance(effect, PerformIo):
                    self._disks[effect.io.nsid].submit(effect.io)
                elif isinstance(effect, SendFrames):
                    self._unsent.extend(effect.frames)
            if self._unsent:
                for _ in range(self._ports.send(list(self._unsent))):
                    self._unsent.popleft()
            if not self._send_batches() and not effects:
                return

    def _send_batches(self) -> int:
        """Send RDMA frames until there are none, or the port takes no more; return how many it took."""
        going, total = self._going, 0
        while self._gone < going.count or self._next_batch():
            taken = self._ports.send_batch(going, self._gone)
            self._gone += taken
            total += taken
            if self._gone < going.count:
                break
        return total

    def _next_batch(self) -> int:
        self._gone = 0
        return self.device.frames_into(self._going)

    def _take_frames(self) -> None:
        """Take frames of the request protocol."""
        for _ in range(16):
            frames = self._ports.receive()
            if not frames:
                return
            self.device.on_frames(frames, self._clock.now_ns())
            self._carry_out()

    def _take_batches(self) -> None:
        """Take RDMA frames, and come back at once should there be more than is good for the others."""
        self._has_more = False
        for _ in range(16):
            if self._ports.receive_batch(self._coming) == 0:
                return
            self.device.on_batch(self._coming, self._clock.now_ns())
            self._carry_out()
        self._has_more = True

    def _take_io(self, disk: FileBlockIo) -> None:
        for tag, status in disk.take_completions():
            self.device.on_dma_complete(tag, self._clock.now_ns(), status)

    def close(self) -> None:
        """Give everything back."""
        self._closed = True
        self._refuse_calls()
        self._p4runtime.stop()
        for disk in self._disks.values():
            disk.close()
        if self._pcie is not None:
            self._pcie.close()
        if self._verbs is not None:
            self._verbs.close()
        self._ports.close()
        self._links.close()
        self._control.close()
        if self._trace is not None:
            events = self._trace.finish(self.device.statistics(), self._clock.now_ns())
            write_part(Path(self._settings["trace"]), self.config.name, events)


def _open_pcie(config: NicConfig) -> QemuFabric | None:
    """Start a PCIe fabric that holds a NIC's memory and namespaces; None if it has no namespace.

    Raises: ResourceError if QEMU is missing or does not start.
    """
    if not config.namespaces:
        return None
    spaces = [
        QemuNamespace(entry.nsid, entry.block_count, entry.block_bytes, Path(entry.path))
        for entry in config.namespaces
    ]
    return QemuFabric(spaces, {"nic": config.memory_bytes}, serial=f"QEMU{config.number:04d}")


def _open_verbs(config: NicConfig, fabric: str) -> VerbsTransport | None:
    """Open the RDMA device that carries a NIC's work, if one does. Raises: ResourceError."""
    if config.transport != "verbs":
        return None
    return VerbsTransport(fabric.removeprefix(VERBS), config.ip, config.path_mtu)


def run_nic_process(path: Path) -> None:
    """Be one NIC: read its settings, serve until stopped, and say on the way whether that worked.

    The settings name a status file; it is written as JSON when the NIC serves, or with the error when it
    cannot. Does not return: the process ends with the NIC, which by then has given everything back.
    """
    settings = json.loads(path.read_text(encoding="utf-8"))
    status = Path(settings["status"])

    def tell(message: dict[str, Any]) -> None:
        scratch = status.with_suffix(".new")
        scratch.write_text(json.dumps(message), encoding="utf-8")
        scratch.rename(status)

    try:
        process = NicProcess(settings)
        process.run(lambda: tell({"ready": True, "pid": os.getpid()}))
    except NicemuError as error:
        tell({"ready": False, "error": str(error)})
        raise SystemExit(1) from error
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # to take the interpreter and its compiled code apart first would take half a second
