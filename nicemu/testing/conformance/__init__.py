# SPDX-License-Identifier: Apache-2.0
"""The conformance suite of triggered operations: rules, cases, and the benches that they are tried on."""

from . import arming, chains, counters, ending, entries, firing, operations, waits, windows
from .backends import BENCHES, OURS, deviations
from .bench import Absent, Bench, poll, poll_counter, rest
from .case import CASES, Case
from .table import CASE_COUNT, ELSEWHERE, RULES
from .verdict import Result, Verdict, try_case

TOPICS = (counters, waits, arming, entries, firing, chains, operations, ending, windows)
"""The files of cases."""

__all__ = [
    "BENCHES",
    "CASES",
    "CASE_COUNT",
    "ELSEWHERE",
    "OURS",
    "RULES",
    "TOPICS",
    "Absent",
    "Bench",
    "Case",
    "Result",
    "Verdict",
    "deviations",
    "poll",
    "poll_counter",
    "rest",
    "try_case",
]
