# SPDX-License-Identifier: Apache-2.0
"""Programs that a NIC can arm: whole, or a window of them at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicemu.abi import DeferredWork, TargetProgram, place, whole

if TYPE_CHECKING:
    from .device import Nic


class ArmableProgram(TargetProgram):
    """A program that this NIC can arm."""

    def __init__(self, name: str, nic: Nic) -> None:
        super().__init__(name, target=nic)
        self._nic = nic
        self.handles: list[tuple[int, int]] = []
        self._windows: list[int] = []
        self._places: list[str] = []

    def append(self, work: DeferredWork) -> None:
        """Add an operation."""
        super().append(work)
        if self._nic.log is not None:
            self._places.append(place())

    def _tell(self, **what: object) -> None:
        """Put down which operations these are."""
        if self._nic.log is not None:
            nic = self._nic.connection.nic_name
            self._nic.log.add_here("program", nic=nic, name=self.name, steps=self._places, **what)

    def arm(self) -> None:
        """Arm everything, or nothing.

        Raises: TriggerTableFull (ENOSPC), UsageError (EINVAL, EACCES), Unsupported (ENOSYS), with nothing
        armed.
        """
        self.check_written()
        handles = self._nic.arm(self.work)
        self.handles += handles
        self._tell(sequences=[sequence for _, sequence in handles])

    def window(self, size: int) -> None:
        """Arm the first `size` operations, or none; the NIC arms the next one whenever one has fired.

        Operations are armed in the order they were written: write what fires first, first.
        Raises: as `arm`, and UsageError for a size below 1.
        """
        self.check_written()
        size = whole(size, "the size of a window", least=1)
        if self.work:
            self._windows.append(self._nic.arm_window(self.work, size))
            self._tell(window=self._windows[-1])

    def cancel(self) -> int:
        """Cancel what has not fired, also what a window has not armed yet; return how many operations.

        Raises: Unsupported where what `arm` has armed cannot be cancelled by itself; windows are by then.
        """
        count = 0
        while self._windows:
            count += self._nic.cancel_window(self._windows[-1])
            self._windows.pop()
        return count + sum(self._nic.cancel(handle) for handle in self.handles)
