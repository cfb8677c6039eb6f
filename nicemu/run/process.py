# SPDX-License-Identifier: Apache-2.0
"""One NIC as an operating-system process: a datapath thread without the GIL, and a control thread with it."""

from __future__ import annotations

import json
import os
import queue
import selectors
import signal
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from nicemu.clock import WallClock
from nicemu.control import P4RuntimeServer
from nicemu.errors import NicemuError, ProtocolError, UsageError
from nicemu.firmware import Signal, load_firmware
from nicemu.nic import (
    Admin,
    NamespaceConfig,
    NicConfig,
    Owner,
    PerformIo,
    SendFrames,
    SmartNic,
    run_datapath,
)
from nicemu.p4 import compile_program
from nicemu.pcie import Backing
from nicemu.pipeline import Engine
from nicemu.rdma import FLAG_IMMEDIATE_COUNTS, FLAG_IMPLICIT_RECEIVES

from .block_io import FileBlockIo
from .channel import UnixChannel
from .links import PeerLinks
from .messages import receive, send
from .ports import LivePorts
from .trace import TraceWriter
from .watchdog import Watchdog

Result = TypeVar("Result")
CALL_TIMEOUT_S = 30.0


class OnControlThread:
    """A pipeline as P4Runtime's threads may use it: each call is handed to the control thread and waited
    for.
    """

    def __init__(self, engine: Engine, call: Callable[[Callable[[], Any]], Any]) -> None:
        self._engine = engine
        self._call = call

    @property
    def program(self) -> Any:  # noqa: ANN401
        """The program that runs."""
        return self._engine.program

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._engine, name)
        return lambda *operands, **named: self._call(lambda: method(*operands, **named))


