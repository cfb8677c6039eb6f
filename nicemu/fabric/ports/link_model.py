# SPDX-License-Identifier: Apache-2.0
"""One end of a link in virtual time: eight queues, a rate and a delay, and pauses that it honours.

Source: IEEE 802.1Q, "Priority-based Flow Control", "Strict priority algorithm".
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from nicemu.arguments import check_number, check_whole
from nicemu.wire import ETHERTYPE_IPV4, PRIORITIES, QUANTUM_BITS, PriorityPause

LINK_OVERHEAD_BYTES = 24
"""What a frame takes on the link beside its bytes: preamble, check sequence, gap."""
LATEST_NS = 1 << 62
"""The end of virtual time: 146 years."""
_NEVER_NS = 0


@dataclass(frozen=True, slots=True)
class LinkModel:
    """A link in virtual time: its rate, and how long a bit is under way (a nanosecond is 20 cm)."""

    rate_bits_per_s: float = 100e9
    delay_ns: int = 1000

    def __post_init__(self) -> None:
        check_number("rate_bits_per_s", self.rate_bits_per_s, 0, more_than=True)
        check_whole("delay_ns", self.delay_ns, 0, LATEST_NS)

    def time_ns(self, length_bytes: int) -> int:
        """Return how long a frame takes to be sent."""
        return -int(-(length_bytes + LINK_OVERHEAD_BYTES) * 8e9 // self.rate_bits_per_s)

    def pause_ns(self, quanta: int) -> int:
        """Return how long a pause of so many quanta is."""
        return int(quanta * QUANTUM_BITS * 1e9 / self.rate_bits_per_s)


@dataclass
class Timeline:
    """What will happen in a model, in order of time, then of arrangement."""

    now_ns: int = 0
    _events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def at(self, time_ns: int, happens: Callable[[], None]) -> None:
        """Have something happen at a time that is not past."""
        heapq.heappush(self._events, (time_ns, next(self._numbers), happens))

    def next_ns(self) -> int | None:
        """Return when the next thing happens, or None if nothing will."""
        return self._events[0][0] if self._events else None

    def advance(self, now_ns: int) -> None:
        """Let all happen that happens up to `now_ns`."""
        while self._events and self._events[0][0] <= now_ns:
            self.now_ns, _, happens = heapq.heappop(self._events)
            happens()
        self.now_ns = max(self.now_ns, now_ns)


def priority_of(frame: bytes) -> int:
    """Return the priority of a frame: the class selector of its IPv4 header, the DSCP's high bits; else 0."""
    is_ip = len(frame) > 15 and int.from_bytes(frame[12:14], "big") == ETHERTYPE_IPV4
    return frame[15] >> 5 if is_ip else 0


class Transmitter:
    """Sends frames over a link, the highest priority first; of a paused one only what has begun.

    `arrives` is called with each frame when its last bit is there, `left` when it is here.
    """

    def __init__(
        self,
        timeline: Timeline,
        link: LinkModel,
        arrives: Callable[[bytes], None],
        left: Callable[[bytes, int], None] = lambda frame, origin: None,
    ) -> None:
        self._timeline = timeline
        self._link = link
        self._arrives = arrives
        self._left = left
        self._control: deque[bytes] = deque()
        self._queues: tuple[deque[tuple[bytes, int]], ...] = tuple(deque() for _ in range(PRIORITIES))
        self._paused_until_ns = [_NEVER_NS] * PRIORITIES
        self._is_busy = False
        self.queued_bytes = [0] * PRIORITIES
        """Bytes of frames that wait, or are being sent, by priority."""
        self.deepest_bytes = 0
        """The most that a queue held."""

    def send(self, frame: bytes, origin: int = 0) -> None:
        """Queue a frame; `origin` is told to `left`."""
        priority = priority_of(frame)
        self._queues[priority].append((frame, origin))
        self.queued_bytes[priority] += len(frame)
        self.deepest_bytes = max(self.deepest_bytes, self.queued_bytes[priority])
        self._go_on()

    def send_control(self, frame: bytes) -> None:
        """Queue a MAC control frame: before all others, and never paused."""
        self._control.append(frame)
        self._go_on()

    def obey(self, pause: PriorityPause) -> None:
        """Pause, or go on."""
        for priority, quanta in pause.quanta.items():
            until_ns = self._timeline.now_ns + self._link.pause_ns(quanta)
            self._paused_until_ns[priority] = until_ns
            if quanta:
                self._timeline.at(until_ns, self._go_on)
        self._go_on()

    def is_paused(self, priority: int) -> bool:
        """Return whether frames of a priority wait for the other end."""
        return self._paused_until_ns[priority] > self._timeline.now_ns

    def _go_on(self) -> None:
        if self._is_busy:
            return
        if self._control:
            self._begin(self._control.popleft(), None, 0)
            return
        for priority in range(PRIORITIES - 1, -1, -1):
            if self._queues[priority] and not self.is_paused(priority):
                frame, origin = self._queues[priority].popleft()
                self._begin(frame, priority, origin)
                return

    def _begin(self, frame: bytes, priority: int | None, origin: int) -> None:
        end_ns = self._timeline.now_ns + self._link.time_ns(len(frame))

        def ended() -> None:
            self._is_busy = False
            if priority is not None:
                self.queued_bytes[priority] -= len(frame)
                self._left(frame, origin)
            self._go_on()

        self._is_busy = True
        self._timeline.at(end_ns, ended)
        self._timeline.at(end_ns + self._link.delay_ns, lambda: self._arrives(frame))
