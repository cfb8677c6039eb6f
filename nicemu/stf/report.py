# SPDX-License-Identifier: Apache-2.0
"""What came of a script: what failed, and what was noted on the way."""

from __future__ import annotations

from dataclasses import dataclass

from nicemu.p4 import Diagnostic, Location


@dataclass(frozen=True, slots=True)
class Failure:
    """What went other than the script says: where, and the `detail` in lines of its own."""

    diagnostic: Diagnostic
    detail: str = ""

    def render(self) -> str:
        """Return the message, its line of the script, and the detail below."""
        return "\n".join([self.diagnostic.render(), *(f"    {line}" for line in self.detail.splitlines())])


@dataclass(frozen=True, slots=True)
class Note:
    """What a command has read, or the trace of a packet."""

    location: Location
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a script; `interpreted_because` says why a program was not run compiled, "" if it was, or
    was not to be. `missing_externs` are externs of its own that nothing does.
    """

    failures: tuple[Failure, ...]
    notes: tuple[Note, ...] = ()
    packets_in: int = 0
    packets_out: int = 0
    interpreted_because: str = ""
    missing_externs: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything was as the script says."""
        return not self.failures
