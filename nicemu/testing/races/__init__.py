# SPDX-License-Identifier: Apache-2.0
"""Finds accesses that have no order: between hosts, streams, and the operations that NICs fire.

It reads the logs that hosts and NICs leave when they run with `check_races`, joins them by what they say of
each other, and reports pairs of accesses of the same bytes that nothing orders. Manual: docs/races.md.
"""

from .find import check_races
from .logs import read_logs
from .report import Located, Race, RaceKind, RaceReport

__all__ = ["Located", "Race", "RaceKind", "RaceReport", "check_races", "read_logs"]
