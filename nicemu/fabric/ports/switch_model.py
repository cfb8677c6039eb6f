# SPDX-License-Identifier: Apache-2.0
"""A switch in virtual time: output queues that mark, input counts that pause, and a port for each host.

Source: IEEE 802.1Q, "Priority-based Flow Control"; RFC 3168, "Explicit Congestion Notification"; Floyd and
Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993; Zhu et al., "Congestion Control
for Large-Scale RDMA Deployments", SIGCOMM 2015 (marking by the length of the queue as it is).
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType

from nicemu.arguments import check_number, check_type, check_whole
from nicemu.errors import UsageError
from nicemu.wire import (
    ETHERNET_HEADER_BYTES,
    ETHERTYPE_MAC_CONTROL,
    IPV4_HEADER_BYTES,
    MOST_QUANTA,
    PRIORITIES,
    MalformedError,
    PriorityPause,
    check_mac,
    format_mac,
    internet_checksum,
)

from .link_model import LATEST_NS, LinkModel, Timeline, Transmitter, priority_of
from .port import RECEIVE_LIMIT, ListPort, check_frames, closed

_ECN, _NOT_CAPABLE, _CE = 3, 0, 3
_SERVICE_PLACE = ETHERNET_HEADER_BYTES + 1
_CHECKSUM_PLACE = ETHERNET_HEADER_BYTES + 10
_MOST_BYTES = 1 << 62
_SWITCH_MAC = b"\x02\0\0\0\0\xfe"


@dataclass(frozen=True, slots=True)
class EcnMarking:
    """Marks by a queue's length: none up to `kmin_bytes`, a share up to `pmax` at `kmax_bytes`, all above."""

    kmin_bytes: int
    kmax_bytes: int
    pmax: float

    def __post_init__(self) -> None:
        check_whole("kmin_bytes", self.kmin_bytes, 0, _MOST_BYTES)
        check_whole("kmax_bytes", self.kmax_bytes, 0, _MOST_BYTES)
        check_number("pmax", self.pmax, 0)
        if not (self.kmin_bytes <= self.kmax_bytes and self.pmax <= 1):
            raise UsageError(
                f"kmin {self.kmin_bytes}, kmax {self.kmax_bytes}, pmax {self.pmax}; 0 <= kmin <= kmax is "
                "needed, and a chance from 0 to 1"
            )

    def chance(self, queued_bytes: int) -> float:
        """Return how likely a frame is marked that finds so much in the queue."""
        if queued_bytes <= self.kmin_bytes:
            return 0.0
        if queued_bytes > self.kmax_bytes:
            return 1.0
        return self.pmax * (queued_bytes - self.kmin_bytes) / (self.kmax_bytes - self.kmin_bytes)


@dataclass(frozen=True, slots=True)
class PauseThresholds:
    """A host is paused when the switch holds more than `xoff_bytes` of a priority, until `xon_bytes`."""

    xoff_bytes: int
    xon_bytes: int

    def __post_init__(self) -> None:
        check_whole("xoff_bytes", self.xoff_bytes, 0, _MOST_BYTES)
        check_whole("xon_bytes", self.xon_bytes, 0, _MOST_BYTES)
        if not self.xon_bytes <= self.xoff_bytes:
            raise UsageError(f"xon {self.xon_bytes} and xoff {self.xoff_bytes}; 0 <= xon <= xoff is needed")


