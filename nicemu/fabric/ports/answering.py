# SPDX-License-Identifier: Apache-2.0
"""A port that wraps a port and answers ARP and ping for a NIC's address."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from nicemu.wire import FrameBatch, MalformedError, parse_ipv4

from .arp import PROTOCOL_ICMP, answer_for
from .port import BatchPort, Port


class AnsweringPort(BatchPort):
    """Carries frames through `inner`; requests for address (`mac`, `ip`) are answered here and not passed on.

    Everything else is passed on, also what is for other addresses. `answered` counts the answers.
    """

    def __init__(self, inner: Port, mac: bytes, ip: str) -> None:
        super().__init__()
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

    def send_batch(self, batch: FrameBatch, first: int = 0) -> int:
        """Send through the inner port."""
        return self._inner.send_batch(batch, first)

    def receive_batch(self, batch: FrameBatch, limit: int | None = None) -> int:
        """Receive through the inner port, without what was answered; that may leave nothing."""
        if self._inner.receive_batch(batch, limit):
            asking = self._may_ask(batch)
            if asking.any():
                self._answer(batch, asking)
        return batch.count

    def _may_ask(self, batch: FrameBatch) -> np.ndarray[Any, Any]:
        """Return which frames are ARP or ICMP messages: bool[count]."""
        memory, offsets, lengths = batch.memory, batch.offsets[: batch.count], batch.lengths[: batch.count]
        last = len(memory) - 1
        kind = memory[np.minimum(offsets + 12, last)] == 0x08
        low = memory[np.minimum(offsets + 13, last)]
        is_icmp = (low == 0) & (memory[np.minimum(offsets + 23, last)] == PROTOCOL_ICMP) & (lengths > 23)
        asking: np.ndarray[Any, Any] = kind & ((low == 0x06) | is_icmp)
        return asking

    def _answer(self, batch: FrameBatch, asking: np.ndarray[Any, Any]) -> None:
        """Answer what asks for the NIC, and take it out of the batch, with what is malformed."""
        answers: list[bytes] = []
        kept = np.ones(batch.count, bool)
        frames = batch.frames()
        for number in asking.nonzero()[0].tolist():
            try:
                answer = answer_for(frames[number], self._mac, self._ip)
            except MalformedError as error:
                self.drops[error.reason] += 1
                kept[number] = False
                continue
            if answer is not None:
                answers.append(answer)
                kept[number] = False
        batch.keep(kept)
        if answers:
            sent = self._inner.send(answers)
            self.answered += sent
            if sent < len(answers):
                self.drops["answer.unsent"] += len(answers) - sent

    def fileno(self) -> int | None:
        """Descriptor of the inner port."""
        return self._inner.fileno()

    def close(self) -> None:
        """Close the inner port."""
        self._inner.close()
