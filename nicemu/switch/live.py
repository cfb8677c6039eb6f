# SPDX-License-Identifier: Apache-2.0
"""Interfaces of this machine as the ports of a program: frames come in and leave until somebody ends it."""

from __future__ import annotations

import os
import queue
import select
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from nicemu.clock import Clock, WallClock
from nicemu.errors import UsageError
from nicemu.fabric import MAX_FRAME_BYTES, FinishedPacketPort, Port, TapPort, XdpPort
from nicemu.pipeline import Engine
from nicemu.wire import ETHERNET_HEADER_BYTES, FrameBatch

from .forwarding import Forwarder, Hear, Summary
from .shared_engine import SharedEngine

if TYPE_CHECKING:
    from .batches import BatchForwarder

Array = np.ndarray[Any, Any]
Result = TypeVar("Result")

TURN_S = 0.5
"""Longest sleep, so that the caller is told how far things are."""
RETRY_S = 0.001
"""Sleep where a port has no descriptor to wait for."""
MAX_SENT = 256
"""Frames of a controller that wait; it is kept waiting with more."""


def open_port(text: str) -> Port:
    """Return a port on an interface: its name, xdp:NAME, or tap:NAME. Raises: UsageError."""
    kind, colon, name = text.partition(":")
    if colon and kind == "xdp":
        return XdpPort(name)
    if colon and kind == "tap":
        return TapPort(name)
    try:
        return FinishedPacketPort(name if kind == "packet" else text)
    except UsageError as error:
        hint = f"; NAME, xdp:NAME or tap:NAME was expected, and {kind}: is neither" if colon else ""
        raise UsageError(f"{error}{hint}") from None


class LiveSwitch(SharedEngine):
    """Ports with an engine between them. It is the PipelineTarget of a controller, too: what that asks for is
    done between two batches, at the time that it is then, and its frames leave as those do that come in.
    The engine's time is `clock`'s, from 0 when the switch is made, as timestamps of a BMv2 switch count.
    `hear` is told what the program logs, which then takes packets one at a time; its times are the wall's.
    What became of packets is added to `summary`, and is whole once `forward` has ended, by an error, too.
    """

    def __init__(
        self,
        engine: Engine,
        ports: Mapping[int, Port],
        hear: Hear | None = None,
        clock: Clock | None = None,
        summary: Summary | None = None,
    ) -> None:
        self._turns = threading.Lock()
        super().__init__(engine, self._turns)
        self._ports = ports
        self._now_ns = _since_now(WallClock() if clock is None else clock)
        self.summary = Summary() if summary is None else summary
        self._path = _Path(engine, ports, self._turns, hear, self._now_ns, self.summary)
        self._sent: queue.Queue[bytes] = queue.Queue(MAX_SENT)
        self._has_ended = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        os.close(self._wake)

    def run(self, work: Callable[[Engine], Result]) -> Result:
        """Return what `work` makes of the engine, between two packets."""

        def now(engine: Engine) -> Result:
            engine.tick(self._now_ns())
            return work(engine)

        return super().run(now)

    def inject(self, frame: bytes) -> None:
        """Take a frame from the controller, once there is room for it; none any more when all has ended."""
        while not self._has_ended:
            with suppress(queue.Full):
                self._sent.put(frame, timeout=TURN_S)
                os.eventfd_write(self._wake, 1)
                return

    def forward(
        self,
        interrupted: int,
        seconds: float | None,
        tell: Callable[[Summary], None] = lambda summary: None,
    ) -> Summary:
        """Forward between ports until the descriptor `interrupted` is readable, or for so many seconds.

        An engine with a kernel takes the frames of a batch at once. What leaves to a port without an
        interface, or to one whose queue is full, is counted as dropped (switch.no_such_port,
        switch.port_full), and so is what is no frame (switch.no_frame), and what a port could not carry, by
        the reasons of its `drops`; frames for the host end here.
        """
        try:
            self._forward_until(interrupted, seconds, tell)
        finally:
            self._has_ended = True  # or a controller with more to send would wait for ever
            self._path.end()
        return self.summary

    def _forward_until(
        self, interrupted: int, seconds: float | None, tell: Callable[[Summary], None]
    ) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        files = [port.fileno() for port in self._ports.values()]
        waited = [interrupted, self._wake, *(file for file in files if file is not None)]
        longest = RETRY_S if None in files else TURN_S
        came = True
        while True:
            left = longest if end is None else min(longest, end - time.monotonic())
            if left <= 0:
                break
            ready, _, _ = select.select(waited, [], [], 0 if came else left)
            if interrupted in ready:
                break
            if self._wake in ready:
                os.eventfd_read(self._wake)
                self._forward_sent()
            came = any([self._path.forward(number) for number in self._ports])
            tell(self.summary)

    def _forward_sent(self) -> None:
        """Forward what the controller has sent."""
        for _ in range(MAX_SENT):
            try:
                frame = self._sent.get_nowait()
            except queue.Empty:
                return
            self._path.forward_from_host(frame)
        os.eventfd_write(self._wake, 1)  # there may be more: those that came in have their turn first


def _since_now(clock: Clock) -> Callable[[], int]:
    """Return what tells the nanoseconds from now on."""
    begun_ns = clock.now_ns()
    return lambda: clock.now_ns() - begun_ns


