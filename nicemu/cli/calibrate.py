# SPDX-License-Identifier: Apache-2.0
"""`nicemu calibrate`: measure this machine, and write what it costs as a profile."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .demo import Interrupts
from .progress import is_terminal
from .show import JSON_OPTION, print_json, print_table
from .studies import PLOT_OPTION

if TYPE_CHECKING:
    from nicemu.calibration import Calibration


@click.command()
@click.option(
    "--link",
    metavar="FABRIC",
    help="The profile's link, measured alone: direct, shm, udp, verbs:DEVICE. Without it: all, and direct.",
)
@click.option(
    "--disk",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="A folder on the drive that is measured; 256 MiB are needed for a while. The current one.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the profile there; it is a TOML file for --profile.",
)
@PLOT_OPTION
@JSON_OPTION
def calibrate(
    link: str | None, disk: Path, out: Path | None, plot_folder: Path | None, as_json: bool
) -> None:
    """Measure this machine's memory, drive and links, and fit latency + size / rate.

    \b
    nicemu calibrate --out here.toml --plot plots
    nicemu demo --time=virtual --profile here.toml

    It takes half a minute, and means something only on a machine that does nothing else.
    """
    from nicemu.calibration import calibrate as measure
    from nicemu.calibration import plot_calibration
    from nicemu.errors import NicemuError

    if plot_folder is not None:
        from nicemu.study import pyplot

        pyplot()
    shows = is_terminal(sys.stderr)

    def progress(text: str) -> None:
        if shows:
            click.echo(f"\r\033[K{text}", err=True, nl=False)

    _check_place(out)
    interrupts = Interrupts()
    try:
        found = measure(disk, link, progress)
    except KeyboardInterrupt:
        interrupts.end()
        click.echo("interrupted; everything was stopped", err=True)
        sys.exit(130)
    except NicemuError:
        interrupts.restore()
        raise
    finally:
        if shows:
            click.echo("\r\033[K", err=True, nl=False)
    interrupts.restore()
    if as_json:
        print_json(_as_data(found))
    else:
        _tell(found)
    if out is not None:
        from nicemu.model import write_profile

        write_profile(found.profile(out.stem), out)
        told = f"{out}: profile with the link {found.link}; nicemu model show {out} --explain"
        click.echo(told, err=as_json)
    if plot_folder is not None:
        for path in plot_calibration(found, plot_folder):
            click.echo(str(path), err=as_json)


def _check_place(out: Path | None) -> None:
    """Raise UsageError where the profile could not be written, before it is measured."""
    if out is not None and not os.access(out if out.exists() else out.parent, os.W_OK):
        from nicemu.errors import UsageError

        raise UsageError(f"{out} cannot be written; give another place with --out")


def _as_data(found: Calibration) -> dict[str, object]:
    return {
        "curves": {
            name: {
                "points": [list(point) for point in curve.points],
                "latency_s": curve.fit.latency_s,
                "s_per_byte": curve.fit.s_per_byte,
                "residual": curve.fit.residual,
            }
            for name, curve in found.curves.items()
        },
        "link": found.link,
        "missing": dict(found.missing),
        "profile": {name: field.value for name, field in found.profile("here").fields.items()},
    }


def _tell(found: Calibration) -> None:
    columns = ("measured", "latency us", "GB/s", "residual", "sizes")
    print_table(
        columns,
        (
            (
                name,
                f"{1e6 * curve.fit.latency_s:.2f}",
                f"{1e-9 / curve.fit.s_per_byte:.2f}" if curve.fit.s_per_byte else None,
                f"{curve.fit.residual:.1%}",
                len(curve.points),
            )
            for name, curve in found.curves.items()
        ),
    )
    for name, reason in found.missing.items():
        click.echo(f"left out: {name}: {reason}")
