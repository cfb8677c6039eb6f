# SPDX-License-Identifier: Apache-2.0
"""How far a long command is, for whoever looks on."""

from __future__ import annotations

import sys
import time
from typing import TextIO

import click

PROGRESS_S = 1.0


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether somebody looks at a standard stream; Python has None for one that is closed."""
    return stream is not None and stream.isatty()


class Progress:
    """One line on a terminal that says how many of `what` are done, once a second."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown = is_terminal(sys.stderr)
        self._told = time.monotonic()

    def tell(self, count: int) -> None:
        """Say so, if it is time."""
        now = time.monotonic()
        if self._shown and now - self._told >= PROGRESS_S:
            self._told = now
            click.echo(f"\r{count:,} {self._what}", err=True, nl=False)

    def end(self) -> None:
        """Leave the line to what comes."""
        if self._shown:
            click.echo("\r", err=True, nl=False)
