# SPDX-License-Identifier: Apache-2.0
"""What one check of `nicemu doctor` found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one question about this machine.

    `reason` says what was found, `cure` what would make a no a yes (empty where there is nothing to do), and
    `needed` that nicemu cannot do without it.
    """

    check: str
    ok: bool
    reason: str
    cure: str = ""
    needed: bool = False
