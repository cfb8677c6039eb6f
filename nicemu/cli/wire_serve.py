# SPDX-License-Identifier: Apache-2.0
"""`nicemu wire serve`: a NIC with nicemu's own engine, for unmodified rping and perftest to connect to."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from contextlib import ExitStack

import click

from nicemu.errors import ProtocolError, UsageError

from .interruption import until_interrupted
from .opened_port import opened_port
from .seconds import Seconds
from .show import JSON_OPTION, print_json

LINGER_S = 0.5
"""How long it goes on when the last client is through, so that the client hears that, too."""


def _address(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the NIC's address; anything that no NIC can have is wrong usage."""
    from nicemu.wire import parse_host_ipv4

    try:
        parse_host_ipv4(value)
    except UsageError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    return value


@click.command()
@click.argument("port", metavar="PORT")
@click.option(
    "--ip", required=True, metavar="ADDRESS", callback=_address, help="The NIC's, such as 10.7.0.1."
)
@click.option(
    "--perftest",
    "program",
    default="ib_write_bw",
    show_default=True,
    metavar="PROGRAM",
    help="What clients of perftest run: ib_write_bw, ib_read_bw, ib_send_lat and so on.",
)
@click.option(
    "--size",
    "size_bytes",
    type=click.IntRange(1, 1 << 23),
    default=2,
    show_default=True,
    help="Bytes of a message of ib_write_lat, as its client's -s: the server begins there.",
)
@click.option("--clients", type=click.IntRange(min=1), help="End when so many are through.")
@click.option("--for", "seconds", type=Seconds(), help="End after so many seconds.")
@JSON_OPTION
def serve(
    port: str,
    ip: str,
    program: str,
    size_bytes: int,
    clients: int | None,
    seconds: float | None,
    as_json: bool,
) -> None:
    """Play the other side of rping and perftest, until --clients, --for or Ctrl-C.

    \b
    nicemu wire serve cable-a,guest-a --ip 10.7.0.1 --perftest ib_send_lat
    sudo nicemu wire serve tap:nic0 --ip 10.7.0.1

    Clients connect by rdma_cm: `rping -c -a ADDRESS -V`, `ib_write_bw -R ADDRESS`. PORT is tap:NAME,
    packet:INTERFACE, xdp:INTERFACE, or two paths LOCAL,REMOTE of UNIX datagram sockets, as `nicemu vm run
    --link` has them.
    Exit status 1 if something went wrong with a client.
    """
    from nicemu.fabric import RoceEndpoint
    from nicemu.rdma import load_engine
    from nicemu.testing import PERFTEST_PROGRAMS, PeerServer, PerftestServer, RpingServer

    if program not in PERFTEST_PROGRAMS:
        raise UsageError(f"{program!r} is no program that is served; they are {', '.join(PERFTEST_PROGRAMS)}")
    with ExitStack() as stack:
        interrupted = stack.enter_context(until_interrupted())
        opened = opened_port(port)
        stack.callback(opened.close)
        click.echo("loading the engine (the first time compiles it, for some minutes)", err=True)
        load_engine()
        endpoint = stack.enter_context(RoceEndpoint(opened, ip))
        report: Callable[[str], object] = (lambda line: None) if as_json else click.echo
        applications = [
            RpingServer(endpoint, report=report),
            PerftestServer(endpoint, program, report=report, size_bytes=size_bytes),
        ]
        server = PeerServer(endpoint, applications)
        click.echo(f"{ip} at {opened.address} serves rping and {program} -R", err=True)
        begun = time.monotonic()
        ends_at = None if seconds is None else begun + seconds

        def is_over() -> bool:
            through = sum(application.totals.clients for application in applications)
            ended = ends_at is not None and time.monotonic() >= ends_at
            enough = clients is not None and through >= clients
            return ended or enough or bool(select.select([interrupted], [], [], 0)[0])

        server.run(is_over)
        lingers_until = time.monotonic() + LINGER_S
        server.run(lambda: time.monotonic() >= lingers_until)
    problems = [problem for application in applications for problem in application.totals.problems]
    if as_json:
        names = ("rping", program)
        print_json(
            {
                name: {
                    "clients": application.totals.clients,
                    "operations": application.totals.operations,
                    "moved_bytes": application.totals.moved_bytes,
                }
                for name, application in zip(names, applications, strict=True)
            }
            | {"problems": problems, "drops": dict(endpoint.drops)}
        )
    if problems:
        raise ProtocolError(f"{len(problems)} things went wrong, first: {problems[0]}")
