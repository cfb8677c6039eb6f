# SPDX-License-Identifier: Apache-2.0
"""Counters of a libfabric domain, and programs that are armed in it. Source: fi_cntr(3)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from nicemu.abi import (
    Condition,
    CounterError,
    TargetProgram,
    Unsupported,
    seconds,
    shown,
    whole,
    yes_or_no,
)
from nicemu.errors import UsageError

if TYPE_CHECKING:
    from .target import LibfabricTarget

_SPINS = 200
_AGAIN, _TRY_AGAIN_S = -11, 1.0
_FIRST_SLEEP_S, _LONGEST_SLEEP_S = 20e-6, 1e-3
_WRITTEN_BACK_WITHIN_S = 1e-3
_NO_DOORBELL = (
    "libfabric has no doorbell that a stream of a GPU or of another process could store into; use "
    "HostStream(), whose thread counts when it gets there"
)


class RingingStream(Protocol):
    """A stream of this process, such as `HostStream`: it calls functions in order."""

    def submit(self, work: Callable[[], Any]) -> None:
        """Put a function into the stream."""


class LibfabricCounter:
    """A trigger counter. `counter >= n` is a condition for `Program.when`."""

    __hash__ = object.__hash__

    def __init__(self, target: LibfabricTarget, fid: Any, index: int, name: str) -> None:
        self._target = target
        self._fid = fid
        self._operations = fid.ops
        self.index = index
        self.name = name

    @property
    def target(self) -> object:
        """The target that it is a counter of."""
        return self._target

    @property
    def closed(self) -> bool:
        """Whether it was given back; another counter may have its number by then."""
        return self._fid is None

    def __ge__(self, threshold: int) -> Condition:
        threshold = self._threshold(threshold)
        if self.closed:
            raise UsageError(f"counter {self.name} is closed (EINVAL)")
        return Condition(self.index, threshold, self.name, self._target, self)

    def next(self, count: int = 1) -> Condition:
        """A condition `count` counts from now; thresholds are absolute, so write it where "now" is meant.

        Counts that arrive while this runs are in it or not. Where errors do not fire anything, they are no
        counts here either. Raises: UsageError for less than 1, or for what no counter reaches.
        """
        count = whole(count, "the number of counts from now", 1)
        success, errors = self._settled()
        now = success + errors if self._target.provider.errors_fire else success
        return self >= now + count

    def _threshold(self, threshold: int) -> int:
        return whole(threshold, "a threshold", 0, self._target.limits.max_success)

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

    def _settled(self) -> tuple[int, int]:
        """Return values that have what this process has counted before."""
        if self._target.provider.reads_lag:
            self.values()
            time.sleep(_WRITTEN_BACK_WITHIN_S)
        return self.read()

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
        limits = self._target.limits
        success = whole(success, "the count of successes", 0, limits.max_success)
        errors = whole(errors, "the count of errors", 0, limits.max_errors)
        with self._target.exclusive() as ledger:
            now = self.values()
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
        """Replace the success value, the error value or both; the errors first.

        Raises: UsageError (EINVAL) for a value that the provider's counters cannot hold.
        """
        limits = self._target.limits
        if success is not None:
            success = whole(success, "the success value", 0, limits.max_success)
        if errors is not None:
            errors = whole(errors, "the error value", 0, limits.max_errors)
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
        fid = self.fid
        deadline = time.monotonic() + _TRY_AGAIN_S
        while (status := getattr(self._operations, name)(fid, value)) == _AGAIN:
            if time.monotonic() > deadline:
                break
            time.sleep(_FIRST_SLEEP_S)
        self._target.domain.lib.check(status, f"{name} {value} at counter {self.name}")

    def wait(self, threshold: int, timeout_s: float = 5.0) -> None:
        """Wait until the success value reaches `threshold`. It polls: timed waits of 1.17 are broken.

        Raises: CounterError if the error value changes first, TimeoutError after `timeout_s`.
        """
        threshold = self._threshold(threshold)
        timeout_s = seconds(timeout_s)
        errors_before = self._settled()[1]
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

    def trigger_after(self, stream: RingingStream, by: int = 1) -> None:
        """Count `by` when `stream` has finished what was put into it before.

        There is no doorbell: whoever carries the stream out calls `add`. So it has to be this process, as
        with `HostStream`, and `stream.synchronize()` returns a None for it among the results. A count that is
        refused when its turn comes (the counter is closed, or would wrap) fails there, as a kernel does.
        Raises: UsageError for what is no stream or no count; Unsupported for a stream of another process or
        of a GPU.
        """
        by = whole(by, "what a ring counts", 0, self._target.limits.max_success)
        if self.closed:
            raise UsageError(f"counter {self.name} is closed (EINVAL)")
        if not hasattr(stream, "store") or isinstance(stream, type):
            raise UsageError(f"{shown(stream)} is no stream (EINVAL); HostStream() is one")
        if not hasattr(stream, "submit") or hasattr(stream, "handle"):
            raise Unsupported("R34", _NO_DOORBELL)
        stream.submit(partial(self.add, by))

    def wait_on(self, stream: object, threshold: int) -> None:
        """Raises: Unsupported; a library publishes no word on which a stream could wait."""
        raise Unsupported(
            "R36",
            f"libfabric publishes counter {self.name} nowhere; let the stream call "
            f"`{self.name}.wait({shown(threshold)})`, as `HostStream().submit` can",
        )

    def follow(self, word: object, at_least: int = 0) -> None:
        """Raises: Unsupported; nothing behind a library looks at words in memory."""
        raise Unsupported(
            "R34",
            f"no NIC polls {shown(word)} for a library, and libfabric has no such call; count from the host, "
            f"`{self.name}.add()`, or behind a stream, `{self.name}.trigger_after(HostStream())`",
        )

    @property
    def overflow(self) -> bool:
        """Raises: Unsupported; fi_cntr(3) knows no such flag, and `add` refuses what would wrap."""
        raise Unsupported(
            "R3",
            f"libfabric does not say whether counter {self.name} has wrapped; counts of this process that "
            "would lead there are refused",
        )

    def close(self, force: bool = False) -> None:
        """Give the counter back.

        `force` cancels what waits for it, where the provider can. Raises: UsageError (EBUSY) while work
        concerns it, Unsupported for `force` where nothing can be cancelled.
        """
        force = yes_or_no(force, "force")
        if self._fid is not None:
            self._target.close_counter(self, force)
            self.is_gone()

    def is_gone(self) -> None:
        """The library's counter is there no more."""
        self._fid = None


