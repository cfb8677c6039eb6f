# SPDX-License-Identifier: Apache-2.0
"""`nicemu study`: what offload to NICs would gain, by models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .model import values_of
from .show import JSON_OPTION, print_json, print_table
from .studies import CONFIG_ARGUMENT, PLOT_OPTION, SEED_OPTION, command_of
from .sweep import sweep
from .traces import replay_command, trace

if TYPE_CHECKING:
    from nicemu.model import Operation
    from nicemu.study import HpeRow, HpeSettings, Point


class _Studies(click.Group):
    """The group, which makes the commands of the studies when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from nicemu.study import STUDIES

        return sorted({*super().list_commands(ctx), *STUDIES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from nicemu.study import STUDIES

        own = super().get_command(ctx, cmd_name)
        if own or cmd_name not in STUDIES:
            return own
        return (replay_command if cmd_name == "replay" else command_of)(STUDIES[cmd_name])


@click.group(cls=_Studies)
def study() -> None:
    """Predict what triggered NICs would gain, under conditions that are told."""


study.add_command(trace)
study.add_command(sweep)


@study.command()
@CONFIG_ARGUMENT
@click.option("--operation", type=click.Choice(["store", "fetch"]), help="One way alone.")
@click.option(
    "--size", "sizes", metavar="SIZE", multiple=True, help="A message size, as 4KiB; several may be given."
)
@click.option("--set", "given", metavar="FIELD=VALUE", multiple=True, help="A field of every profile.")
@PLOT_OPTION
@SEED_OPTION
@JSON_OPTION
def hpe(
    config: Path | None,
    operation: str | None,
    sizes: tuple[str, ...],
    given: tuple[str, ...],
    plot_folder: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Compare KV led by CPUs with KV led by triggered NICs: where a speed-up of 19 holds.

    \b
    nicemu study hpe
    nicemu study hpe --operation store --plot plots
    nicemu study hpe --size 4KiB --size 1MiB --set transfer.completion=durable

    CONFIG is a TOML file: sizes, operations, target, tolerance, [set.TABLE] of fields. Nothing here is drawn
    by chance.
    """
    from nicemu.model import Operation
    from nicemu.study import HpeSettings, hpe_rows, read_hpe_settings, size_of

    settings = HpeSettings() if config is None else read_hpe_settings(config)
    if operation is not None:
        settings = replace(settings, operations=(Operation(operation),))
    if sizes:
        settings = replace(settings, sizes=tuple(size_of(text) for text in sizes))
    settings = replace(settings, values={**settings.values, **values_of(given)})
    rows = hpe_rows(settings.values)
    if as_json:
        print_json(_as_json(rows, settings))
    else:
        for way in settings.operations:
            _tell(rows, settings, way)
    if plot_folder is not None:
        from nicemu.study import plot_hpe

        for path in plot_hpe(rows, settings, plot_folder):
            click.echo(str(path), err=as_json)


def _points(row: HpeRow, settings: HpeSettings, operation: Operation) -> list[Point]:
    return [row.point(operation, size, settings.target) for size in settings.sizes]


def _tell(rows: Sequence[HpeRow], settings: HpeSettings, operation: Operation) -> None:
    from nicemu.study import size_text

    target = f"{settings.target:g}"
    for row in rows:
        click.echo(f"{operation}, row {row.name}: {row.title}")
        click.echo(f"  {'; '.join(row.conditions)}")
        columns = ["size", "CPU us", "triggered us", "speed-up", f"software for {target}x, us"]
        print_table(
            columns,
            (
                (
                    size_text(point.length_bytes),
                    f"{1e6 * point.cpu_s:.2f}",
                    f"{1e6 * point.triggered_s:.2f}",
                    f"{point.speedup:.2f}",
                    "none is so small"
                    if point.software_for_target_s is None
                    else f"{1e6 * point.software_for_target_s:.1f}",
                )
                for point in _points(row, settings, operation)
            ),
        )
        click.echo(f"  {target} ± {settings.tolerance:g} holds {_where(row, settings, operation)}\n")
    click.echo(
        f"A speed-up of {target} is consistent with the talk under the conditions where it holds, no more.\n"
    )


def _where(row: HpeRow, settings: HpeSettings, operation: Operation) -> str:
    from nicemu.study import size_text, where_it_holds

    found = where_it_holds(row, operation, settings.target, settings.tolerance)
    told = [f"{size_text(item.first_bytes)} to {size_text(item.last_bytes)}" for item in found]
    return f"from {', and from '.join(told)}" if told else "nowhere"


def _as_json(rows: Sequence[HpeRow], settings: HpeSettings) -> dict[str, object]:
    from nicemu.study import where_it_holds

    return {
        "target": settings.target,
        "tolerance": settings.tolerance,
        "rows": [
            {
                "row": row.name,
                "operation": operation.value,
                "title": row.title,
                "conditions": list(row.conditions),
                "points": [
                    {
                        "bytes": point.length_bytes,
                        "cpu_us": 1e6 * point.cpu_s,
                        "triggered_us": 1e6 * point.triggered_s,
                        "speedup": point.speedup,
                        "software_for_target_us": None
                        if point.software_for_target_s is None
                        else 1e6 * point.software_for_target_s,
                    }
                    for point in _points(row, settings, operation)
                ],
                "holds": [
                    [item.first_bytes, item.last_bytes]
                    for item in where_it_holds(row, operation, settings.target, settings.tolerance)
                ],
            }
            for operation in settings.operations
            for row in rows
        ],
    }