class SwitchPort(ListPort):
    """A host's end of a link to the switch: a Port in the model's time, which obeys the switch's pauses.

    It is made by `SwitchModel.join`; `leaves` is called when it is closed.
    """

    def __init__(
        self, mac: bytes, queue_bytes: int, transmitter: Transmitter, leaves: Callable[[], None]
    ) -> None:
        self.address = f"switch:{format_mac(mac)}"
        self.drops: Counter[str] = Counter()
        self.mac = mac
        self._leaves = leaves
        self._queue_bytes = queue_bytes
        self._incoming: deque[bytes] = deque()
        self._open = True
        self.transmitter = transmitter
        """Its queues, for those who look at the model."""

    def send(self, frames: list[bytes]) -> int:
        """Queue frames, as many as the queue of their priority has room for."""
        self._check_open()
        check_frames(frames)
        for accepted, frame in enumerate(frames):
            if not self.has_room(priority_of(frame)):
                return accepted
            self.transmitter.send(frame)
        return len(frames)

    def has_room(self, priority: int = 0) -> bool:
        """Return whether a frame of a priority would be accepted.

        Raises: UsageError if there is no such priority.
        """
        check_whole("priority", priority, 0, PRIORITIES - 1)
        return self.transmitter.queued_bytes[priority] < self._queue_bytes

    @property
    def has_arrivals(self) -> bool:
        """Whether frames have arrived that nobody has received yet."""
        return bool(self._incoming)

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Return up to `limit` frames that have arrived by the model's time."""
        self._check_open()
        return [self._incoming.popleft() for _ in range(min(limit, len(self._incoming)))]

    def fileno(self) -> int | None:
        """There is nothing to wait on."""
        return None

    def close(self) -> None:
        """Take the host off the switch, where its address is free again; what is on its way to it is lost."""
        if self._open:
            self._open = False
            self._leaves()

    def arrives(self, frame: bytes) -> bool:
        """Take a frame off the link; False if there is nobody for it any more."""
        pause = _pause_of(frame)
        if pause is not None:
            self.transmitter.obey(pause)
        elif self._open:
            self._incoming.append(frame)
        return self._open or pause is not None

    def _check_open(self) -> None:
        if not self._open:
            raise closed(self.address)


