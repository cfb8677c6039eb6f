# SPDX-License-Identifier: Apache-2.0
"""The stepper's stream: work in order in virtual time, and what each piece of it touches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nicemu.abi import SharedMemory, Span, registers
from nicemu.errors import NicemuError
from nicemu.nic import Footprint, Use
from nicemu.pcie import Window, load_u64, store_u64
from nicemu.programs import find_program, load_module

from .small_steps import About, Watch

if TYPE_CHECKING:
    from .simulation import Simulation

SYNCHRONIZE_NS = 3_600_000_000_000
_GAP_BYTES = 64
"""Changed bytes that lie closer together count as one range."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A piece of a stream's work: `action` happens `cost_ns` after it `may_begin`."""

    label: str
    action: Callable[[], object]
    watch: Watch
    cost_ns: int = 0
    may_begin: Callable[[], bool] = lambda: True


class SteppedStream:
    """Implements `nicemu.host.Stream` in virtual time: work in order, each kernel `cost_ns` long."""

    def __init__(self, simulation: Simulation, cost_ns: int = 0, number: int = 0) -> None:
        self._simulation = simulation
        self._cost_ns = cost_ns
        self._number = number
        self._work: deque[_Item] = deque()
        self._is_busy = False
        self._kernels: Any = None
        self._kernel_memory: list[Any] = []
        self._results: list[Any] = []
        self._waiting: dict[int, int] = {}

    def _put(self, item: _Item) -> None:
        self._work.append(item)
        self._begin()

    def _begin(self) -> None:
        """Begin what stands first, once it may: the simulation asks again whenever something happened."""
        if self._is_busy or not self._work:
            return
        item = self._work[0]
        if not item.may_begin():
            self._simulation.when(item.may_begin, self._begin)
            return
        self._is_busy = True
        self._work.popleft()
        about = About(("stream", self._number), f"stream {self._number}: {item.label}", item.watch)
        when_ns = self._simulation.clock.now_ns() + item.cost_ns
        self._simulation.schedule(when_ns, lambda: self._end(item.action), about)

    def _end(self, action: Callable[[], object]) -> None:
        self._is_busy = False
        try:
            action()
        except BaseException:
            self._work.clear()  # what stands behind a kernel that fails is not carried out
            self._waiting.clear()
            raise
        self._begin()

    def load(self, path: str | Path, memory: dict[str, Any], **settings: Any) -> None:  # noqa: ANN401
        """Load a kernel module."""
        arrays: dict[str, np.ndarray[Any, Any]] = {name: piece.array for name, piece in memory.items()}
        self._kernels = load_module(find_program(path)).kernels(arrays, **settings)
        self._kernel_memory = list(memory.values())

    def launch(
        self,
        kernel: str,
        *,
        reads: Iterable[Span] = (),
        writes: Iterable[Span] = (),
        **operands: Any,  # noqa: ANN401
    ) -> None:
        """Put a kernel into the stream; its effects are there when its time is over."""
        self._tell(kernel, reads, writes)
        function = getattr(self._kernels, kernel)
        pieces = self._kernel_memory
        self._put(
            _Item(
                f"kernel {kernel}",
                lambda: self._results.append(function(**operands)),
                lambda: self._watch_memory(self._windows_of(pieces)),
                self._cost_ns,
            )
        )

    def _tell(self, name: str, reads: Iterable[Span], writes: Iterable[Span]) -> None:
        if self._simulation.host_log is not None:
            self._simulation.host_log.submit(self, name, reads, writes)

    def submit(
        self, work: Callable[[], Any], reads: Iterable[Span] = (), writes: Iterable[Span] = ()
    ) -> None:
        """Put a function into the stream; what it returns is a result as a kernel's.

        `reads` and `writes` declare what it touches, to find races.
        """

        def watch() -> Callable[[], Footprint]:
            tell = self._watch_memory(list(self._windows()))

            def told() -> Footprint:
                touched = tell()
                touched.use(Use.WRITE, "variables of the test")
                return touched

            return told

        name = getattr(work, "__name__", "a function")
        label = "a function" if name == "<lambda>" else name
        self._tell(label, reads, writes)
        self._put(_Item(label, lambda: self._results.append(work()), watch, self._cost_ns))

    def store(self, memory: SharedMemory, offset_bytes: int, value: int) -> None:
        """Store when the work before it is done."""
        self._put(
            _Item(
                self._store_label(memory, offset_bytes, value),
                lambda: store_u64(memory.address + offset_bytes, value),
                lambda: lambda: self._touches(memory, offset_bytes, True),
            )
        )

    def add_value(self, memory: SharedMemory, offset_bytes: int, by: int) -> None:
        """Add to 8 bytes, which nobody else writes, when the work before it is done."""
        address = memory.address + offset_bytes
        self._waiting[address] = self._waiting.get(address, 0) + by

        def add() -> None:
            self._waiting[address] -= by
            store_u64(address, load_u64(address) + by)

        self._put(
            _Item(
                self._store_label(memory, offset_bytes, load_u64(address) + self._waiting[address]),
                add,
                lambda: lambda: self._touches(memory, offset_bytes, True),
            )
        )

    def wait_value(self, memory: SharedMemory, offset_bytes: int, value: int) -> None:
        """Go on when the 8 bytes are `value` or more."""
        self._put(
            _Item(
                "its wait is over",
                lambda: None,
                lambda: lambda: self._touches(memory, offset_bytes, False),
                may_begin=lambda: load_u64(memory.address + offset_bytes) >= value,
            )
        )

    def synchronize(self) -> list[Any]:
        """Advance to the end of the stream.

        Raises: NicemuError if it does not end: it waits for a counter that nothing will count.
        """
        finished = self._simulation.run_until(lambda: not self._work and not self._is_busy, SYNCHRONIZE_NS)
        if not finished:
            raise NicemuError(f"{len(self._work)} items of the stream do not begin")
        if self._simulation.host_log is not None:
            self._simulation.host_log.synchronize(self)
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        """Nothing is held."""

    # What its work touches, for a chooser

    def _windows(self) -> Iterator[tuple[str, Window]]:
        """Memory of host processes: the NIC that reaches it, and where."""
        for name, nic in self._simulation.nics.items():
            for piece in nic.memory.pieces.values():
                if piece.owner:
                    yield name, piece.window

    def _windows_of(self, pieces: list[Any]) -> list[tuple[str, Window]]:
        addresses = {piece.shared.address for piece in pieces}
        return [(nic, window) for nic, window in self._windows() if window.backing.address in addresses]

    @staticmethod
    def _watch_memory(windows: list[tuple[str, Window]]) -> Callable[[], Footprint]:
        """Note that work reads all of `windows`, and writes what differs afterwards."""
        before = [np.frombuffer(window.backing.view, np.uint8).copy() for _, window in windows]

        def told() -> Footprint:
            touched = Footprint()
            for (nic, window), old in zip(windows, before, strict=True):
                touched.move(nic, window.bus_address, window.length_bytes, False)
                changed = np.flatnonzero(old != np.frombuffer(window.backing.view, np.uint8))
                for run in np.split(changed, np.flatnonzero(np.diff(changed) > _GAP_BYTES) + 1):
                    if len(run):
                        start = window.bus_address + int(run[0])
                        touched.move(nic, start, int(run[-1] - run[0]) + 1, True)
            return touched

        return told

    def _bar_of(self, memory: SharedMemory) -> tuple[str, int] | None:
        """Return the NIC and owner whose BAR `memory` is."""
        for name, nic in self._simulation.nics.items():
            for number, owner in nic.owners.items():
                if owner.bar.address == memory.address:
                    return name, number
        return None

    def _store_label(self, memory: SharedMemory, offset_bytes: int, value: int) -> str:
        cell = (offset_bytes - registers.DOORBELLS) // registers.DOORBELL_BYTES
        bar = self._bar_of(memory)
        if bar is None or not 0 <= cell < registers.DOORBELL_COUNT:
            return f"stores {value}"
        return f"rings doorbell cell {cell} of {bar[0]} ({value})"

    def _touches(self, memory: SharedMemory, offset_bytes: int, is_written: bool) -> Footprint:
        touched = Footprint()
        bar = self._bar_of(memory)
        if bar is None:
            for nic, window in self._windows():
                if window.backing.address == memory.address:
                    touched.move(nic, window.bus_address + offset_bytes, 8, is_written)
            return touched
        name, owner = bar
        cell = (offset_bytes - registers.DOORBELLS) // registers.DOORBELL_BYTES
        counter = (offset_bytes - registers.WRITE_BACK) // registers.WRITE_BACK_BYTES
        if is_written and 0 <= cell < registers.DOORBELL_COUNT:
            touched.use(Use.MAKE, "cell", name, owner, cell)
        elif not is_written and 0 <= counter < registers.MAX_COUNTERS:
            touched.use(Use.READ, "counter", name, counter)
        else:
            touched.all_of(name)
        return touched
