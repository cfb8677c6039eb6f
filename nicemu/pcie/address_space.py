# SPDX-License-Identifier: Apache-2.0
"""What a bus address means: windows over backings, and who moved how many bytes through each."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

from nicemu.errors import UsageError

from .backing import Backing


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A range of bus addresses. `kind` says whose memory it is: "nic", "host" or "gpu"."""

    bus_address: int
    length_bytes: int
    kind: str
    backing: Backing

    @property
    def end(self) -> int:
        """First bus address behind the window."""
        return self.bus_address + self.length_bytes


class AddressSpace:
    """Bus addresses of one card's side of the PCIe fabric.

    DMA goes through `view` (or `read` and `write`): a range must lie inside one window, else UsageError and
    no byte moves. `traffic[initiator, kind]` counts the bytes an initiator moved to or from memory of a kind,
    which is how a test sees that a peer-to-peer transfer never touched host memory.
    """

    def __init__(self) -> None:
        self._windows: list[Window] = []
        self._starts: list[int] = []
        self.traffic: Counter[tuple[str, str]] = Counter()

    def add(self, bus_address: int, kind: str, backing: Backing) -> Window:
        """Map `backing` at `bus_address`.

        Raises: UsageError if it overlaps another window, or is not a range of 64-bit addresses.
        """
        window = Window(bus_address, backing.length_bytes, kind, backing)
        if bus_address < 0 or window.end > 1 << 64:
            raise UsageError(
                f"{window.length_bytes} bytes at {bus_address:#x} are not a range of 64-bit addresses"
            )
        place = bisect_right(self._starts, bus_address)
        before = self._windows[place - 1] if place else None
        after = self._windows[place] if place < len(self._windows) else None
        if (before and before.end > bus_address) or (after and window.end > after.bus_address):
            raise UsageError(f"a window [{bus_address:#x}, {window.end:#x}) overlaps another one")
        self._windows.insert(place, window)
        self._starts.insert(place, bus_address)
        return window

    def remove(self, window: Window) -> None:
        """Unmap a window; its bus addresses mean nothing from here on."""
        place = self._windows.index(window)
        del self._windows[place], self._starts[place]

    def find(self, bus_address: int, length_bytes: int) -> Window:
        """Return the window that holds the whole range.

        Raises: UsageError if no single window does.
        """
        if length_bytes < 0:
            raise UsageError(f"a range of {length_bytes} bytes at {bus_address:#x} cannot be accessed")
        place = bisect_right(self._starts, bus_address) - 1
        window = self._windows[place] if place >= 0 else None
        if window is None or bus_address + min(length_bytes, 1) > window.end:
            raise UsageError(f"no memory is mapped at bus address {bus_address:#x}")
        if bus_address + length_bytes > window.end:
            raise UsageError(
                f"[{bus_address:#x}, {bus_address + length_bytes:#x}) ends outside its window "
                f"[{window.bus_address:#x}, {window.end:#x})"
            )
        return window

    def view(self, bus_address: int, length_bytes: int, initiator: str = "") -> memoryview:
        """Return the memory itself, for a DMA of `length_bytes` by `initiator` (counted in `traffic`)."""
        window = self.find(bus_address, length_bytes)
        if initiator:
            self.traffic[initiator, window.kind] += length_bytes
        start = bus_address - window.bus_address
        return window.backing.view[start : start + length_bytes]

    def read(self, bus_address: int, length_bytes: int, initiator: str = "") -> bytes:
        """Return a copy of the bytes at `bus_address`."""
        return bytes(self.view(bus_address, length_bytes, initiator))

    def write(self, bus_address: int, data: bytes | memoryview, initiator: str = "") -> None:
        """Store `data` at `bus_address`."""
        self.view(bus_address, len(data), initiator)[:] = data
