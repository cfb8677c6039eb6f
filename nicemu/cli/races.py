# SPDX-License-Identifier: Apache-2.0
"""`nicemu races`: what had no order in the NICs that are up, and in the programs that used them."""

from __future__ import annotations

import sys
import time

import click

from .show import JSON_OPTION, print_json


@click.command()
@JSON_OPTION
def races(as_json: bool) -> None:
    """Report accesses that have no order, of NICs that were started with `nicemu up TOPOLOGY --check-races`.

    Programs that have opened them since then are looked at too. Exit status 1 if there are races.
    """
    from nicemu.errors import UsageError
    from nicemu.run import ask, known_nics
    from nicemu.testing import check_races, read_logs

    nics = known_nics()
    if not nics:
        raise UsageError("no NIC is up; start some with `nicemu up TOPOLOGY --check-races`")
    now_ns = time.monotonic_ns()
    for nic in nics:
        if not nic.ended:
            ask(nic, "describe")  # all that it has noted is in its log then
    folders = sorted({nic.socket.parent for nic in nics})
    if checked := [folder for folder in folders if any(folder.glob("*.events"))]:
        folders = checked  # others that are up were not started to be checked
    reports = {folder.name: check_races(read_logs(folder, now_ns)) for folder in folders}
    if as_json:
        print_json({name: report.as_data() for name, report in reports.items()})
    else:
        for name, report in reports.items():
            click.echo(f"{name}: {report}" if len(reports) > 1 else str(report))
    sys.exit(1 if any(report.races for report in reports.values()) else 0)