class LibfabricProgram(TargetProgram):
    """A program that a libfabric domain can arm."""

    def __init__(self, name: str, target: LibfabricTarget) -> None:
        super().__init__(name, target=target)
        self._target = target
        self.handles: list[tuple[int, int]] = []
        self._windows: list[int] = []

    def arm(self) -> None:
        """Arm everything, or nothing.

        Raises: TriggerTableFull (ENOSPC), UsageError (EINVAL), Unsupported (ENOSYS) with nothing armed.
        """
        self.check_written()
        self.handles += self._target.arm(self.work)

    def window(self, size: int) -> None:
        """Arm the first `size` operations, or none; the next one is armed when one was seen to have fired.

        Operations are armed in the order they were written: write what fires first, first. There is no
        firmware to arm them: this process does, when it reads or waits for a counter, takes completions, or
        calls `progress`.
        Raises: as `arm`, and UsageError for a size below 1.
        """
        size = whole(size, "the size of a window", 1)
        self.check_written()
        if self.work:
            self._windows.append(self._target.arm_window(self.work, size))

    def cancel(self) -> int:
        """Cancel what has not fired, also what a window has not armed yet; return how many operations.

        Raises: Unsupported where the provider cannot cancel what is armed; what a window had not armed yet
        never is from here on.
        """
        windows, self._windows = self._windows, []
        count = self._target.cancel_windows(windows) if windows else 0
        return count + sum(self._target.cancel(handle) for handle in self.handles)