def _by_the_wall(hear: Hear, now_ns: Callable[[], int]) -> Hear:
    """Return what `hear` hears with times since 1970 instead of those that `now_ns` tells."""
    begun_ns = time.time_ns() - now_ns()
    return lambda at_ns, port, text: hear(begun_ns + at_ns, port, text)


class _Path:
    """The way of frames between ports, in batches while the engine has a kernel and nobody hears its log."""

    def __init__(
        self,
        engine: Engine,
        ports: Mapping[int, Port],
        lock: threading.Lock,
        hear: Hear | None,
        now_ns: Callable[[], int],
        summary: Summary,
    ) -> None:
        self._engine, self._ports, self._lock, self._now_ns = engine, ports, lock, now_ns
        self._summary = summary
        self._not_taken: Counter[int] = Counter()
        self._forwarder = Forwarder(
            engine, self._summary, None if hear is None else _by_the_wall(hear, now_ns)
        )
        self._is_heard = hear is not None
        self._compiled: BatchForwarder | None = None
        self._came = FrameBatch()

    def forward(self, number: int) -> bool:
        """Forward what has come in on a port; return whether something has."""
        if not self._ports[number].receive_batch(self._came):
            return False
        with self._lock:
            if self._is_heard or getattr(self._engine, "kernel", None) is None:
                self._send(self._departures(number, self._now_ns()))
            else:
                self._forward_batch(number, self._now_ns())
        return True

    def forward_from_host(self, frame: bytes) -> None:
        """Forward one frame that the controller sends."""
        with self._lock:
            self._send(self._forwarder.departures(frame, self._engine.cpu_port, self._now_ns()))

    def _departures(self, number: int, now_ns: int) -> Iterator[tuple[int | str, bytes]]:
        for frame in self._came.frames():
            yield from self._forwarder.departures(frame, number, now_ns)

    def _send(self, departures: Iterable[tuple[int | str, bytes]]) -> None:
        leaving: dict[int, list[bytes]] = defaultdict(list)
        for to, frame in departures:
            if not isinstance(to, int):
                self._engine.send_to_controller(frame)
            elif to not in self._ports:
                self._drop("switch.no_such_port", 1, to)
            elif not ETHERNET_HEADER_BYTES <= len(frame) <= MAX_FRAME_BYTES:
                self._drop("switch.no_frame", 1, to)
            else:
                leaving[to].append(frame)
        for to, queued in leaving.items():
            self._hand_over(to, len(queued), methodcaller("send", queued))

    def _forward_batch(self, number: int, now_ns: int) -> None:
        from nicemu.kernels import SPLIT

        from .batches import BatchForwarder, Frames
        from .packing import departures

        if self._compiled is None:
            self._compiled = BatchForwarder(self._engine, self._summary)  # type: ignore[arg-type]
        came = self._came
        frames = Frames(
            came.address,
            came.offsets[: came.count].astype(np.uint64),
            came.lengths[: came.count].astype(np.uint64),
            np.full(came.count, now_ns, np.uint64),
            np.full(came.count, number, np.uint64),
        )
        for packets, told in self._compiled.run(frames):
            if told or (packets["verdict"] == SPLIT).any():
                self._send((to, frame) for to, _, frame in departures(packets, told))
            else:
                self._send_packets(packets, self._compiled.memory)

    def _send_packets(self, packets: Array, memory: Array) -> None:
        """Send what leaves by ports from where it lies. packets: PACKET[n]; memory: uint8[]."""
        from nicemu.kernels import TO_HOST, TO_PORT

        for one in packets[packets["verdict"] == TO_HOST]:
            begin = int(one["address"]) - memory.ctypes.data + int(one["out_offset"])
            self._engine.send_to_controller(memory[begin : begin + int(one["out_length"])].tobytes())
        leaving = packets[packets["verdict"] == TO_PORT]
        for to in np.unique(leaving["out_port"]).tolist():
            chosen = leaving[leaving["out_port"] == to]
            if to not in self._ports:
                self._drop("switch.no_such_port", len(chosen), to)
                continue
            lengths = chosen["out_length"]
            fits = chosen[(lengths >= ETHERNET_HEADER_BYTES) & (lengths <= MAX_FRAME_BYTES)]
            self._drop("switch.no_frame", len(chosen) - len(fits), to)
            start = fits["address"].astype(np.int64) - memory.ctypes.data + fits["out_offset"]
            batch = FrameBatch.over(memory, start, fits["out_length"].astype(np.int64))
            self._hand_over(to, len(fits), methodcaller("send_batch", batch))

    def _hand_over(self, to: int, count: int, send: Callable[[Port], int]) -> None:
        """Have a port take so many frames; what it drops of them, and says so, has not left either."""
        port = self._ports[to]
        before = sum(port.drops.values())
        self._drop("switch.port_full", count - send(port), to)
        self._not_taken[to] += sum(port.drops.values()) - before

    def _drop(self, reason: str, count: int, to: int) -> None:
        """Count frames that the program has sent and no interface has taken."""
        if count:
            self._summary.dropped[reason] += count
            self._not_taken[to] += count

    def end(self) -> None:
        """Make the summary whole, and give memory back."""
        if self._compiled is not None:
            with suppress(BufferError):  # where an error was raised, frames are still looked at
                self._compiled.close()
        for port in self._ports.values():
            self._summary.dropped.update(port.drops)
        for to, count in self._not_taken.items():
            self._summary.out[to] -= count
            if self._summary.out[to] <= 0:
                del self._summary.out[to]
        self._not_taken.clear()
