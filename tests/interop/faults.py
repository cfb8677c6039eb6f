# SPDX-License-Identifier: Apache-2.0
"""What befalls frames on the cable, on purpose. Each is a filter: a frame in, those that go on out."""

from __future__ import annotations

import random
from collections.abc import Callable

from .world import Filter, Packet

Chosen = Callable[[Packet], bool]


class Lost:
    """Loses the first `times` packets that are chosen; `seen` counts all that were."""

    def __init__(self, chosen: Chosen, times: int = 1) -> None:
        self.seen = 0
        self._chosen = chosen
        self._left = times

    def __call__(self, frame: bytes) -> list[bytes]:
        """Pass a frame on, or not."""
        packet = Packet.read(True, 0, frame)
        if packet is None or not self._chosen(packet):
            return [frame]
        self.seen += 1
        if self._left == 0:
            return [frame]
        self._left -= 1
        return []


class Spoiled:
    """Flips one bit in the last byte before the ICRC of the first packet that is chosen."""

    def __init__(self, chosen: Chosen) -> None:
        self.done = False
        self._chosen = chosen

    def __call__(self, frame: bytes) -> list[bytes]:
        """Pass a frame on, or a bad one."""
        packet = Packet.read(True, 0, frame)
        if self.done or packet is None or not self._chosen(packet):
            return [frame]
        self.done = True
        return [frame[:-5] + bytes([frame[-5] ^ 1]) + frame[-4:]]


def twice(frame: bytes) -> list[bytes]:
    """Repeat every frame."""
    return [frame, frame]


def unreliable(rng: random.Random, loss: float) -> Filter:
    """Lose a share of all RoCEv2 packets."""

    def passed(frame: bytes) -> list[bytes]:
        is_roce = Packet.read(True, 0, frame) is not None
        return [] if is_roce and rng.random() < loss else [frame]

    return passed
