# SPDX-License-Identifier: Apache-2.0
"""How results are printed: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence

import click

from nicemu.errors import UsageError

from .progress import is_terminal

JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print the same as JSON.")
NIC_OPTION = click.option("--nic", metavar="NAME", help="The NIC that is meant; needed where several run.")
_UNBOUNDED_COLUMNS = 10_000


def print_json(value: object, *, err: bool = False) -> None:
    """Print `value` as JSON, to stderr with `err`."""
    if (sys.stderr if err else sys.stdout) is None:
        raise UsageError("there is nowhere to print to: the stream is closed")
    click.echo(json.dumps(value, indent=2), err=err)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table; numbers stand to the right, None is a dash.

    It is fitted to a terminal; where the output goes elsewhere, every row is one line.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = is_terminal(sys.stdout)
    if title is not None:
        click.echo(title)  # as long as it is, however narrow the table
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    cells = [list(row) for row in rows]
    for place, column in enumerate(columns):
        numbers = bool(cells) and all(isinstance(row[place], int | float | None) for row in cells)
        table.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(_text(value)) for value in row))
    console = Console(file=sys.stdout, width=None if terminal else _UNBOUNDED_COLUMNS, highlight=False)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        click.echo(line.rstrip())


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
