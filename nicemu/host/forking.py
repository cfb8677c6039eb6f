# SPDX-License-Identifier: Apache-2.0
"""What a process that was made by fork() must not use: it shares its parent's rings, sockets and streams.

A NIC knows one process behind a BAR. Two that give it commands there would take each other's answers.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class StaysBehind(Protocol):
    """What belongs to the process that made it."""

    def forked(self) -> None:
        """This process is a child of that one: refuse from now on, and disturb the parent in nothing."""


_here: WeakSet[StaysBehind] = WeakSet()


def stay_behind(thing: StaysBehind) -> None:
    """Have `thing.forked()` called in every process that is forked from this one."""
    _here.add(thing)


def _tell_child() -> None:
    for thing in list(_here):
        thing.forked()
    _here.clear()


os.register_at_fork(after_in_child=_tell_child)
