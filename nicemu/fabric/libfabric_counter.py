# SPDX-License-Identifier: Apache-2.0
"""Counters of a libfabric domain, and programs that are armed in it. Source: fi_cntr(3)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from nicemu.abi import Condition, CounterError, TargetProgram
from nicemu.errors import UsageError

if TYPE_CHECKING:
    from .libfabric import LibfabricTarget

_SPINS = 200
_FIRST_SLEEP_S, _LONGEST_SLEEP_S = 20e-6, 1e-3


class LibfabricCounter:
    """A trigger counter. `counter >= n` is a condition for `Program.when`."""

    __hash__ = object.__hash__

    def __init__(self, target: LibfabricTarget, fid: Any, index: int, name: str) -> None:
        self._target = target
        self._fid = fid
        self._operations = fid.ops
        self.index = index
        self.name = name

    def __ge__(self, threshold: int) -> Condition:
        return Condition(self.index, threshold, self.name)

    @property
    def fid(self) -> Any:
        """The library's counter. Raises: UsageError if it was closed."""
        if self._fid is None:
            raise UsageError(f"counter {self.name} is closed (EINVAL)")
        return self._fid

    def values(self) -> tuple[int, int]:
        """Return (success, errors) as the library has them, and do nothing else."""
        with self._target.lock:
            fid = self.fid
            return int(self._operations.read(fid)), int(self._operations.readerr(fid))

    def read(self) -> tuple[int, int]:
        """Return (success, errors); both become visible eventually."""
        self._target.progress()
        return self.values()

    @property
    def success(self) -> int:
        """The success value."""
        return self.read()[0]

    @property
    def errors(self) -> int:
        """The error value."""
        return self.read()[1]

    def add(self, success: int = 1, errors: int = 0) -> None:
        """Count. The errors are counted first, so that no threshold is passed without them.

        Raises: UsageError (EINVAL) for a count that the provider's counters cannot hold.
        """
        self._check(success, errors)
        with self._target.exclusive() as ledger:
            now = self.values()
            limits = self._target.limits
            if now[0] + success > limits.max_success or now[1] + errors > limits.max_errors:
                raise UsageError(
                    f"counter {self.name} is at {now}; {self._target.provider.name} would wrap at "
                    f"{limits.max_success} (EINVAL)"
                )
            ledger.counted(self.index, success + errors)
            if errors:
                self._call("adderr", errors)
            if success or not errors:
                self._call("add", success)

    def set(self, success: int | None = None, errors: int | None = None) -> None:
        """Replace the success value, the error value or both; the errors first."""
        self._check(success or 0, errors or 0)
        with self._target.exclusive() as ledger:
            ledger.was_set(self.index)
            if errors is not None:
                self._call("seterr", errors)
            if success is not None:
                self._call("set", success)

    def kick(self) -> None:
        """Have the provider look once more at what is due. Source: fi_cntr(3), fi_cntr_add of 0."""
        self._call("add", 0)

    def _call(self, name: str, value: int) -> None:
        status = getattr(self._operations, name)(self.fid, value)
        self._target.domain.lib.check(status, f"{name} {value} at counter {self.name}")

    def _check(self, success: int, errors: int) -> None:
        limits = self._target.limits
        for value, maximum in ((success, limits.max_success), (errors, limits.max_errors)):
            if not isinstance(value, int) or not 0 <= value <= maximum:
                raise UsageError(f"{value!r} is no count from 0 to {maximum} (EINVAL); nothing was changed")

    def wait(self, threshold: int, timeout_s: float = 5.0) -> None:
        """Wait until the success value reaches `threshold`. It polls: timed waits of 1.17 are broken.

        Raises: CounterError if the error value changes first, TimeoutError after `timeout_s`.
        """
        maximum = self._target.limits.max_success
        if not isinstance(threshold, int) or not 0 <= threshold <= maximum:
            raise UsageError(f"a counter reaches 0 to {maximum}, not {threshold!r} (EINVAL)")
        errors_before = self.values()[1]
        deadline = time.monotonic() + timeout_s
        turns, sleep_s = 0, _FIRST_SLEEP_S
        while True:
            success, errors = self.read()
            if success >= threshold:
                return
            if errors != errors_before:
                raise CounterError(self.name, success, errors)
            turns += 1
            if turns < _SPINS:
                continue
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    f"counter {self.name} is at {success} after {timeout_s} s, not at {threshold}"
                )
            time.sleep(sleep_s)
            sleep_s = min(2 * sleep_s, _LONGEST_SLEEP_S)

    def close(self, force: bool = False) -> None:
        """Give the counter back.

        `force` cancels what waits for it, where the provider can. Raises: UsageError (EBUSY) while work
        concerns it, Unsupported for `force` where nothing can be cancelled.
        """
        if self._fid is not None:
            self._target.close_counter(self, force)
            self.is_gone()

    def is_gone(self) -> None:
        """The library's counter is there no more."""
        self._fid = None


class LibfabricProgram(TargetProgram):
    """A program that a libfabric domain can arm."""

    def __init__(self, name: str, target: LibfabricTarget) -> None:
        super().__init__(name)
        self._target = target
        self.handles: list[tuple[int, int]] = []

    def arm(self) -> None:
        """Arm everything, or nothing.

        Raises: TriggerTableFull (ENOSPC), UsageError (EINVAL), Unsupported (ENOSYS) with nothing armed.
        """
        self.handles += self._target.arm(self.work)

    def cancel(self) -> int:
        """Cancel what has not fired; return how many operations. Raises: Unsupported."""
        return sum(self._target.cancel(handle) for handle in self.handles)
