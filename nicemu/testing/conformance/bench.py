# SPDX-License-Identifier: Apache-2.0
"""The seam between cases of triggered operations and what they try: a target, memory, a peer.

Counts and bytes become visible eventually, so a case never looks at once: it asks `poll` for what must come
true, and `rest` before it looks that nothing has happened.
Source: fi_cntr(3), NOTES.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from nicemu.abi import Limits, ProgramTarget, RemoteSpan, Span, TargetCounter
from nicemu.errors import NicemuError

from .inside import Inside

MEMORY_BYTES = 4 << 20
"""What `local`, `remote` and the peer's receives have at least."""
_RESTS = 20
_Value = TypeVar("_Value")


class Absent(NicemuError):  # noqa: N818 - the bench is absent
    """This bench cannot be set up on this machine; the message says why."""


class Bench(Protocol):
    """One target with a peer. It lasts for one case; all counters are new, all memory is zero.

    A method that the target has no way to do raises `Unsupported`. Plain attributes do for the properties.
    """

    @property
    def nic(self) -> ProgramTarget:
        """The target."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits that the bench was opened with."""
        ...

    @property
    def local(self) -> Span:
        """Registered memory of this process."""
        ...

    @property
    def local_bytes(self) -> memoryview:
        """The bytes of `local`, writable."""
        ...

    @property
    def remote(self) -> RemoteSpan:
        """Memory of the peer that may be written, read and changed by atomics."""
        ...

    @property
    def remote_bytes(self) -> memoryview:
        """The bytes of `remote`, writable."""
        ...

    @property
    def wrong(self) -> RemoteSpan:
        """The place of `remote`, by the same queue pair, under a key that names nothing."""
        ...

    @property
    def patience(self) -> int:
        """How often `settle` may be needed until something due can be seen: few in virtual time."""
        ...

    @property
    def many(self) -> int:
        """How many operations are many, where a case wants many: what can be fired in about a second."""
        ...

    @property
    def inside(self) -> Inside | None:
        """What only a bench of ours has; cases that need it are not tried on others."""
        ...

    def settle(self) -> None:
        """Let everything due happen; in real time, let about a millisecond pass."""

    def later(self, action: Callable[[], object]) -> None:
        """Have somebody else do `action` shortly, while this program waits."""

    def peer_receive(self, length_bytes: int) -> memoryview:
        """Let the peer post one receive; return the bytes where its message will land."""

    def peer_send(self, data: bytes) -> None:
        """Let the peer send a message to this process; it lands in the next receive that is posted."""

    def another(self) -> AbstractContextManager[ProgramTarget]:
        """Return another process at the same NIC."""


def poll(bench: Bench, read: Callable[[], _Value], expected: _Value) -> None:
    """Wait until `read()` is `expected`. Raises: AssertionError with what it is instead."""
    found = read()
    for _ in range(bench.patience):
        if found == expected:
            return
        bench.settle()
        found = read()
    assert found == expected, f"{_short(found)} came, {_short(expected)} was expected"


def poll_counter(bench: Bench, counter: TargetCounter, success: int, errors: int = 0) -> None:
    """Wait until a counter has these values."""
    poll(bench, counter.read, (success, errors))


def rest(bench: Bench) -> None:
    """Wait long enough that whatever is going to happen has happened."""
    for _ in range(min(_RESTS, bench.patience)):
        bench.settle()


def _short(value: Any) -> str:  # noqa: ANN401 - whatever a case reads
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."