class NicProcess:
    """Runs a `SmartNic` live. `settings` is what `nicemu.run.supervisor` wrote for this NIC."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._clock = WallClock()
        self._folder = Path(settings["folder"])
        name = settings["nic"]["name"]
        spaces = tuple(NamespaceConfig(**entry) for entry in settings["namespaces"])
        self.config = NicConfig(**settings["nic"], namespaces=spaces)
        self._watchdog = Watchdog()
        self.device = SmartNic(self.config, self._clock.now_ns(), live=True, guard=self._watchdog.step)
        self._admin = Admin(self.device)
        self._disks = {
            entry.nsid: FileBlockIo(
                Path(entry.path), entry.block_bytes, entry.block_count, self.device.memory.space
            )
            for entry in spaces
        }
        self._selector = selectors.DefaultSelector()
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopping = False
        self._request: object = None
        self._owners: dict[socket.socket, tuple[Owner, int]] = {}
        self._awaited: dict[tuple[socket.socket, int, int], int] = {}
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
            bytes.fromhex(settings["key"]) if settings["fabric"] == "udp" else None,
        )
        self._unsent: dict[bool, deque[bytes]] = {False: deque(), True: deque()}
        self._trace = TraceWriter(Path(settings["trace"]), name) if settings.get("trace") else None
        if self._trace is not None:
            self.device.observe = self._trace.observer(self._clock.now_ns)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = self._folder / f"{name}.sock"
        path.unlink(missing_ok=True)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(64)
        target = OnControlThread(self.device.pipeline, self._call)
        self._p4runtime = P4RuntimeServer({1: target}, f"unix:{self._folder / f'{name}.p4rt'}")

    # Threads

    def _call(self, function: Callable[[], Result]) -> Result:
        """Run `function` on the control thread and return its result (or raise what it raised)."""
        future: Future[Result] = Future()
        self._calls.put((function, future))
        os.eventfd_write(self._wake_fd, 1)
        return future.result(CALL_TIMEOUT_S)

    def _run_calls(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake_fd)
        while not self._calls.empty():
            function, future = self._calls.get()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

    def _watch(self, source: Any, action: Callable[[], None]) -> None:  # noqa: ANN401
        self._selector.register(source, selectors.EVENT_READ, action)

    def _unwatch(self, source: Any) -> None:  # noqa: ANN401
        self._selector.unregister(source)

    def stop(self) -> None:
        """Let `run` return."""
        self._stopping = True
        os.eventfd_write(self._wake_fd, 1)

    def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until stopped. `on_ready` is called when the NIC has its programs and answers."""
        signal.signal(signal.SIGTERM, lambda *_: self.stop())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        spin_ns, nap_us = self.config.spin_us * 1000, max(1, self.config.nap_us)
        datapath = threading.Thread(
            target=run_datapath, args=(self.device.arena, spin_ns, nap_us), name="datapath", daemon=True
        )
        datapath.start()
        try:
            self._watch(int(self.device.arena.link[0].eventfd), lambda: None)
            self._watch(self._wake_fd, self._run_calls)
            self._watch(self._listener, self._accept)
            self._links.listen()
            if self._settings.get("lifeline") is not None:
                self._watch(int(self._settings["lifeline"]), self.stop)
            for disk in self._disks.values():
                self._watch(disk.fileno(), lambda disk=disk: self._take_io(disk))  # type: ignore[misc]
            for source, roce in self._ports.sources():
                self._watch(source, lambda roce=roce: self._take_frames(roce))  # type: ignore[misc]
            self.device.pipeline.load(compile_program(Path(self._settings["p4"])).program)
            registry = load_firmware(Path(self._settings["firmware"]), self._watchdog.load)
            self.device.load_firmware(registry, self._clock.now_ns())
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
        deadlines_ns = [
            deadline_ns
            for deadline_ns in (self.device.next_deadline_ns(), self._links.next_deadline_ns())
            if deadline_ns is not None
        ]
        if deadlines_ns:
            timeout_s = max(0.0, (min(deadlines_ns) - self._clock.now_ns()) / 1e9)
        if self._ports.needs_polling:
            timeout_s = min(timeout_s or 0.0002, 0.0002) if timeout_s is None else min(timeout_s, 0.0002)
        if any(self._unsent.values()):
            timeout_s = 0.0002
        if self.device.scheduler.has_ready or not self.device.rings.prepare_sleep():
            timeout_s = 0
        ready = self._selector.select(timeout_s)
        self.device.rings.woke()
        for key, _ in ready:
            self._survive(key.data)
        if self._ports.needs_polling:
            self._survive(lambda: self._take_frames(True))
        self._survive(lambda: self.device.on_timer(self._clock.now_ns()))
        self._survive(lambda: self._links.on_timer(self._clock.now_ns()))
        self._survive(self._carry_out)

    def _survive(self, action: Callable[[], None]) -> None:
        """Do one thing; should it fail, say so in the log, count it, and go on: a NIC serves everybody."""
        try:
            action()
        except Exception as error:
            self.device.drops[f"control.{type(error).__name__}"] += 1
            traceback.print_exc()

    def _carry_out(self) -> None:
        while effects := self.device.take_effects():
            for effect in effects:
                if isinstance(effect, PerformIo):
                    self._disks[effect.io.nsid].submit(effect.io)
                elif isinstance(effect, SendFrames):
                    self._unsent[effect.roce].extend(effect.frames)
        for roce, waiting in self._unsent.items():
            if waiting:
                frames = list(waiting)
                sent = self._ports.send(frames, roce)
                for _ in range(sent):
                    waiting.popleft()

    def _take_frames(self, roce: bool) -> None:
        for _ in range(16):
            frames = self._ports.receive(roce)
            if not frames:
                return
            self.device.on_frames(frames, self._clock.now_ns(), roce=roce)
            self._carry_out()

    def _take_io(self, disk: FileBlockIo) -> None:
        for tag, status in disk.take_completions():
            self.device.on_dma_complete(tag, self._clock.now_ns(), status)

    # Processes that connect

    def _accept(self) -> None:
        link, _ = self._listener.accept()
        link.setblocking(False)  # a process that does not read its answers must not hold up the NIC
        self._watch(link, lambda: self._hear(link))

    def _hear(self, link: socket.socket) -> None:
        try:
            received = receive(link)
        except (OSError, NicemuError):
            received = None
        if received is None:
            self._hang_up(link)
            return
        message, fds = received
        self._request = message.pop("request", None)
        try:
            self._obey(link, message, fds)
        except Exception as error:
            for fd in fds:
                with suppress(OSError):
                    os.close(fd)
            known = isinstance(error, NicemuError)
            text = str(error) if known else f"a message that makes no sense: {type(error).__name__}: {error}"
            self._reply(link, {"error": text, "kind": type(error).__name__ if known else "UsageError"})

    def _reply(
        self,
        link: socket.socket,
        message: dict[str, Any],
        fds: tuple[int, ...] = (),
        request: object = None,
    ) -> None:
        """Answer; an answer carries the number of its request, so that none is taken for another one's."""
        try:
            send(link, {**message, "request": self._request if request is None else request}, fds)
        except OSError:
            self._hang_up(link)

    def _obey(self, link: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
        operation = str(message.pop("op"))
        if operation == "hello":
            self._meet(link, message, fds)
        elif operation == "open":
            self._open(link)
        elif operation == "share":
            owner, _ = self._owner_of(link)
            backing = Backing.from_fd(fds.pop(), int(message["length_bytes"]))
            self._reply(link, {"address": self._admin.share(owner, backing, str(message["kind"]))})
        elif operation == "wake":
            self._wake_at(link, int(message["counter"]), int(message["threshold"]))
        elif operation == "connect":
            self._connect(link, str(message["peer"]), message["private_data"])
        elif operation == "describe":
            described = self._admin.describe()
            described["statistics"].update(self._ports.statistics())
            described["process"] = {"pid": os.getpid(), "cpu_s": time.process_time()}
            self._reply(link, described)
        elif operation == "flash":
            registry = load_firmware(Path(message["path"]), self._watchdog.load)
            for peer, qp in self.device.load_firmware(registry, self._clock.now_ns()):
                self._links.disconnect(peer, qp)
            if self.device.start_error:
                raise NicemuError(
                    f"@on_start failed, and nothing handles events now: {self.device.start_error}"
                )
            self._reply(link, {"handlers": registry.names()})
        elif operation == "detach":
            if self._settings.get("lifeline") is not None:
                self._unwatch(int(self._settings["lifeline"]))
                os.close(int(self._settings.pop("lifeline")))
            self._reply(link, {})
        elif operation == "stop":
            self.stop()
            self._reply(link, {"stopped": self.config.name})
        else:
            owner, _ = self._owner_of(link)
            self._reply(link, self._admin.handle(owner, operation, message))

    def _meet(self, link: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
        if self._settings["fabric"] == "udp":
            raise UsageError("peers of a NIC whose RDMA goes over UDP call over TCP")
        self._unwatch(link)
        try:
            self._links.accept(UnixChannel(link), message, fds)
        except Exception as error:
            self.device.drops["peer.stranger"] += 1
            with suppress(OSError):
                send(link, {"op": "refused", "error": str(error)})
            link.close()
            for fd in fds:
                with suppress(OSError):
                    os.close(fd)

    def _open(self, link: socket.socket) -> None:
        owner = self.device.open_owner()
        eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        owner.interrupt = lambda: os.eventfd_write(eventfd, 1)
        self._owners[link] = (owner, eventfd)
        assert owner.bar.fd is not None
        lengths = {"bar_bytes": owner.bar.length_bytes, "owner": owner.number}
        address = f"unix:{self._folder / f'{self.config.name}.p4rt'}"
        self._reply(link, {**lengths, "nic": self.config.name, "p4runtime": address}, (owner.bar.fd, eventfd))

    def _owner_of(self, link: socket.socket) -> tuple[Owner, int]:
        if link not in self._owners:
            raise UsageError('say {"op": "open"} first')
        return self._owners[link]

    def _wake_at(self, link: socket.socket, counter: int, threshold: int) -> None:
        owner, eventfd = self._owner_of(link)
        owner.check_counter(counter)
        awaited = (link, counter, threshold)
        if not self.device.card.is_armed(self._awaited.get(awaited)):  # waiting again takes no second slot

            def wake() -> None:
                self._awaited.pop(awaited, None)
                if link in self._owners:
                    os.eventfd_write(eventfd, 1)

            happened = Signal()
            happened.when_done(wake)
            card = self.device.card
            self._awaited[awaited] = card.arm_signal(counter, threshold, happened, owner.number)
        self._reply(link, {})

    def _connect(self, link: socket.socket, peer: str, private_data: dict[str, int]) -> None:
        owner, _ = self._owner_of(link)
        places: dict[str, str] = self._settings["peers"]
        if peer not in places:
            raise UsageError(f"{self.config.name} has no peer {peer!r}; it has {', '.join(places) or 'none'}")
        request = self._request
        flags = FLAG_IMPLICIT_RECEIVES | FLAG_IMMEDIATE_COUNTS

        def is_open() -> bool:
            return self._owners.get(link, (None, 0))[0] is owner

        def refuse(text: str) -> None:
            self._reply(link, {"error": text, "kind": "NicemuError"}, request=request)

        def on_reached(error: str | None) -> None:
            if not is_open():
                return
            if error is not None:
                refuse(error)
                return
            try:
                qp, offer = self.device.begin_connect(owner, peer, flags, private_data)
            except NicemuError as refusal:
                refuse(str(refusal))
                return
            self._links.offer(peer, offer, lambda message: on_answer(qp, message))

        def on_answer(qp: int, message: dict[str, Any]) -> None:
            answer = message.get("answer")
            if not is_open():
                return
            try:
                if answer is None:
                    raise ProtocolError(str(message.get("error")))
                self.device.queue_pairs.connect(qp, {**answer, "ip": places[peer]})
                reply = {"qp_num": qp, "number": answer["number"], "private_data": answer["private_data"]}
            except (NicemuError, KeyError, TypeError, ValueError) as error:
                self.device.end_connect(owner, qp)
                told = str(error) if isinstance(error, NicemuError) else f"an answer without sense: {error!r}"
                refuse(f"{peer}: {told}")
                return
            self._reply(link, reply, request=request)

        self._links.reach(peer, on_reached)

    def _hang_up(self, link: socket.socket) -> None:
        try:
            self._unwatch(link)
        except KeyError:
            return
        owner, eventfd = self._owners.pop(link, (None, -1))
        self._awaited = {key: cookie for key, cookie in self._awaited.items() if key[0] is not link}
        link.close()
        if owner is None:
            return
        pairs = self.device.queue_pairs
        remote = {qp: (pairs.numbers[qp], pairs.remote_numbers.get(qp)) for qp in owner.queue_pairs}
        for qp in self.device.close_owner(owner, self._clock.now_ns()):
            peer, number = remote[qp]
            if number is not None:
                self._links.disconnect(peer, number)
        os.close(eventfd)

    def close(self) -> None:
        """Give everything back."""
        self._p4runtime.stop()
        for disk in self._disks.values():
            disk.close()
        self._ports.close()
        self._links.close()
        self._listener.close()
        (self._folder / f"{self.config.name}.sock").unlink(missing_ok=True)
        if self._trace is not None:
            self._trace.close(self.device.statistics(), self._clock.now_ns())


def run_nic_process(path: Path) -> None:
    """Be one NIC: read its settings, serve until stopped, and say on the way whether that worked.

    The settings name a status file; it is written as JSON when the NIC serves, or with the error when it
    cannot.
    """
    settings = json.loads(path.read_text())
    status = Path(settings["status"])

    def tell(message: dict[str, Any]) -> None:
        scratch = status.with_suffix(".new")
        scratch.write_text(json.dumps(message))
        scratch.rename(status)

    try:
        process = NicProcess(settings)
        process.run(lambda: tell({"ready": True, "pid": os.getpid()}))
    except NicemuError as error:
        tell({"ready": False, "error": str(error)})
        raise SystemExit(1) from error
