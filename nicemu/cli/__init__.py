# SPDX-License-Identifier: Apache-2.0
"""The command line: NICs up and down, programs, tables, counters, and what this machine can do.

`main` is the click group behind `nicemu`. A command's module is imported when the command runs, so that
`nicemu --help` and completion import nothing but click.
"""

from .commands import main

__all__ = ["main"]
