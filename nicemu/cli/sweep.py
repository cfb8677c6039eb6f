# SPDX-License-Identifier: Apache-2.0
"""`nicemu study sweep`: a study at many points, on all cores or on a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .model import values_of
from .show import JSON_OPTION, print_json, print_table
from .studies import CONFIG_ARGUMENT, PLOT_OPTION, SEED_OPTION, SET_OPTION, listed, progress_of, settings_of

if TYPE_CHECKING:
    from nicemu.study import Table


@click.command()
@click.argument("study")
@CONFIG_ARGUMENT
@click.option(
    "--vary",
    "varied",
    metavar="NAME=VALUE,VALUE",
    multiple=True,
    required=True,
    help="Values for a setting, a field of a profile or the seed; several: all combinations.",
)
@SET_OPTION
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write down each point as it ends, and go on from there the next time.",
)
@click.option(
    "--engine",
    type=click.Choice(["processes", "ray"]),
    default="processes",
    show_default=True,
    help="All cores of this machine, or a Ray cluster.",
)
@click.option("--jobs", type=click.IntRange(1), help="So many processes instead of one a core.")
@click.option("--address", metavar="ADDRESS", help="The Ray cluster: HOST:PORT, ray://HOST:PORT or auto.")
@click.option("--metric", "metrics", metavar="NAME", multiple=True, help="A figure that is shown; all are.")
@PLOT_OPTION
@SEED_OPTION
@JSON_OPTION
def sweep(
    study: str,
    config: Path | None,
    varied: tuple[str, ...],
    given: tuple[str, ...],
    out: Path | None,
    engine: str,
    jobs: int | None,
    address: str | None,
    metrics: tuple[str, ...],
    plot_folder: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Run STUDY at every combination of some values of its settings.

    \b
    nicemu study sweep overflow --set figures=6 --vary kv_percent=10,20,30,40 --plot plots
    nicemu study sweep replay --vary seed=1,2,3 --vary cores=1,4,8 --out sweep.jsonl --engine ray

    A sweep that was stopped or killed goes on from what its --out has. CONFIG is the study's TOML file.
    """
    from nicemu.errors import UsageError
    from nicemu.study import STUDIES, Plan, Processes, Ray, run_sweep

    if study not in STUDIES:
        raise UsageError(f"there is no study {study} to sweep; there are {', '.join(sorted(STUDIES))}")
    if engine == "ray" and jobs is not None:
        raise click.UsageError("--jobs is for --engine processes; a Ray cluster has as many as it has")
    if engine != "ray" and address is not None:
        raise click.UsageError("--address is for --engine ray")
    axes = {name: values if isinstance(values, list) else [values] for name, values in _axes(varied).items()}
    plan = Plan(STUDIES[study], settings_of(STUDIES[study].standard, config, given), axes, seed)
    if plot_folder is not None:
        from nicemu.study import pyplot

        pyplot()
    with progress_of(f"sweep {study}") as progress:
        found = run_sweep(plan, Ray(address) if engine == "ray" else Processes(jobs or 0), out, progress)
    if as_json:
        print_json(found.as_data())
    else:
        try:
            _tell(found.table(metrics))
        except UsageError:
            _tell(found.table())  # what took long is not lost for a name that is wrong
            raise
        if found.found_before:
            click.echo(f"  {found.found_before:,} points were in {out} already")
    if plot_folder is not None:
        for path in found.plot(plot_folder, metrics):
            click.echo(str(path), err=as_json)
    if all(outcome.refused for outcome in found.outcomes):
        raise UsageError(f"{study} refused every point: {found.outcomes[0].refused}")


def _tell(table: Table) -> None:
    print_table(table.columns, table.rows, table.title)
    for note in table.notes:
        click.echo(f"  refused: {note}")


def _axes(varied: tuple[str, ...]) -> dict[str, object]:
    names = [text.partition("=")[0].strip() for text in varied]
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(
                f"--vary {name} is given {names.count(name)} times; list its values in one"
            )
    return listed(values_of(varied))
