# SPDX-License-Identifier: Apache-2.0
"""A port that wraps a port and answers ARP and ping for a NIC's address."""

from __future__ import annotations

from collections import Counter

from nicemu.wire import MalformedError, parse_ipv4

from .arp import answer_for
from .port import RECEIVE_LIMIT, Port


class AnsweringPort:
    """Carries frames through `inner`; requests for address (`mac`, `ip`) are answered here and not passed on.

    Everything else is passed on, also what is for other addresses. `answered` counts the answers.
    """

    def __init__(self, inner: Port, mac: bytes, ip: str) -> None:
        self.answered = 0
        self._inner = inner
        self._mac = mac
        self._ip = parse_ipv4(ip)

    @property
    def address(self) -> str:
        """Address of the inner port."""
        return self._inner.address

    @property
    def drops(self) -> Counter[str]:
        """Drops of the inner port, and requests that were malformed or whose answer did not fit."""
        return self._inner.drops

    def send(self, frames: list[bytes]) -> int:
        """Send through the inner port."""
        return self._inner.send(frames)

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Return what the inner port received, without what was answered; that may be nothing."""
        passed: list[bytes] = []
        answers: list[bytes] = []
        for frame in self._inner.receive(limit):
            try:
                answer = answer_for(frame, self._mac, self._ip)
            except MalformedError as error:
                self.drops[error.reason] += 1
                continue
            if answer is None:
                passed.append(frame)
            else:
                answers.append(answer)
        if answers:
            sent = self._inner.send(answers)
            self.answered += sent
            if sent < len(answers):
                self.drops["answer.unsent"] += len(answers) - sent
        return passed

    def fileno(self) -> int | None:
        """Descriptor of the inner port."""
        return self._inner.fileno()

    def close(self) -> None:
        """Close the inner port."""
        self._inner.close()
