# SPDX-License-Identifier: Apache-2.0
"""A frame as a capture has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CapturedFrame:
    """A frame that passed: when (ns since 1970), which way, and how long it was before anything was cut.

    `interface` tells where, if a capture has several.
    """

    time_ns: int
    outbound: bool
    data: bytes
    original_bytes: int
    interface: int = 0
