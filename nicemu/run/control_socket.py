# SPDX-License-Identifier: Apache-2.0
"""The control socket of a NIC process: what host processes and commands ask of it, and what it answers.

Some answers come later: that of a connection when the peer has answered, that of new firmware when its
`@on_start` has ended. Nothing here waits.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nicemu.errors import ControlError, NicemuError, ProtocolError, UsageError, family_name
from nicemu.firmware import Registry, Signal
from nicemu.nic import Admin, Owner, SmartNic
from nicemu.pcie import Backing
from nicemu.rdma import FLAG_IMMEDIATE_COUNTS, FLAG_IMPLICIT_RECEIVES

from .channel import UnixChannel
from .links import PeerLinks
from .messages import receive, send
from .trace import TraceWriter

_CURRENT = object()
"""Stands for the number of the request that is being answered."""


@dataclass(frozen=True, slots=True)
class _Flash:
    """Somebody who is told when new firmware has started."""

    link: socket.socket
    request: object
    handlers: list[str]
    deadline_ns: int


class _Ports(Protocol):
    """What `LivePorts` says of itself."""

    @property
    def problem(self) -> str:
        """Why no RDMA frames come and go, if something keeps them."""
        ...

    def statistics(self) -> dict[str, int]:
        """Counts by name."""
        ...


class ControlSocket:
    """Listens in the NIC's folder. `load` reads a firmware script, `stop` ends the NIC."""

    def __init__(
        self,
        device: SmartNic,
        settings: dict[str, Any],
        links: PeerLinks,
        watch: Callable[[Any, Callable[[], None]], None],
        unwatch: Callable[[Any], None],
        now: Callable[[], int],
        load: Callable[[Path], Registry],
        ports: _Ports,
        stop: Callable[[], None],
    ) -> None:
        self._device = device
        self._settings = settings
        self._links = links
        self._watch = watch
        self._unwatch = unwatch
        self._now = now
        self._load = load
        self._ports = ports
        self._stop = stop
        self._admin = Admin(device)
        self._request: object = None
        self._owners: dict[socket.socket, tuple[Owner, int]] = {}
        self._awaited: dict[tuple[socket.socket, int, int], int] = {}
        self._flash: _Flash | None = None
        self._tracer: tuple[socket.socket, TraceWriter] | None = None
        self._path = Path(settings["folder"]) / f"{device.config.name}.sock"
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self._path))
        self._path.chmod(0o600)
        self._listener.listen(64)

    def listen(self) -> None:
        """Let processes connect, and notice when the program that started this NIC ends."""
        self._watch(self._listener, self._accept)
        if self._settings.get("lifeline") is not None:
            self._watch(int(self._settings["lifeline"]), self._stop)

    def next_deadline_ns(self) -> int | None:
        """When `on_timer` wants to be called."""
        return None if self._flash is None else self._flash.deadline_ns

    def on_timer(self, now_ns: int) -> None:
        """Answer whoever waits for new firmware, if it has started or has had its time."""
        flash, device = self._flash, self._device
        if flash is None or (device.scheduler.starting and now_ns < flash.deadline_ns):
            return
        self._flash = None
        if device.scheduler.starting:
            limit_s = device.config.event_timeout_ns / 1e9
            self._refuse(
                flash, f"@on_start has not ended in {limit_s:g} s; it goes on, and the script serves"
            )
        elif device.start_error:
            self._refuse(flash, f"@on_start failed: {device.start_error}; the rest of the script serves")
        else:
            self._reply(flash.link, {"handlers": flash.handlers}, request=flash.request)

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()
        self._path.unlink(missing_ok=True)

    # Messages

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
            self._reply(link, {"error": text, "kind": family_name(error) if known else "UsageError"})

    def _reply(
        self,
        link: socket.socket,
        message: dict[str, Any],
        fds: tuple[int, ...] = (),
        request: object = _CURRENT,
    ) -> None:
        """Answer; an answer carries the number of its request, so that none is taken for another one's."""
        number = self._request if request is _CURRENT else request
        try:
            send(link, message if number is None else {**message, "request": number}, fds)
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
        elif operation == "disconnect":
            owner, _ = self._owner_of(link)
            qp, force = int(message["qp_num"]), bool(message.get("force", False))
            peer, number = self._device.connections.disconnect(owner, qp, force)
            if number is not None:
                self._links.disconnect(peer, number)
            self._reply(link, {})
        elif operation == "describe":
            described = self._admin.describe()
            described["statistics"].update(self._ports.statistics())
            described["problem"] = self._ports.problem or None
            described["process"] = {"pid": os.getpid(), "cpu_s": time.process_time()}
            self._reply(link, described)
        elif operation == "flash":
            self._put_firmware(link, Path(message["path"]))
        elif operation == "trace":
            self._begin_trace(link)
        elif operation == "end trace":
            self._end_trace(link)
        elif operation == "detach":
            if self._settings.get("lifeline") is not None:
                self._unwatch(int(self._settings["lifeline"]))
                os.close(int(self._settings.pop("lifeline")))
            self._reply(link, {})
        elif operation == "stop":
            self._stop()
            self._reply(link, {"stopped": self._device.config.name})
        else:
            owner, _ = self._owner_of(link)
            self._reply(link, self._admin.handle(owner, operation, message))

    def _begin_trace(self, link: socket.socket) -> None:
        """Note what every block does until `link` asks for it, or is gone."""
        name = self._device.config.name
        if self._device.observe is not None:
            raise UsageError(f"{name} is traced already: by `nicemu trace`, or since `nicemu up --trace`")
        self._tracer = (link, TraceWriter(name))
        self._device.observe = self._tracer[1].observer(self._now)
        self._reply(link, {})

    def _end_trace(self, link: socket.socket) -> None:
        """Answer with what was noted since then, as JSON in shared memory."""
        if self._tracer is None or self._tracer[0] is not link:
            raise UsageError('say {"op": "trace"} first')
        (_, writer), self._tracer = self._tracer, None
        self._device.observe = None
        events = writer.finish(self._device.statistics(), self._now())
        with open(os.memfd_create("trace", os.MFD_CLOEXEC), "w", encoding="utf-8") as file:
            json.dump(events, file)
            file.flush()
            self._reply(link, {"events": len(events)}, (file.fileno(),))

    def _put_firmware(self, link: socket.socket, path: Path) -> None:
        registry = self._load(path)
        if self._flash is not None:
            self._refuse(self._flash, "other firmware was put on the NIC before its @on_start had ended")
        now_ns = self._now()
        deadline_ns = now_ns + self._device.config.event_timeout_ns
        self._flash = _Flash(link, self._request, registry.names(), deadline_ns)
        try:
            lost = self._device.load_firmware(registry, now_ns)
        except ControlError:
            self._flash = None
            raise
        for peer, qp in lost:
            self._links.disconnect(peer, qp)
        self.on_timer(now_ns)

    def _refuse(self, flash: _Flash, text: str) -> None:
        self._reply(flash.link, {"error": text, "kind": "NicemuError"}, request=flash.request)

    def _meet(self, link: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
        if self._settings["calls_over_tcp"]:
            raise UsageError("peers of this NIC may be on other machines; they call over TCP")
        self._unwatch(link)
        try:
            self._links.accept(UnixChannel(link), message, fds)
        except Exception as error:
            self._device.drops["peer.stranger"] += 1
            with suppress(OSError):
                send(link, {"op": "refused", "error": str(error)})
            link.close()
            for fd in fds:
                with suppress(OSError):
                    os.close(fd)

    def _open(self, link: socket.socket) -> None:
        if link in self._owners:
            raise UsageError("this connection is open already")
        owner = self._device.open_owner()
        eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        owner.interrupt = lambda: os.eventfd_write(eventfd, 1)
        self._owners[link] = (owner, eventfd)
        assert owner.bar.fd is not None
        races = str(self._path.parent) if self._device.notes.wanted else None
        lengths = {"bar_bytes": owner.bar.length_bytes, "owner": owner.number}
        address = f"unix:{self._path.with_suffix('.p4rt')}"
        self._reply(
            link,
            {**lengths, "nic": self._device.config.name, "p4runtime": address, "races": races},
            (owner.bar.fd, eventfd),
        )

    def _owner_of(self, link: socket.socket) -> tuple[Owner, int]:
        if link not in self._owners:
            raise UsageError('say {"op": "open"} first')
        return self._owners[link]

    def _wake_at(self, link: socket.socket, counter: int, threshold: int) -> None:
        owner, eventfd = self._owner_of(link)
        owner.check_counter(counter)
        awaited = (link, counter, threshold)
        if not self._device.card.is_armed(self._awaited.get(awaited)):  # waiting again takes no second slot

            def wake() -> None:
                self._awaited.pop(awaited, None)
                if link in self._owners:
                    os.eventfd_write(eventfd, 1)

            happened = Signal()
            happened.when_done(wake)
            card = self._device.card
            self._awaited[awaited] = card.arm_signal(counter, threshold, happened, owner.number)
        self._reply(link, {})

    def _connect(self, link: socket.socket, peer: str, private_data: dict[str, int]) -> None:
        owner, _ = self._owner_of(link)
        places: dict[str, str] = self._settings["peers"]
        if peer not in places:
            raise UsageError(
                f"{self._device.config.name} has no peer {peer!r}; it has {', '.join(places) or 'none'}"
            )
        request = self._request
        flags = FLAG_IMPLICIT_RECEIVES | FLAG_IMMEDIATE_COUNTS

        def is_open() -> bool:
            return self._owners.get(link, (None, 0))[0] is owner

        def refuse(text: str, kind: str = "NicemuError") -> None:
            self._reply(link, {"error": text, "kind": kind}, request=request)

        def on_reached(error: str | None) -> None:
            if not is_open():
                return
            if error is not None:
                refuse(error)
                return
            try:
                qp, offer = self._device.connections.begin(owner, peer, flags, private_data)
            except NicemuError as refusal:
                refuse(str(refusal), family_name(refusal))
                return
            self._links.offer(peer, offer, lambda message: on_answer(qp, message))

        def on_answer(qp: int, message: dict[str, Any]) -> None:
            answer = message.get("answer")
            if not is_open():
                self._links.decline(peer, message)
                return
            try:
                if answer is None:
                    raise ProtocolError(str(message.get("error")))
                self._device.queue_pairs.connect(qp, {**answer, "ip": places[peer]})
                reply = {"qp_num": qp, "number": answer["number"], "private_data": answer["private_data"]}
            except (NicemuError, KeyError, TypeError, ValueError) as error:
                self._device.connections.end(owner, qp)
                self._links.decline(peer, message)
                told = str(error) if isinstance(error, NicemuError) else f"an answer without sense: {error!r}"
                refuse(told if told.startswith(peer) else f"{peer}: {told}")
                return
            self._reply(link, reply, request=request)

        self._links.reach(peer, on_reached)

    def _hang_up(self, link: socket.socket) -> None:
        try:
            self._unwatch(link)
        except KeyError:
            return
        if self._flash is not None and self._flash.link is link:
            self._flash = None
        if self._tracer is not None and self._tracer[0] is link:
            self._tracer = self._device.observe = None
        owner, eventfd = self._owners.pop(link, (None, -1))
        self._awaited = {key: cookie for key, cookie in self._awaited.items() if key[0] is not link}
        link.close()
        if owner is None:
            return
        pairs = self._device.queue_pairs
        remote = {qp: (pairs.numbers[qp], pairs.remote_numbers.get(qp)) for qp in owner.queue_pairs}
        for qp in self._device.close_owner(owner, self._now()):
            peer, number = remote[qp]
            if number is not None:
                self._links.disconnect(peer, number)
        os.close(eventfd)
