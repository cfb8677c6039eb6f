# SPDX-License-Identifier: Apache-2.0
"""The control channels between NIC processes: who is there, memory to map, queue pairs to connect.

One channel a pair (`channel.py`), opened by whoever first has a queue pair to connect. It begins with "hello"
and "welcome". Over `direct` these carry memory: public tables, inboxes, backings; over frames only names.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nicemu.errors import NicemuError, ProtocolError, UsageError
from nicemu.fabric import SharedMemoryPort
from nicemu.nic import (
    OutsideWork,
    SmartNic,
    attach,
    detach,
    make_inbox,
    map_backing,
    shared_backings,
    unmap_backing,
)
from nicemu.pcie import Backing

from .channel import Channel, TcpChannel, UnixChannel

CONTROL_PORT = 19286
"""TCP port of a NIC's control channels, where RDMA goes over UDP."""
PATIENCE_NS = 5_000_000_000
"""How long a peer may take to answer a call or an offer, and a stranger to say who it is."""
MAX_STRANGERS = 64
_SENSELESS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a message raises that is JSON and makes no sense."""

Reached = Callable[[str | None], None]
"""Called with None when a peer can be spoken to, else with why it cannot."""


@dataclass(slots=True)
class _Reach:
    """A peer that somebody waits for. `channel` is None while it is the peer that calls."""

    deadline_ns: int
    channel: Channel | None = None
    port: SharedMemoryPort | None = None
    then: list[Reached] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Offer:
    """A queue pair that was offered to a peer."""

    name: str
    deadline_ns: int
    on_answer: Callable[[dict[str, Any]], None]


class PeerLinks:
    """The control channels of one NIC to its peers.

    `places`: name to IP address of every NIC of the topology; nobody else is spoken to. `folder`: where the
    UNIX sockets of this machine's NICs lie. `key`: what all NICs of the topology know; with one, channels go
    over TCP.
    """

    def __init__(
        self,
        device: SmartNic,
        watch: Callable[[Any, Callable[[], None]], None],
        unwatch: Callable[[Any], None],
        now: Callable[[], int],
        on_port: Callable[[str, SharedMemoryPort], None] | None,
        on_peer: Callable[[str], None],
        places: dict[str, str],
        folder: Path,
        key: bytes | None,
    ) -> None:
        self._device = device
        self._watch = watch
        self._unwatch = unwatch
        self._now = now
        self._on_port = on_port
        self._on_peer = on_peer
        self._places = places
        self._folder = folder
        self._key = key
        self._shares_memory = device.config.transport == "direct"
        self._links: dict[str, Channel] = {}
        self._reaching: dict[str, _Reach] = {}
        self._strangers: dict[Channel, int] = {}
        self._offers: dict[int, _Offer] = {}
        self._next_id = 1
        self._awaited: dict[int, set[str]] = {}
        self._listener: socket.socket | None = None
        if self._shares_memory:
            device.memory.on_backing = self._tell_backing
            device.memory.on_removed = self._tell_removed
        if device.outside is not None:
            device.outside.ask = lambda name, key: self._tell(name, {"op": "region", "key": key})
            device.outside.revoke = lambda name, key: self._tell(name, {"op": "region_gone", "key": key})

    # Coming together

    def listen(self) -> None:
        """Let peers call over TCP, if that is how channels go.

        Raises: UsageError if the port cannot be had.
        """
        if self._key is None:
            return
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._device.config.ip, CONTROL_PORT))
            listener.listen(64)
        except OSError as error:
            listener.close()
            raise UsageError(
                f"TCP {self._device.config.ip}:{CONTROL_PORT} cannot be opened: {error.strerror}"
            ) from error
        self._listener = listener
        self._watch(listener, self._take_call)

    def _take_call(self) -> None:
        assert self._listener is not None
        assert self._key is not None
        try:
            link, (host, _) = self._listener.accept()
        except OSError:  # whoever called has hung up already
            return
        if host not in self._places.values() or len(self._strangers) >= MAX_STRANGERS:
            self._device.drops["peer.stranger"] += 1
            link.close()
            return
        try:
            channel = TcpChannel(link, self._key, calling=False)
        except OSError:
            link.close()
            return
        self._strangers[channel] = self._now() + PATIENCE_NS
        self._watch(channel, lambda: self._greeted(channel, host))

    def _greeted(self, channel: Channel, host: str) -> None:
        """Something came from a caller that is not known yet."""
        try:
            messages = channel.receive()
            if messages == []:
                return
            if messages is None or len(messages) != 1 or messages[0][0].get("op") != "hello":
                raise ProtocolError("a peer says hello first")
            if str(messages[0][0].get("ip")) != host:
                raise ProtocolError(f"{host} says hello for {messages[0][0].get('ip')}")
            self._dismiss(channel)
            self.accept(channel, *messages[0])
        except (*_SENSELESS, OSError, NicemuError):
            self._device.drops["peer.stranger"] += 1
            self._dismiss(channel)
            channel.close()

    def _dismiss(self, channel: Channel) -> None:
        if self._strangers.pop(channel, None) is not None:
            self._unwatch(channel)

    def reach(self, name: str, then: Reached) -> None:
        """Have a channel to a peer, and call `then` when there is one or when that has failed."""
        if name in self._links:
            then(None)
            return
        if name not in self._reaching:
            reach = self._reaching[name] = _Reach(self._now() + PATIENCE_NS)
            try:
                self._call(name, reach)
            except OSError as error:
                del self._reaching[name]
                then(f"{name} does not answer: {error}")
                return
        self._reaching[name].then.append(then)

    def _call(self, name: str, reach: _Reach) -> None:
        ip = self._places[name]
        message, fds = self._greeting(name, ip, "hello")
        channel: Channel
        if self._key is None:
            channel = UnixChannel.call(str(self._folder / f"{name}.sock"))
        else:
            channel = TcpChannel.call((ip, CONTROL_PORT), self._device.config.ip, self._key)
        if self._on_port is not None:
            reach.port = SharedMemoryPort.create()
            message["port"] = True
            fds += (reach.port.memory_fd,)
        reach.channel = channel
        self._watch(channel, lambda: self._welcomed(name, reach))
        channel.send(message, fds)

    def _welcomed(self, name: str, reach: _Reach) -> None:
        """Something came from a peer that was called."""
        channel = reach.channel
        assert channel is not None
        hint = "" if self._key is None else ", as one does that has another key (key_file)"
        try:
            messages = channel.receive()
            if messages == []:
                return
            answer, fds = messages[0] if messages else ({}, [])
            if answer.get("op") == "busy":  # it is calling, too; its call counts
                self._hang_up(reach)
                return
            if answer.get("op") != "welcome" or answer.get("nic") != name:
                raise ProtocolError(str(answer.get("error", f"it closed the connection{hint}")))
            self._unwatch(channel)
            port, reach.channel, reach.port = reach.port, None, None
            self._meet(channel, answer, fds)
            if port is not None and self._on_port is not None:
                self._on_port(self._places[name], port)
        except (*_SENSELESS, OSError, NicemuError) as error:
            if reach.channel is None:
                channel.close()
            is_reset = isinstance(error, ConnectionResetError)
            self._fail(name, f"{name} does not answer: {error}{hint if is_reset else ''}")
            return
        for later, more in (messages or [])[1:]:
            self._take(name, channel, later, more)

    def _hang_up(self, reach: _Reach) -> None:
        if reach.channel is not None:
            self._unwatch(reach.channel)
            reach.channel.close()
            reach.channel = None
        if reach.port is not None:
            reach.port.close()
            reach.port = None

    def _fail(self, name: str, why: str) -> None:
        reach = self._reaching.pop(name, None)
        if reach is not None:
            self._hang_up(reach)
            for then in reach.then:
                then(why)

    def accept(self, channel: Channel, message: dict[str, Any], fds: list[int]) -> None:
        """A peer says hello on a new channel.

        Raises: ProtocolError for one that the topology does not have, KeyError and the like for a message
        that makes no sense, OSError if it has gone.
        """
        name, ip = str(message["nic"]), str(message["ip"])
        if self._places.get(name) != ip or name == self._device.config.name:
            raise ProtocolError(f"{self._device.config.name} knows no NIC {name} at {ip}")
        reach = self._reaching.get(name)
        if reach is not None and reach.channel is not None:
            if self._device.config.name < name:  # both call at once: the call of the first name counts
                channel.send({"op": "busy"})
                channel.close()
                return
            self._hang_up(reach)
        if name in self._links:
            self._lose(name)
        if message.get("port") and self._on_port is not None:
            self._on_port(ip, SharedMemoryPort.attach(fds.pop()))
        channel.send(*self._greeting(name, ip, "welcome"))
        self._meet(channel, message, fds)

    def _greeting(self, name: str, ip: str, operation: str) -> tuple[dict[str, Any], tuple[int, ...]]:
        device = self._device
        message: dict[str, Any] = {"op": operation, "nic": device.config.name, "ip": device.config.ip}
        if not self._shares_memory:
            return message, ()
        inbox = make_inbox(device, name, ip)
        backings = shared_backings(device)
        message["lengths"] = [device.public.length_bytes, inbox.length_bytes]
        message["backings"] = [[index, backing.length_bytes] for index, backing in backings]
        fds = [device.public.fd, inbox.fd, *(backing.fd for _, backing in backings)]
        return message, tuple(fd for fd in fds if fd is not None)

    def _meet(self, channel: Channel, message: dict[str, Any], fds: list[int]) -> None:
        name, ip = str(message["nic"]), str(message["ip"])
        if self._shares_memory:
            lengths = message["lengths"]
            public, outbox = (
                Backing.from_fd(fd, int(size)) for fd, size in zip(fds[:2], lengths, strict=True)
            )
            attach(self._device, name, ip, public, outbox)
            for (index, size), fd in zip(message["backings"], fds[2:], strict=True):
                map_backing(self._device, name, int(index), Backing.from_fd(fd, int(size)))
        else:
            self._device.queue_pairs.peer(name, ip)
        self._links[name] = channel
        self._on_peer(ip)
        self._watch(channel, lambda: self._hear(name, channel))
        reach = self._reaching.pop(name, None)
        for then in reach.then if reach is not None else ():
            then(None)

    def _lose(self, name: str) -> None:
        channel = self._links.pop(name, None)
        if channel is None:
            return
        self._unwatch(channel)
        channel.close()
        lost = [
            qp
            for qp in self._device.queue_pairs.of_firmware(name)
            if qp in self._device.queue_pairs.remote_numbers
        ]
        detach(self._device, name)
        for index in list(self._awaited):
            self._forgotten(name, index)
        for number, offer in list(self._offers.items()):
            if offer.name == name:
                del self._offers[number]
                offer.on_answer({"error": "the peer is gone"})
        for qp in lost:
            self._device.connections.lost(qp, self._now())
        self._device.drops["peer.lost"] += 1

    # Time

    def next_deadline_ns(self) -> int | None:
        """When `on_timer` wants to be called."""
        deadlines = [reach.deadline_ns for reach in self._reaching.values()]
        deadlines += [offer.deadline_ns for offer in self._offers.values()]
        return min([*deadlines, *self._strangers.values()], default=None)

    def on_timer(self, now_ns: int) -> None:
        """Give up those who have not answered in time."""
        for name, reach in list(self._reaching.items()):
            if now_ns >= reach.deadline_ns:
                self._fail(name, f"{name} does not answer at {self._places[name]}")
        for number, offer in list(self._offers.items()):
            if now_ns >= offer.deadline_ns:
                del self._offers[number]
                offer.on_answer({"error": f"{offer.name} does not answer"})
        for channel, deadline_ns in list(self._strangers.items()):
            if now_ns >= deadline_ns:
                self._device.drops["peer.stranger"] += 1
                self._dismiss(channel)
                channel.close()

    # Messages

    def _hear(self, name: str, channel: Channel) -> None:
        try:
            received = channel.receive()
        except (OSError, ProtocolError):
            received = None
        if received is None:
            self._lose(name)
            return
        for message, fds in received:
            self._take(name, channel, message, fds)

    def _take(self, name: str, channel: Channel, message: dict[str, Any], fds: list[int]) -> None:
        if self._links.get(name) is not channel:
            return
        try:
            self._obey(name, message, fds)
        except (*_SENSELESS, OSError, NicemuError) as error:
            self._device.drops["peer.bad_message"] += 1
            if "id" in message:
                self._tell(name, {"op": "answer", "id": message["id"], "error": str(error)})

    def _obey(self, name: str, message: dict[str, Any], fds: list[int]) -> None:
        operation = message["op"]
        if operation == "offer":
            offer = {**message["offer"], "nic": name, "ip": self._places[name]}
            answer = self._device.connections.accept(offer, self._now())
            self._tell(name, {"op": "answer", "id": message["id"], "answer": answer})
        elif operation == "answer":
            offered = self._offers.get(int(message["id"]))
            if offered is not None and offered.name == name:
                del self._offers[int(message["id"])]
                offered.on_answer(message)
            else:  # nobody waits for it any more
                self.decline(name, message)
        elif operation == "disconnect":
            self._disconnect(name, int(message["qp_num"]))
        elif operation == "backing":
            map_backing(
                self._device, name, int(message["index"]), Backing.from_fd(fds[0], int(message["size"]))
            )
        elif operation == "unmap":
            unmap_backing(self._device, name, int(message["index"]))
            self._tell(name, {"op": "unmapped", "index": message["index"]})
        elif operation == "unmapped":
            self._forgotten(name, int(message["index"]))
        elif self._device.outside is not None:
            self._tell_region(self._device.outside, name, operation, int(message["key"]), message)

    def _tell_region(
        self, outside: OutsideWork, name: str, operation: str, key: int, message: dict[str, Any]
    ) -> None:
        """A peer asks where a region lies, answers that, or has taken the key back."""
        if operation == "region":
            self._tell(name, {"op": "region_at", "key": key, "place": outside.describe(name, key)})
        elif operation == "region_at":
            outside.learn(name, key, message["place"])
        elif operation == "region_gone":
            outside.learn(name, key, None)

    def _disconnect(self, name: str, qp: int) -> None:
        if self._device.queue_pairs.numbers.get(qp) == name:
            self._device.connections.lost(qp, self._now())

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
        channel = self._links.get(name)
        try:
            if channel is not None:
                channel.send(message, fds)
        except OSError:
            self._lose(name)

    def offer(self, name: str, offer: dict[str, Any], on_answer: Callable[[dict[str, Any]], None]) -> None:
        """Offer a queue pair to a peer; `on_answer` hears {"answer": …} or {"error": …}."""
        if name not in self._links:
            on_answer({"error": "the peer is gone"})
            return
        number = self._next_id
        self._next_id += 1
        self._offers[number] = _Offer(name, self._now() + PATIENCE_NS, on_answer)
        self._tell(name, {"op": "offer", "id": number, "offer": offer})

    def disconnect(self, name: str, qp_num: int) -> None:
        """Tell a peer that its queue pair's other end is gone."""
        if name in self._links:
            self._tell(name, {"op": "disconnect", "qp_num": qp_num})

    def decline(self, name: str, message: dict[str, Any]) -> None:
        """Have a peer give back the queue pair that it answers an offer with, which nobody wants any more."""
        answer = message.get("answer")
        if isinstance(answer, dict) and isinstance(answer.get("qp_num"), int):
            self.disconnect(name, answer["qp_num"])

    def close(self) -> None:
        """Close all channels."""
        for reach in self._reaching.values():
            self._hang_up(reach)
        for channel in [*self._links.values(), *self._strangers]:
            channel.close()
        if self._listener is not None:
            self._listener.close()
        self._links.clear()
        self._strangers.clear()
        self._reaching.clear()
