# SPDX-License-Identifier: Apache-2.0
"""Arrays of meters whose states lie in memory, where kernels mark packets.

A place that nothing was said of is configured by its first packet, as all others are, from a state that lies
behind the last place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, MutableMapping
from typing import cast

import numpy as np

from nicemu.lookup import Memory
from nicemu.pipeline import Meter, MeterArray, MeterConfig, MeterMode, MeterState

METER_BYTES = ctypes.sizeof(MeterState)


class _Meters(MutableMapping[int, Meter]):
    """The meters of an array by index: those that were configured, or have marked a packet."""

    def __init__(self, memory: Memory, size: int) -> None:
        self._memory, self._size = memory, size
        self._held: dict[int, Meter] = {}
        self.others = Meter()
        self.others.move(self.state(size))

    def state(self, index: int) -> int:
        """Return the address of a place's state."""
        return self._memory.address + METER_BYTES * index

    def __getitem__(self, index: int) -> Meter:
        if index not in self:
            raise KeyError(index)
        if index not in self._held:
            meter = self._held[index] = Meter(self.others.config)
            meter.move(self.state(index))
        return self._held[index]

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int) or not 0 <= index < self._size:
            return False
        return bool(MeterState.from_address(self.state(index)).mode != MeterMode.UNCONFIGURED)

    def __setitem__(self, index: int, meter: Meter) -> None:
        if not 0 <= index < self._size:
            raise KeyError(index)
        if self._held.get(index) is meter:
            return
        if index in self._held:
            self._held[index].leave()
        self._held[index] = meter
        ctypes.memset(self.state(index), 0, METER_BYTES)
        meter.move(self.state(index))
        state = MeterState.from_address(self.state(index))
        state.mode = state.mode or MeterMode.PASS

    def __delitem__(self, index: int) -> None:
        if index not in self:
            raise KeyError(index)
        if index in self._held:
            self._held.pop(index).leave()
        ctypes.memset(self.state(index), 0, METER_BYTES)

    def __iter__(self) -> Iterator[int]:
        with self._memory.view as view:
            words = METER_BYTES // 8
            cells = np.frombuffer(view, np.uint64, self._size * words).reshape(self._size, words)
            used = np.flatnonzero(cells[:, 0]).tolist()
            del cells
        return iter(used)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        """Forget all meters."""
        for index in list(self):
            del self[index]


class KernelMeters(MeterArray):
    """A meter array in memory."""

    def __init__(self, name: str, size: int, in_bytes: bool) -> None:
        self.memory = Memory(METER_BYTES * (size + 1))
        self._kept = _Meters(self.memory, size)
        super().__init__(name, size, in_bytes, cast("dict[int, Meter]", self._kept))

    @property
    def others(self) -> MeterConfig | None:
        """How all others are configured."""
        return self._kept.others.config

    @others.setter
    def others(self, config: MeterConfig | None) -> None:
        self._kept.others.configure(config, 0)
