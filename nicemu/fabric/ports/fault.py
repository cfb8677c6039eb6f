# SPDX-License-Identifier: Apache-2.0
"""A port that wraps a port and spoils what is sent through it; the seed decides which frames."""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass

from nicemu.errors import UsageError

from .port import RECEIVE_LIMIT, ListPort, Port, check_frames


@dataclass(frozen=True, slots=True)
class FaultRates:
    """How likely each fault is for a frame, 0 to 1."""

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    corruption: float = 0.0

    def __post_init__(self) -> None:
        for name in ("loss", "duplication", "reordering", "corruption"):
            rate = getattr(self, name)
            if not 0.0 <= rate <= 1.0:
                raise UsageError(f"the rate of {name} is {rate}; it must be 0 to 1")


class FaultPort(ListPort):
    """Sends through `inner`: loses, repeats or corrupts (one bit) frames, or lets the next one overtake.

    A frame that is held back goes out behind the next frame, or when frames are received. `injected` counts
    faults by name. What is received is not changed: wrap the other end too.
    """

    def __init__(self, inner: Port, rng: random.Random, rates: FaultRates) -> None:
        self.injected: Counter[str] = Counter()
        self._inner = inner
        self._rng = rng
        self._rates = rates
        self._held: bytes | None = None
        self._pending: deque[bytes] = deque()  # accepted here, not yet by the inner port

    @property
    def address(self) -> str:
        """Address of the inner port."""
        return self._inner.address

    @property
    def drops(self) -> Counter[str]:
        """Drops of the inner port."""
        return self._inner.drops

    def send(self, frames: list[bytes]) -> int:
        """Accept frames one by one until the inner port takes no more; what it left is tried again later."""
        check_frames(frames)
        self._push()
        for accepted, frame in enumerate(frames):
            if self._pending:
                return accepted
            self._spoil(frame)
            self._push()
        return len(frames)

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Return what the inner port received."""
        if self._held is not None:
            self._pending.append(self._held)
            self._held = None
        self._push()
        return self._inner.receive(limit)

    def fileno(self) -> int | None:
        """Descriptor of the inner port."""
        return self._inner.fileno()

    def close(self) -> None:
        """Close the inner port; a frame that is held back is lost."""
        self._held = None
        self._pending.clear()
        self._inner.close()

    def _spoil(self, frame: bytes) -> None:
        if self._happens("loss", self._rates.loss):
            return
        if self._happens("corruption", self._rates.corruption):
            bit = self._rng.randrange(8 * len(frame))
            spoiled = bytearray(frame)
            spoiled[bit >> 3] ^= 1 << (bit & 7)
            frame = bytes(spoiled)
        if self._held is None and self._happens("reordering", self._rates.reordering):
            self._held = frame
            return
        self._pending.append(frame)
        if self._happens("duplication", self._rates.duplication):
            self._pending.append(frame)
        if self._held is not None:
            self._pending.append(self._held)
            self._held = None

    def _happens(self, name: str, rate: float) -> bool:
        if rate == 0.0 or self._rng.random() >= rate:
            return False
        self.injected[name] += 1
        return True

    def _push(self) -> None:
        accepted = self._inner.send(list(self._pending))
        for _ in range(accepted):
            self._pending.popleft()