class SwitchModel:
    """A switch, its links, and a virtual time that whoever drives it moves on with `advance`.

    Frames go by their destination's MAC address to the port that has it; priority is the class selector of
    the IP header. A frame that finds less than its length free of `queue_bytes` in its output queue is
    dropped. With `marking`, frames of ends that understand it are marked; with `pause`, hosts are paused
    before queues are full: `queue_bytes` must have room for what every host has under way then.
    `marks` and `pauses` count, and `drops` counts by reason.
    Raises: UsageError for a value of another type or out of range, or a pause that would come too late.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        link: LinkModel | None = None,
        queue_bytes: int = 1 << 20,
        marking: EcnMarking | None = None,
        pause: PauseThresholds | None = None,
    ) -> None:
        check_type("rng", rng, random.Random, "random.Random(seed)")
        check_whole("queue_bytes", queue_bytes, 1, _MOST_BYTES)
        check_type("link", link, (LinkModel, NoneType), "LinkModel(...) or None")
        check_type("marking", marking, (EcnMarking, NoneType), "EcnMarking(...) or None")
        check_type("pause", pause, (PauseThresholds, NoneType), "PauseThresholds(...) or None")
        if pause is not None and pause.xoff_bytes >= queue_bytes:
            raise UsageError(
                f"xoff is {pause.xoff_bytes} and a queue has {queue_bytes} bytes; hosts must be paused "
                "before it is full: lower xoff_bytes, or raise queue_bytes"
            )
        self._rng = rng
        self._link = LinkModel() if link is None else link
        self._queue_bytes = queue_bytes
        self._marking = marking
        self._pause = pause
        self._timeline = Timeline()
        self._outputs: list[Transmitter] = []
        self._numbers: dict[bytes, int] = {}
        self._ports: dict[SwitchPort, int] = {}
        self._held_bytes: list[list[int]] = []
        self._pausing: set[tuple[int, int]] = set()
        self.marks = 0
        self.pauses = 0
        self.drops: Counter[str] = Counter()

    def join(self, mac: bytes, queue_bytes: int = 1 << 16) -> SwitchPort:
        """Return a port of a host with this MAC address, with queues of its own of about `queue_bytes`.

        Raises: UsageError if there is one already, the address is none of a NIC, or no byte fits a queue.
        """
        check_mac(mac, is_own=True)
        check_whole("queue_bytes", queue_bytes, 1, _MOST_BYTES)
        if mac in self._numbers:
            raise UsageError(f"{format_mac(mac)} has a port already; each host needs an address of its own")
        number = self._numbers[mac] = len(self._outputs)
        to_switch = Transmitter(self._timeline, self._link, lambda frame: self._arrives(frame, number))
        port = SwitchPort(mac, queue_bytes, to_switch, lambda: self._forget(mac))
        from_switch = Transmitter(
            self._timeline, self._link, lambda frame: self._deliver(frame, port), self._left
        )
        self._ports[port] = number
        self._outputs.append(from_switch)
        self._held_bytes.append([0] * PRIORITIES)
        return port

    @property
    def now_ns(self) -> int:
        """The model's time."""
        return self._timeline.now_ns

    def next_event_ns(self) -> int | None:
        """Return when something happens next, or None if nothing is under way."""
        return self._timeline.next_ns()

    def advance(self, now_ns: int) -> None:
        """Move the time on, and frames with it; a time that is past changes nothing.

        Raises: UsageError if it is no whole number of nanoseconds.
        """
        self._timeline.advance(check_whole("now_ns", now_ns, 0, LATEST_NS))

    def output(self, port: SwitchPort) -> Transmitter:
        """Return the switch's queues towards a host, for those who look at the model.

        Raises: UsageError if `port` is none of this switch's.
        """
        number = self._ports.get(port) if isinstance(port, SwitchPort) else None
        if number is None:
            raise UsageError(f"{port!r} is no port of this switch; pass what its join() returned")
        return self._outputs[number]

    # Frames in the switch

    def _forget(self, mac: bytes) -> None:
        del self._numbers[mac]

    def _arrives(self, frame: bytes, origin: int) -> None:
        pause = _pause_of(frame)
        if pause is not None:
            self._outputs[origin].obey(pause)
            return
        number = self._numbers.get(frame[:6])
        if number is None:
            self.drops["switch.unknown_address"] += 1
            return
        output, priority = self._outputs[number], priority_of(frame)
        queued_bytes = output.queued_bytes[priority]
        if queued_bytes + len(frame) > self._queue_bytes:
            self.drops["switch.queue_full"] += 1
            return
        if self._marking and self._rng.random() < self._marking.chance(queued_bytes):
            frame = self._marked(frame)
        self._held_bytes[origin][priority] += len(frame)
        self._say_pause(origin, priority)
        output.send(frame, origin)

    def _deliver(self, frame: bytes, port: SwitchPort) -> None:
        if not port.arrives(frame):
            self.drops["switch.closed_port"] += 1

    def _left(self, frame: bytes, origin: int) -> None:
        priority = priority_of(frame)
        self._held_bytes[origin][priority] -= len(frame)
        key = origin, priority
        if (
            self._pause
            and key in self._pausing
            and self._held_bytes[origin][priority] <= self._pause.xon_bytes
        ):
            self._pausing.discard(key)
            self._outputs[origin].send_control(PriorityPause({priority: 0}).encode(_SWITCH_MAC))

    def _say_pause(self, origin: int, priority: int) -> None:
        held_bytes = self._held_bytes[origin][priority]
        if self._pause and held_bytes > self._pause.xoff_bytes and (origin, priority) not in self._pausing:
            self._pausing.add((origin, priority))
            self.pauses += 1
            self._keep_paused(origin, priority)

    def _keep_paused(self, origin: int, priority: int) -> None:
        """Pause a priority of a host, and again before that ends, until it may go on."""
        if (origin, priority) not in self._pausing:
            return
        self._outputs[origin].send_control(PriorityPause({priority: MOST_QUANTA}).encode(_SWITCH_MAC))
        again_ns = self._timeline.now_ns + self._link.pause_ns(MOST_QUANTA) // 2
        self._timeline.at(again_ns, lambda: self._keep_paused(origin, priority))

    def _marked(self, frame: bytes) -> bytes:
        """Return a frame that says that it has met congestion, if its ends understand that."""
        service = frame[_SERVICE_PLACE]
        if frame[12:14] != b"\x08\0" or service & _ECN == _NOT_CAPABLE:
            return frame
        self.marks += 1
        changed = bytearray(frame)
        changed[_SERVICE_PLACE] = service | _CE
        changed[_CHECKSUM_PLACE : _CHECKSUM_PLACE + 2] = b"\0\0"
        header = bytes(changed[ETHERNET_HEADER_BYTES : ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES])
        changed[_CHECKSUM_PLACE : _CHECKSUM_PLACE + 2] = internet_checksum(header).to_bytes(2, "big")
        return bytes(changed)


def _pause_of(frame: bytes) -> PriorityPause | None:
    """Return the pause that a frame asks for, or None if it is no such frame."""
    if int.from_bytes(frame[12:14], "big") != ETHERTYPE_MAC_CONTROL:
        return None
    try:
        return PriorityPause.decode(frame)
    except MalformedError:
        return PriorityPause({})
