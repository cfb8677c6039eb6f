# SPDX-License-Identifier: Apache-2.0
"""The control channel between two NIC processes: who is there, memory to map, queue pairs to connect.

One SOCK_SEQPACKET connection a pair; every message is one JSON object, with descriptors beside it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nicemu.errors import NicemuError, ProtocolError
from nicemu.fabric import SharedMemoryPort
from nicemu.nic import (
    SmartNic,
    attach,
    detach,
    make_inbox,
    map_backing,
    shared_backings,
    unmap_backing,
)
from nicemu.pcie import Backing

from .messages import receive, send


class PeerLinks:
    """The control channels of one NIC to its peers."""

    def __init__(
        self,
        device: SmartNic,
        watch: Callable[[socket.socket, Callable[[], None]], None],
        unwatch: Callable[[socket.socket], None],
        now: Callable[[], int],
        on_port: Callable[[str, SharedMemoryPort], None] | None,
        on_peer: Callable[[str], None],
    ) -> None:
        self._device = device
        self._watch = watch
        self._unwatch = unwatch
        self._now = now
        self._on_port = on_port
        self._on_peer = on_peer
        self._links: dict[str, socket.socket] = {}
        self._pending: dict[int, tuple[str, Callable[[dict[str, Any]], None]]] = {}
        self._next_id = 1
        device.memory.on_backing = self._tell_backing
        device.memory.on_removed = self._tell_removed
        self._awaited: dict[int, set[str]] = {}

    # Coming together

    def call(self, name: str, ip: str, path: Path) -> None:
        """Connect to a peer's process, unless that has been done.

        Raises: NicemuError if it does not answer.
        """
        if name in self._links:
            return
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            link.settimeout(5.0)
            link.connect(str(path))
            message, fds = self._greeting(name, ip, "hello")
            port = None
            if self._on_port is not None:
                port = SharedMemoryPort.create()
                message["port"] = True
                fds += (port.memory_fd,)
            send(link, message, fds)
            answer = receive(link)
        except OSError as error:
            link.close()
            raise NicemuError(f"{name} does not answer at {path}: {error}") from error
        if answer is None or answer[0].get("op") != "welcome":
            link.close()
            raise NicemuError(f"{name} refused the connection: {answer[0] if answer else 'it closed'}")
        link.setblocking(False)
        self._meet(link, *answer)
        if port is not None and self._on_port is not None:
            self._on_port(ip, port)

    def accept(self, link: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
        """A peer says hello on a new connection."""
        name, ip = str(message["nic"]), str(message["ip"])
        if name in self._links:
            self._lose(name)
        if message.get("port") and self._on_port is not None:
            self._on_port(ip, SharedMemoryPort.attach(fds.pop()))
        greeting, own = self._greeting(name, ip, "welcome")
        send(link, greeting, own)
        self._meet(link, message, fds)

    def _greeting(self, name: str, ip: str, operation: str) -> tuple[dict[str, Any], tuple[int, ...]]:
        device = self._device
        inbox = make_inbox(device, name, ip)
        backings = shared_backings(device)
        message = {
            "op": operation,
            "nic": device.config.name,
            "ip": device.config.ip,
            "lengths": [device.public.length_bytes, inbox.length_bytes],
            "backings": [[index, backing.length_bytes] for index, backing in backings],
        }
        fds = [device.public.fd, inbox.fd, *(backing.fd for _, backing in backings)]
        return message, tuple(fd for fd in fds if fd is not None)

    def _meet(self, link: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
        name = str(message["nic"])
        lengths = message["lengths"]
        public, outbox = (Backing.from_fd(fd, int(size)) for fd, size in zip(fds[:2], lengths, strict=True))
        attach(self._device, name, str(message["ip"]), public, outbox)
        for (index, size), fd in zip(message["backings"], fds[2:], strict=True):
            map_backing(self._device, name, int(index), Backing.from_fd(fd, int(size)))
        self._links[name] = link
        self._on_peer(str(message["ip"]))
        self._watch(link, lambda: self._hear(name, link))

    def _lose(self, name: str) -> None:
        link = self._links.pop(name, None)
        if link is None:
            return
        self._unwatch(link)
        link.close()
        lost = [
            qp
            for qp in self._device.queue_pairs.of_firmware(name)
            if qp in self._device.queue_pairs.remote_numbers
        ]
        detach(self._device, name)
        for index in list(self._awaited):
            self._forgotten(name, index)
        for number, (peer, handler) in list(self._pending.items()):
            if peer == name:
                del self._pending[number]
                handler({"error": "the peer is gone"})
        for qp in lost:
            self._device.disconnected(qp, self._now())
        self._device.drops["peer.lost"] += 1

    # Messages

    def _hear(self, name: str, link: socket.socket) -> None:
        try:
            received = receive(link)
        except (OSError, ProtocolError):
            received = None
        if received is None:
            self._lose(name)
            return
        message, fds = received
        try:
            self._obey(name, link, message, fds)
        except (KeyError, TypeError, ValueError, NicemuError) as error:
            self._device.drops["peer.bad_message"] += 1
            if "id" in message:
                self._tell(name, {"op": "answer", "id": message["id"], "error": str(error)})

    def _obey(self, name: str, link: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
        operation = message["op"]
        if operation == "offer":
            answer = self._device.accept_connect(message["offer"], self._now())
            self._tell(name, {"op": "answer", "id": message["id"], "answer": answer})
        elif operation == "answer":
            _, handler = self._pending.pop(int(message["id"]), (name, None))
            if handler is not None:
                handler(message)
        elif operation == "disconnect":
            self._device.disconnected(int(message["qp_num"]), self._now())
        elif operation == "backing":
            map_backing(
                self._device, name, int(message["index"]), Backing.from_fd(fds[0], int(message["size"]))
            )
        elif operation == "unmap":
            unmap_backing(self._device, name, int(message["index"]))
            self._tell(name, {"op": "unmapped", "index": message["index"]})
        elif operation == "unmapped":
            self._forgotten(name, int(message["index"]))

    def _forgotten(self, name: str, index: int) -> None:
        waiting = self._awaited.get(index)
        if waiting is None:
            return
        waiting.discard(name)
        if not waiting:
            del self._awaited[index]
            self._device.memory.quarantined.discard(index)

    def _tell_backing(self, index: int, backing: Backing) -> None:
        if backing.fd is not None:
            message = {"op": "backing", "index": index, "size": backing.length_bytes}
            for name in list(self._links):
                self._tell(name, message, (backing.fd,))

    def _tell_removed(self, index: int) -> None:
        if self._links:
            self._device.memory.quarantined.add(index)
            self._awaited[index] = set(self._links)
            for name in list(self._links):
                self._tell(name, {"op": "unmap", "index": index})

    def _tell(self, name: str, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send to a peer; one that is gone, or has not read for long, is lost."""
        try:
            send(self._links[name], message, fds)
        except OSError:
            self._lose(name)

    def offer(self, name: str, offer: dict[str, Any], on_answer: Callable[[dict[str, Any]], None]) -> None:
        """Offer a queue pair to a peer; `on_answer` hears {"answer": …} or {"error": …}."""
        number = self._next_id
        self._next_id += 1
        self._pending[number] = (name, on_answer)
        self._tell(name, {"op": "offer", "id": number, "offer": offer})

    def disconnect(self, name: str, qp_num: int) -> None:
        """Tell a peer that its queue pair's other end is gone."""
        if name in self._links:
            self._tell(name, {"op": "disconnect", "qp_num": qp_num})

    def close(self) -> None:
        """Close all channels."""
        for link in self._links.values():
            link.close()
        self._links.clear()
