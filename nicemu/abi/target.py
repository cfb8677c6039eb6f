# SPDX-License-Identifier: Apache-2.0
"""The seam between programs of deferred work and what runs them: a NIC of ours, or a library.

`nicemu.host.Nic` is one target; `nicemu.fabric` has one over libfabric. A program is written once; what a
target cannot do it says in its `capabilities`, and refuses with `Unsupported` naming the rule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from nicemu.errors import NicemuError, ResourceError, UsageError, counted

from .limits import FiringOrder, Limits
from .program import Condition, Program
from .work import DeferredWork, Opcode, WorkCompletion


class Unsupported(UsageError):  # noqa: N818 - the word users look for
    """The target cannot do this (ENOSYS). `rule`: which rule of docs/triggers.md it falls short of."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"{message} [{rule}] (ENOSYS)")
        self.rule = rule


class TriggerTableFull(ResourceError):  # noqa: N818 - the name the specification's readers know (ENOSPC)
    """There are not enough trigger slots; nothing was armed."""


class CounterError(NicemuError):
    """A counter's error value changed while somebody waited for its success value."""

    def __init__(self, name: str, success: int, errors: int) -> None:
        counts = f"{counted(errors, 'error')}, {counted(success, 'success', 'successes')}"
        super().__init__(f"counter {name}: {counts}")
        self.success = success
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a target can do. `deviations`: rules that it is known not to follow, with what it does instead."""

    operations: frozenset[Opcode]
    single_cancel: bool = True
    flush: bool = True
    order: FiringOrder = FiringOrder.THRESHOLD
    doorbell: bool = True
    """Whether a stream can ring a counter without the CPU."""
    deviations: dict[str, str] = field(default_factory=dict)


class TargetCounter(Protocol):
    """A trigger counter of a target. `counter >= n` is a condition for `Program.when`."""

    index: int
    name: str

    def __ge__(self, threshold: int) -> Condition: ...

    def next(self, count: int = 1) -> Condition:
        """A condition `count` counts from now; thresholds are absolute."""

    def add(self, success: int = 1, errors: int = 0) -> None:
        """Count."""

    def set(self, success: int | None = None, errors: int | None = None) -> None:
        """Replace the success value, the error value or both."""

    def read(self) -> tuple[int, int]:
        """Return (success, errors); both become visible eventually."""

    def wait(self, threshold: int, timeout_s: float = 5.0) -> None:
        """Wait until the success value reaches `threshold`.

        Raises: CounterError if the error value changes first, TimeoutError after `timeout_s`.
        """

    def close(self, force: bool = False) -> None:
        """Give the counter back. Raises: UsageError (EBUSY) while work concerns it."""


class TargetProgram(Program, ABC):
    """A program that its target can arm: whole, or a window of it at a time."""

    @abstractmethod
    def arm(self) -> None:
        """Arm everything, or nothing.

        Raises: ResourceError (ENOSPC), UsageError (EINVAL, EACCES), Unsupported (ENOSYS).
        """

    @abstractmethod
    def window(self, size: int) -> None:
        """Arm the first `size` operations, or none; the next one is armed whenever one has fired.

        The whole program is checked before. Raises: as `arm`, and UsageError for a size below 1.
        """

    @abstractmethod
    def cancel(self) -> int:
        """Cancel what has not fired, also what a window has not armed yet; return how many operations.

        Raises: Unsupported where what is armed cannot be cancelled.
        """


class ProgramTarget(Protocol):
    """What runs programs of deferred work."""

    limits: Limits
    capabilities: Capabilities

    def counters(self, *names: str) -> Sequence[TargetCounter]:
        """Allocate counters."""

    def program(self, name: str) -> AbstractContextManager[TargetProgram]:
        """Write a program; arm it afterwards."""

    def arm(self, work: list[DeferredWork]) -> list[tuple[int, int]]:
        """Arm a list of deferred work, all or nothing; return handles for `cancel`."""

    def cancel(self, handle: tuple[int, int]) -> bool:
        """Cancel one operation: True if it will never fire."""

    def cancel_counter(self, counter: TargetCounter) -> int:
        """Cancel all that waits for a counter; return how many."""

    def flush(self) -> int:
        """Cancel all armed work of this process; return how many."""

    def take_completions(self) -> list[WorkCompletion]:
        """Return the completion-queue entries that have come in."""

    def close(self) -> None:
        """Flush, and give everything back."""
