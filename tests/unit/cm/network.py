# SPDX-License-Identifier: Apache-2.0
"""Two communication managers, and a network between them that loses, repeats and delays, in virtual time."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from nicemu.cm import CmAddress, CmEndpoint, CmEvent, CmEventKind, Connection, QpOffer
from nicemu.wire import CmMessage, decode_cm_message, service_id

ADDRESSES = CmAddress(b"\2\0\0\0\0\1", "10.7.0.1"), CmAddress(b"\2\0\0\0\0\2", "10.7.0.2")
SERVICE = service_id(18515)
LATENCY_NS = 1_000_000
OFFERS = QpOffer(0x11, 0x100, 16, 16), QpOffer(0x22, 0x200, 16, 16)


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a MAD: the delays (ns) after which it arrives; none: it is lost."""

    delays_ns: tuple[int, ...] = (LATENCY_NS,)


LOST = Fate(())


class Network:
    """Managers 0 (active) and 1 (passive). MADs meet the given fates in turn, then none but their latency.

    `events[side]` are those that an application had, which answers as `accepts` and `confirms` say.
    """

    def __init__(
        self,
        fates: Iterable[Fate] = (),
        *,
        accepts: bool | None = True,
        confirms: bool | None = True,
        private_data: bytes = b"welcome",
    ) -> None:
        self.now_ns = 0
        self.drops = Counter[str](), Counter[str]()
        self.managers = tuple(
            CmEndpoint(ADDRESSES[side].ip, 0x1000 + side, random.Random(side), self.drops[side])
            for side in (0, 1)
        )
        self.managers[1].listen(SERVICE)
        self.events: tuple[list[CmEvent], list[CmEvent]] = ([], [])
        self.sent: list[tuple[int, CmMessage]] = []
        self.passive: list[Connection] = []
        self.offers = OFFERS
        self._accepts, self._confirms, self._private_data = accepts, confirms, private_data
        self._fates: Iterator[Fate] = iter(fates)
        self._flying: list[tuple[int, int, int, bytes]] = []
        self._number = count()

    def connect(self, **attributes: int) -> Connection:
        """Have manager 0 ask manager 1."""
        connection = self.managers[0].connect(
            ADDRESSES[1], SERVICE, self.offers[0], self.now_ns, private_data=b"hello", **attributes
        )
        self.settle()
        return connection

    def inject(self, side: int, message: CmMessage, *, source: CmAddress | None = None) -> None:
        """Let a manager have a message as from the other one, or from `source`."""
        self.managers[side].on_mad(source or ADDRESSES[1 - side], message.encode(0), self.now_ns)
        self.settle()

    def settle(self) -> None:
        """Let applications act, and send what is to be sent."""
        busy = True
        while busy:
            busy = False
            for side, manager in enumerate(self.managers):
                for event in manager.take_events():
                    busy = True
                    self.events[side].append(event)
                    self._answer(event)
                for peer, data in manager.take_mads():
                    busy = True
                    _, message = decode_cm_message(data)
                    self.sent.append((side, message))
                    to = next(number for number, address in enumerate(ADDRESSES) if address.ip == peer.ip)
                    for delay_ns in next(self._fates, Fate()).delays_ns:
                        flight = (self.now_ns + delay_ns, next(self._number), to, data)
                        heapq.heappush(self._flying, flight)

    def _answer(self, event: CmEvent) -> None:
        connection = event.connection
        if event.kind is CmEventKind.CONNECT_REQUEST:
            self.passive.append(connection)
            if self._accepts is True:
                connection.accept(self.offers[1], self.now_ns, self._private_data)
            elif self._accepts is False:
                connection.reject(b"no")
        elif event.kind is CmEventKind.CONNECT_RESPONSE:
            if self._confirms is True:
                connection.confirm()
            elif self._confirms is False:
                connection.reject(b"never mind")

    def run(self, until_ns: int | None = None, steps: int = 3000) -> None:
        """Let MADs arrive and deadlines pass, to a time or until nothing more can happen."""
        for _ in range(steps):
            times = [manager.next_deadline_ns() for manager in self.managers]
            next_times = [time for time in times if time is not None]
            next_times += [self._flying[0][0]] if self._flying else []
            if not next_times or (until_ns is not None and min(next_times) > until_ns):
                self.now_ns = max(self.now_ns, until_ns or 0)
                return
            self.now_ns = max(self.now_ns, min(next_times))
            while self._flying and self._flying[0][0] <= self.now_ns:
                _, _, to, data = heapq.heappop(self._flying)
                self.managers[to].on_mad(ADDRESSES[1 - to], data, self.now_ns)
                self.settle()
            for manager in self.managers:
                manager.on_timer(self.now_ns)
            self.settle()
        raise AssertionError(f"not at rest after {steps} steps, at {self.now_ns} ns")

    def kinds(self, side: int) -> list[CmEventKind]:
        """Return what an application was told of."""
        return [event.kind for event in self.events[side]]

    def messages(self, side: int) -> list[str]:
        """Return the names of what a manager sent."""
        return [type(message).__name__ for sender, message in self.sent if sender == side]
