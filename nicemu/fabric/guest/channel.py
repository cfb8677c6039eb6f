# SPDX-License-Identifier: Apache-2.0
"""The host's end of the channel to a guest's agent, and the processes in the guest as the host sees them.

Nothing is read but while somebody waits for something, by the thread that waits: a guest belongs to one
thread. A process that says much while nobody waits is held up, and others in the guest with it.
"""

from __future__ import annotations

import re
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nicemu.errors import ResourceError

from .agent import ENDED, ERRORS, INPUT, OUTPUT, READY, SIGNAL, START, frame, packed_order, take_frame

_CHUNK_BYTES = 1 << 16
_SHOWN_LETTERS = 2000

Sink = Callable[[int, bytes], object]
"""Takes what a process writes, as it comes: 1 for its output, 2 for its errors, and the bytes."""


class GuestTimeoutError(ResourceError):
    """A guest, or a process in it, took longer than it was given."""


@dataclass(frozen=True, slots=True)
class GuestResult:
    """How a command in a guest ended: its exit status, and what it wrote to its two outputs."""

    status: int
    output: str
    errors: str

    def checked(self) -> GuestResult:
        """Return this result if the status is 0.

        Raises: ResourceError otherwise, with what the command said.
        """
        if self.status:
            said = (self.errors or self.output)[-_SHOWN_LETTERS:].strip()
            raise ResourceError(f"a command in the guest ended with {self.status}: {said}")
        return self


class GuestProcess:
    """A process in a guest. Its `status` is None while it runs, as far as the host has read."""

    def __init__(self, channel: Channel, number: int, sink: Sink | None) -> None:
        self.status: int | None = None
        self._channel = channel
        self._number = number
        self._sink = sink
        self._written = {OUTPUT: bytearray(), ERRORS: bytearray()}
        self._expected_to = 0

    @property
    def output(self) -> str:
        """What it has written to its standard output, as far as the host has read."""
        return self._written[OUTPUT].decode(errors="replace")

    @property
    def errors(self) -> str:
        """What it has written to its standard error, as far as the host has read."""
        return self._written[ERRORS].decode(errors="replace")

    def expect(self, pattern: str, timeout_s: float = 60.0) -> re.Match[str]:
        """Wait until the output has a match behind the one that was expected last; return it.

        Raises: GuestTimeoutError; ResourceError if the process ends without it.
        """
        wanted = re.compile(pattern, re.MULTILINE)
        self._channel.wait_until(
            lambda: self.status is not None or wanted.search(self.output, self._expected_to) is not None,
            timeout_s,
            f"{pattern!r} in the output of a process of the guest; so far: {self._tail()!r}",
        )
        match = wanted.search(self.output, self._expected_to)
        if match is None:
            raise ResourceError(
                f"a process of the guest ended with {self.status}, no {pattern!r}: {self._tail()}"
            )
        self._expected_to = match.end()
        return match

    def wait(self, timeout_s: float | None = None) -> GuestResult:
        """Wait until it has ended; one that takes too long is killed.

        Raises: GuestTimeoutError.
        """
        try:
            self._channel.wait_until(lambda: self.status is not None, timeout_s, "the end of a process")
        except GuestTimeoutError:
            self.signal(signal.SIGKILL)
            raise
        assert self.status is not None
        return GuestResult(self.status, self.output, self.errors)

    def poll(self) -> int | None:
        """Read what has come, without waiting; return its exit status, None while it runs.

        Raises: ResourceError if the guest has ended.
        """
        with suppress(GuestTimeoutError):
            self._channel.wait_until(lambda: self.status is not None, 0.0, "the end of a process")
        return self.status

    def send(self, text: str) -> None:
        """Write to its standard input, which it must read: what does not fit into a pipe stops the guest."""
        self._channel.send(INPUT, self._number, text.encode())

    def end_input(self) -> None:
        """Close its standard input."""
        self._channel.send(INPUT, self._number)

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal, and what it has started too, unless that has made a session of its own."""
        self._channel.send(SIGNAL, self._number, str(int(number)).encode())

    def take(self, kind: int, payload: bytes) -> None:
        """Take note of a frame of the agent's."""
        if kind == ENDED:
            self.status = int(payload)
            return
        self._written[kind] += payload
        if self._sink is not None:
            self._sink(1 if kind == OUTPUT else 2, payload)

    def _tail(self) -> str:
        return (self.output + self.errors)[-_SHOWN_LETTERS:]


class Channel:
    """Frames to and from the agent of one guest."""

    def __init__(self, link: socket.socket, end_s: float, last_words: Callable[[], str]) -> None:
        """Speak over a connected socket until the monotonic clock says `end_s`.

        `last_words` returns what there is to say of a guest that has ended by itself.
        """
        self.release: str | None = None
        self._link = link
        self._end_s = end_s
        self._last_words = last_words
        self._received = bytearray()
        self._processes: dict[int, GuestProcess] = {}
        self._started = 0
        link.setblocking(False)

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, sink: Sink | None
    ) -> GuestProcess:
        """Have the agent start a process."""
        self._started += 1
        process = self._processes[self._started] = GuestProcess(self, self._started, sink)
        self.send(START, self._started, packed_order(list(command), dict(environment), str(folder)))
        return process

    def send(self, kind: int, process: int, payload: bytes = b"") -> None:
        """Send a frame; what arrives meanwhile is read, so that neither side waits for the other.

        Raises: ResourceError if the guest has ended; GuestTimeoutError.
        """
        data = frame(kind, process, payload)
        while data:
            timeout_s = self._end_s - time.monotonic()
            readable, writable, _ = select.select([self._link], [self._link], [], max(timeout_s, 0))
            if readable:
                self._receive()
            if writable:
                try:
                    data = data[self._link.send(data) :]
                except (BrokenPipeError, ConnectionResetError):
                    raise self._ended() from None
            elif not readable:
                raise GuestTimeoutError("the guest takes no orders any more; its time limit is over")

    def wait_until(self, is_so: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        """Read what comes until something is so; `what` that is, for the error.

        Raises: GuestTimeoutError, also where the time of the whole guest is over; ResourceError if it has
        ended.
        """
        now = begun = time.monotonic()
        end = self._end_s if timeout_s is None else min(self._end_s, now + timeout_s)
        while not is_so():
            readable, _, _ = select.select([self._link], [], [], max(end - now, 0))
            if readable:
                self._receive()
            elif (now := time.monotonic()) >= end:
                waited = f"{now - begun:.1f} s of waiting for {what}"
                if end == self._end_s:
                    raise GuestTimeoutError(
                        f"the guest's time limit was over after {waited}; give it a longer one (--time-limit)"
                    )
                raise GuestTimeoutError(f"gave up after {waited}")

    def _receive(self) -> None:
        try:
            data = self._link.recv(_CHUNK_BYTES)
        except ConnectionResetError:
            data = b""
        if not data:
            raise self._ended()
        self._received += data
        while (taken := take_frame(self._received)) is not None:
            kind, number, payload = taken
            if kind == READY:
                self.release = payload.decode()
            elif number in self._processes:
                self._processes[number].take(kind, payload)
                if kind == ENDED:
                    del self._processes[number]

    def _ended(self) -> ResourceError:
        return ResourceError(f"the guest has ended by itself; {self._last_words()}")
