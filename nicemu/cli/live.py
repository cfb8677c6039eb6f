# SPDX-License-Identifier: Apache-2.0
"""`nicemu up`, `down` and `status`: the NIC processes of this user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nicemu.errors import NicemuError

from .show import JSON_OPTION, print_json, print_table

if TYPE_CHECKING:
    from nicemu.run import RunningNic

_COLUMNS = ("nic", "topology", "pid", "address", "program", "firmware", "p4runtime", "problem")


@click.command()
@click.argument("topology", type=click.Path(path_type=Path))
@click.option(
    "--fabric",
    metavar="FABRIC",
    help="What joins the NICs, instead of what the topology says: direct, udp, shm, verbs:DEVICE.",
)
@click.option(
    "--pcap",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Capture every port into DIR.",
)
@click.option(
    "--trace", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write a Perfetto trace."
)
@click.option(
    "--nic",
    "only",
    metavar="NAME",
    multiple=True,
    help="Start this NIC only (once or more); the others run elsewhere, or here already.",
)
@click.option("--check-races", is_flag=True, help="Keep logs of what happens, for `nicemu races`.")
@click.option(
    "--profile",
    metavar="PROFILE",
    help="What the NICs' blocks cost (seed, physical, a TOML file): they complete no sooner.",
)
@JSON_OPTION
def up(
    topology: Path,
    fabric: str | None,
    pcap: Path | None,
    trace: Path | None,
    only: tuple[str, ...],
    check_races: bool,
    profile: str | None,
    as_json: bool,
) -> None:
    """Start the NICs of TOPOLOGY, a file of yours or a shipped one (examples/two_storage_nodes.toml).

    Returns when every NIC serves; `nicemu down` stops them. Where some of them run already, those are started
    that have ended; they keep their addresses.
    """
    from nicemu.run import bring_up

    nics = bring_up(
        topology,
        fabric=fabric,
        pcap=pcap,
        trace=trace,
        only=only,
        check_races=check_races,
        profile=profile,
        progress=lambda text: click.echo(text, err=True),
    )
    _print_nics(nics, as_json)


@click.command()
@click.argument("topology", required=False)
def down(topology: str | None) -> None:
    """Stop the NICs of TOPOLOGY (the name of one that is up, or its file), or every NIC of yours."""
    from nicemu.run import take_down

    stopped, ended = take_down(topology)
    told = [f"stopped {', '.join(stopped)}"] if stopped else []
    told += [f"{', '.join(ended)} had ended already"] if ended else []
    click.echo("; ".join(told))


@click.command()
@click.argument("topology", required=False)
@JSON_OPTION
def status(topology: str | None, as_json: bool) -> None:
    """Show the NICs that run, with their addresses, programs and P4Runtime sockets: those of TOPOLOGY (the
    name of one that is up, or its file), or all.

    A NIC that has ended, though nobody has stopped it, is shown with its problem, as is one whose interface
    is gone or down.
    """
    from nicemu.run import known_nics

    nics = known_nics(topology)
    if topology is not None and not nics and not as_json:
        click.echo(f"topology {topology} is not up")
        return
    _print_nics(nics, as_json)


def _print_nics(nics: list[RunningNic], as_json: bool) -> None:
    if as_json:
        print_json([_described(nic) for nic in nics])
    elif nics:
        described = [_described(nic) for nic in nics]
        columns = [
            column for column in _COLUMNS if column != "problem" or any(row[column] for row in described)
        ]
        print_table(columns, [[_cell(row[column]) for column in columns] for row in described])
    else:
        click.echo("no NIC runs; start some with: nicemu up examples/two_storage_nodes.toml")


def _described(nic: RunningNic) -> dict[str, object]:
    """Return what is known of a NIC, with what it runs now as it says itself."""
    from nicemu.run import ask

    row: dict[str, object] = {"nic": nic.name, "topology": str(nic.topology), "pid": nic.pid}
    try:
        if nic.ended:
            raise NicemuError(nic.ended)
        told = ask(nic, "describe")
    except NicemuError as error:
        row |= {"address": None, "program": None, "firmware": [], "problem": str(error)}
    else:
        row |= {name: told[name] for name in ("address", "program", "firmware")}
        missing = told.get("missing_externs")
        row["problem"] = told.get("problem") or (
            f"nothing does what {' and '.join(missing)} does: its packets are dropped" if missing else None
        )
    return row | {"p4runtime": nic.p4runtime, "socket": str(nic.socket)}


def _cell(value: object) -> object:
    """Return what a person reads for a value; a process id is no quantity."""
    if isinstance(value, list):
        return ", ".join(value) or None
    return str(value) if isinstance(value, int) else value
