# SPDX-License-Identifier: Apache-2.0
"""Packet tests of P4 programs: scripts in STF, the P4 community's simple testing framework, on an engine in
this process.

Source: p4lang/p4c, the grammar of its STF scripts and what its BMv2 runner makes of them; docs/stf.md has
both and says where this runner checks more.
"""

from .line_reader import ScriptError
from .one_test import Outcome, Status, find_tests, run_test
from .report import Failure, Note, Report
from .run import run_script
from .script import parse_script

__all__ = [
    "Failure",
    "Note",
    "Outcome",
    "Report",
    "ScriptError",
    "Status",
    "find_tests",
    "parse_script",
    "run_script",
    "run_test",
]
