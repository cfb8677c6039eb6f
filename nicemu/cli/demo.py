# SPDX-License-Identifier: Apache-2.0
"""`nicemu demo`: a user comes back, and the NICs alone bring their KV cache home."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .journey import Report

TOPOLOGY = "examples/two_storage_nodes.toml"
STORAGE = ["storage0", "storage1"]


@click.command()
@click.option(
    "--fabric", type=click.Choice(["direct", "udp", "shm"]), default=None, help="What carries RDMA."
)
@click.option(
    "--pcap", type=click.Path(file_okay=False, path_type=Path), help="Leave captures in this folder."
)
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write a Perfetto trace.")
@click.option(
    "--blocks", type=click.IntRange(4, 4096), default=32, show_default=True, help="KV blocks a session."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def demo(fabric: str | None, pcap: Path | None, trace: Path | None, blocks: int, as_json: bool) -> None:
    """Run the whole journey: store by triggers, evict, come back, fetch with the host stopped, go on.

    Three NIC processes, a host process with a stand-in GPU process, and a client process; exit status 0 only
    if everything held.
    """
    from nicemu.errors import NicemuError
    from nicemu.run import Instance

    from .journey import Journey

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)

    def progress(text: str) -> None:
        if not as_json:
            click.echo(f"  {text}")

    name = f"demo-{Path(tempfile.mktemp()).name}"
    with tempfile.TemporaryDirectory(prefix="nicemu-demo-") as folder:
        if not as_json:
            click.echo("nicemu demo: a compute NIC and two storage NICs, each a process of its own")
        try:
            with Instance.start(
                TOPOLOGY,
                fabric=fabric,
                pcap=pcap,
                trace=trace,
                data=Path(folder),
                name=name,
                progress=progress,
            ) as instance:
                carried = "udp" if fabric is None and pcap is not None else fabric or instance.topology.fabric
                journey = Journey(instance, carried, progress, Path(folder))
                try:
                    report = journey.run(STORAGE, {"blocks": blocks})
                finally:
                    journey.close()
        except KeyboardInterrupt:
            click.echo("interrupted; everything was stopped", err=True)
            sys.exit(130)
        except NicemuError as error:
            click.echo(f"demo failed: {error}", err=True)
            sys.exit(1)
    if as_json:
        click.echo(json.dumps(report.as_data(), indent=2))
    else:
        show(report)
    sys.exit(0 if report.ok else 1)


def show(report: Report) -> None:
    """Print the report for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    table = Table(title=f"A user comes back (fabric: {report.fabric})", title_justify="left")
    for heading, justify in (("step", "right"), ("what happened", "left"), ("bytes", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for heading in ("wall ms", "host CPU ms", "NIC CPU ms"):
        table.add_column(heading, justify="right")
    for step in report.steps:
        number = "5-6" if step.number == 5 else str(step.number)
        table.add_row(number, step.what, f"{step.bytes:,}", *(_ms(value) for value in _times(step)))
    console.print(table)
    for claim, is_so in report.held.items():
        console.print(f"  {'yes' if is_so else 'NO '}  {claim}", style=None if is_so else "bold red")
    figures = report.figures
    same = (
        report.held["logits are bit-equal to that run"] and report.held["tokens equal a run without eviction"]
    )
    intact = report.held["the bytes that came back are the bytes that left"]
    waiting_us = figures["host_cpu_ns_while_waiting"] / 1000
    console.print(
        f"tokens {'equal' if same else 'DIFFER'}, bytes {'equal' if intact else 'DIFFER'}; "
        f"host CPU in steps 5 to 7: "
        f"{figures['host_cpu_ns_while_stopped']} ns stopped, {waiting_us:.0f} us when only waiting"
    )


def _times(step: Any) -> tuple[int, int, int]:  # noqa: ANN401 - a Step, imported late
    return step.wall_ns, step.host_cpu_ns, step.nic_cpu_ns


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:,.2f}"
