# SPDX-License-Identifier: Apache-2.0
"""Which pipeline a command means: that of a NIC that runs, or one at the address of a P4Runtime server."""

from __future__ import annotations

import click

from nicemu.errors import UsageError

PIPELINE_OPTION = click.option(
    "--nic",
    metavar="NAME|ADDRESS",
    help="The NIC that is meant, needed where several run; or where P4Runtime is served, as nicemu switch "
    "serves it: unix:/PATH or HOST:PORT.",
)


_LAST_PORT = 65_535


def pipeline_of(nic: str | None) -> tuple[str, str]:
    """Return what a pipeline is called, and the address of its P4Runtime server.

    Raises: UsageError if there is none, or it is not clear which.
    """
    if nic is not None and ":" in nic:  # no NIC's name has one
        port = nic.rpartition(":")[2]
        if port.isdecimal() and int(port) > _LAST_PORT:
            raise UsageError(f"--nic {nic}: there are ports 0 to {_LAST_PORT}")
        return nic, nic
    from nicemu.run import find_nic

    found = find_nic(nic)
    return found.name, found.p4runtime
