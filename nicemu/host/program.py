# SPDX-License-Identifier: Apache-2.0
"""Programs that a NIC can arm: whole, or a window of them at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicemu.abi import TargetProgram
from nicemu.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from .device import Nic


class TriggerTableFull(ResourceError):  # noqa: N818 - the name the specification's readers know (ENOSPC)
    """There are not enough trigger slots; nothing was armed."""


class ArmableProgram(TargetProgram):
    """A program that this NIC can arm."""

    def __init__(self, name: str, nic: Nic) -> None:
        super().__init__(name)
        self._nic = nic
        self.handles: list[tuple[int, int]] = []
        self._windows: list[int] = []

    def arm(self) -> None:
        """Arm everything, or nothing.

        Raises: TriggerTableFull (ENOSPC), UsageError (EINVAL, EACCES) with nothing armed.
        """
        self.handles += self._nic.arm(self.work)

    def window(self, size: int) -> None:
        """Arm the first `size` operations, or none; the NIC arms the next one whenever one has fired.

        Operations are armed in the order they were written: write what fires first, first.
        Raises: as `arm`, and UsageError for a size below 1.
        """
        if size < 1:
            raise UsageError(f"a window holds at least one operation, not {size}")
        if self.work:
            self._windows.append(self._nic.arm_window(self.work, size))

    def cancel(self) -> int:
        """Cancel what has not fired, also what a window has not armed yet; return how many operations."""
        count = sum(self._nic.cancel(handle) for handle in self.handles)
        for window in self._windows:
            count += self._nic.cancel_window(window)
        self._windows.clear()
        return count
