# SPDX-License-Identifier: Apache-2.0
"""The commands of the studies that share one shape: a file, settings, a seed; tables, JSON and plots."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .model import values_of
from .progress import is_terminal
from .show import JSON_OPTION, print_json, print_table

if TYPE_CHECKING:
    from nicemu.study import Result, Settings, Study

PLOT_OPTION = click.option(
    "--plot",
    "plot_folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Draw the results into DIR, as PNG and SVG.",
)
SEED_OPTION = click.option(
    "--seed", type=click.IntRange(0), default=1, help="Where chance starts; the same seed, the same bytes."
)
CONFIG_ARGUMENT = click.argument(
    "config", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
SET_OPTION = click.option(
    "--set",
    "given",
    metavar="NAME=VALUE",
    multiple=True,
    help="Another value for a setting, or for a field of a profile (TABLE.FIELD).",
)
_TOLD_EVERY = 0.01


def settings_of(standard: Settings, config: Path | None, given: tuple[str, ...]) -> Settings:
    """Return what a study is to be about. Raises: UsageError, click.UsageError."""
    from nicemu.study import read_settings, settings_with

    settings = standard if config is None else read_settings(standard, config)
    return settings_with(settings, listed(values_of(given)))


def listed(given: Mapping[str, object]) -> dict[str, object]:
    """Return values of options as a file would have them: 2,4,8 is a list, true and false are flags."""
    from .model import value_of

    def meant(value: object) -> object:
        if isinstance(value, str) and "," in value:
            return [meant(value_of(part.strip())) for part in value.split(",")]
        return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value

    return {name: meant(value) for name, value in given.items()}


def command_of(study: Study) -> click.Command:
    """Return the command of a study."""

    @click.command(study.name, help=study.about)
    @CONFIG_ARGUMENT
    @SET_OPTION
    @PLOT_OPTION
    @SEED_OPTION
    @JSON_OPTION
    def command(
        config: Path | None, given: tuple[str, ...], plot_folder: Path | None, seed: int, as_json: bool
    ) -> None:
        run_and_tell(study, settings_of(study.standard, config, given), plot_folder, seed, as_json)

    return command


def run_and_tell(
    study: Study, settings: Settings, plot_folder: Path | None, seed: int, as_json: bool
) -> None:
    """Run a study, shown while it lasts, print what it found, and draw it."""
    if plot_folder is not None:
        from nicemu.study import pyplot

        pyplot()
    with progress_of(study.name) as progress:
        result = study.run(settings, seed, progress)
    tell(result, settings, seed, plot_folder, as_json)


def tell(result: Result, settings: Settings, seed: int, plot_folder: Path | None, as_json: bool) -> None:
    """Print a result, and draw it."""
    from nicemu.study import settings_data

    if as_json:
        print_json({"settings": settings_data(settings), "seed": seed, **result.as_data()})
    else:
        for table in result.tables():
            print_table(table.columns, table.rows, table.title)
            for note in table.notes:
                click.echo(f"  {note}")
            click.echo()
    if plot_folder is not None:
        for path in result.plot(plot_folder):
            click.echo(str(path), err=as_json)


@contextmanager
def progress_of(name: str) -> Iterator[Callable[[float, str], None]]:
    """Show how far a study is, on a terminal alone; the line is gone afterwards."""
    shows, told = is_terminal(sys.stderr), -1.0

    def progress(done: float, what: str) -> None:
        nonlocal told
        if shows and done - told >= _TOLD_EVERY:
            told = done
            click.echo(f"\r\033[K{name}: {done:4.0%} {what}", err=True, nl=False)

    try:
        yield progress
    finally:
        if told >= 0:
            click.echo("\r\033[K", err=True, nl=False)
