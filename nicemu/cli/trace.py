# SPDX-License-Identifier: Apache-2.0
"""`nicemu trace`: what every block of the NICs that are up does, as a file for Perfetto."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from pathlib import Path

import click

from .interruption import until_interrupted
from .seconds import Seconds
from .show import JSON_OPTION, print_json


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--nic", "only", metavar="NAME", multiple=True, help="Trace this NIC only (once or more).")
@click.option("--for", "seconds", type=Seconds(), help="How many seconds.")
@JSON_OPTION
def trace(
    file: Path, command: tuple[str, ...], only: tuple[str, ...], seconds: float | None, as_json: bool
) -> None:
    """Write what the NICs that are up do into FILE, which https://ui.perfetto.dev opens.

    Until COMMAND has ended, for --for seconds, or until Ctrl-C. The exit status is COMMAND's:

        nicemu trace fetch.json -- python host/restore.py
    """
    from nicemu.errors import UsageError
    from nicemu.run import find_nic, running_nics, trace_nics

    if command and seconds is not None:
        raise UsageError("a COMMAND and --for: one of them says how long to trace")
    nics = [find_nic(name) for name in dict.fromkeys(only)] or running_nics()
    if not nics:
        find_nic(None)  # says what to do
    status = 0

    def until() -> None:
        nonlocal status
        names = ", ".join(nic.name for nic in nics)
        if command:
            click.echo(f"tracing {names} until the command ends", err=True)
            status = _run(command)
        else:
            with until_interrupted() as interrupted:
                how = "until Ctrl-C" if seconds is None else f"for {seconds:g} s"
                click.echo(f"tracing {names} {how}", err=True)
                select.select([interrupted], [], [], seconds)

    counts = trace_nics(nics, file, until)
    if as_json:
        print_json({"file": str(file), "events": counts, "status": status})
    else:
        counted = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        click.echo(f"{file}: {sum(counts.values()):,} events ({counted})")
    sys.exit(status)


def _run(command: tuple[str, ...]) -> int:
    """Run a command; return its exit status as a shell tells it. Ctrl-C is the command's."""
    from nicemu.errors import UsageError

    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        done = subprocess.run(command, check=False)
    except OSError as error:
        raise UsageError(f"{command[0]}: cannot be run ({error.strerror})") from error
    finally:
        signal.signal(signal.SIGINT, before)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode
