# SPDX-License-Identifier: Apache-2.0
"""`nicemu demo`: a user comes back, and the NICs alone bring their KV cache home."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .progress import is_terminal

if TYPE_CHECKING:
    from nicemu.run import Instance

    from .journey import Report

TOPOLOGY = "examples/two_storage_nodes.toml"


@click.command()
@click.option(
    "--topology",
    metavar="FILE",
    default=TOPOLOGY,
    show_default=True,
    help="Whose first NIC is the compute node's, and its peers storage nodes'.",
)
@click.option(
    "--nic",
    "only",
    multiple=True,
    metavar="NAME",
    help="Start this NIC here; the others run already, on machines of theirs.",
)
@click.option(
    "--fabric",
    metavar="FABRIC",
    default=None,
    help="What carries RDMA: direct, udp, shm, or verbs:DEVICE, an RDMA device such as verbs:rxe0.",
)
@click.option(
    "--pcap", type=click.Path(file_okay=False, path_type=Path), help="Leave captures in this folder."
)
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write a Perfetto trace.")
@click.option(
    "--blocks", type=click.IntRange(4, 4096), default=32, show_default=True, help="KV blocks a session."
)
@click.option("--check-races", is_flag=True, help="Look for accesses that have no order.")
@click.option(
    "--time",
    "time_kind",
    type=click.Choice(["live", "virtual"]),
    default="live",
    show_default=True,
    help="live: NICs as processes. virtual: in the stepper, for a predicted timeline.",
)
@click.option(
    "--profile",
    metavar="PROFILE",
    help="What the NICs' blocks cost: seed, physical, a TOML file. Virtual time needs one: physical.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def demo(
    topology: str,
    only: tuple[str, ...],
    fabric: str | None,
    pcap: Path | None,
    trace: Path | None,
    blocks: int,
    check_races: bool,
    time_kind: str,
    profile: str | None,
    as_json: bool,
) -> None:
    """Run the whole journey: store by triggers, evict, come back, fetch with the host stopped, go on.

    Three NIC processes, a host process with a stand-in GPU process, and a client process; exit status 0 only
    if everything held. With --time=virtual the same programs run in one process, and the report is when what
    would happen on the hardware of a profile.
    """
    from nicemu.errors import NicemuError

    if time_kind == "virtual":
        for option, given in (("--nic", only), ("--pcap", pcap), ("--check-races", check_races)):
            if given:
                raise click.UsageError(f"{option} is for live NICs, not for --time=virtual")
        from .prediction import predict

        sys.exit(predict(topology, profile or "physical", fabric, blocks, trace, as_json))

    def progress(text: str) -> None:
        if not as_json:
            click.echo(f"  {text}")

    if not as_json:
        click.echo("nicemu demo: a compute NIC and storage NICs, each a process of its own")
    interrupts = Interrupts()
    try:
        options = {
            "fabric": fabric,
            "pcap": pcap,
            "trace": trace,
            "check_races": check_races,
            "profile": profile,
        }
        report = _run(interrupts, {"path": topology, "only": only, **options}, blocks, progress)
    except KeyboardInterrupt:
        interrupts.end()
        click.echo("interrupted; everything was stopped", err=True)
        sys.exit(130)
    except NicemuError as error:
        interrupts.restore()
        click.echo("; ".join([f"demo failed: {error}", *getattr(error, "__notes__", ())]), err=True)
        sys.exit(1)
    interrupts.restore()
    if as_json:
        click.echo(json.dumps(report.as_data(), indent=2))
    else:
        show(report)
    sys.exit(0 if report.ok else 1)


class Interrupts:
    """Signals that end the demo. The first raises KeyboardInterrupt; those after it, or after `shield`, are
    ignored, so that nothing keeps the demo from stopping what it has started.
    """

    def __init__(self) -> None:
        self._is_shielded = False
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        self._before = {number: signal.signal(number, self._interrupt) for number in numbers}

    def _interrupt(self, number: int, frame: object) -> None:
        if not self._is_shielded:
            self._is_shielded = True
            raise KeyboardInterrupt

    def shield(self) -> None:
        """Ignore signals from here on: what has been started is being stopped."""
        self._is_shielded = True

    def end(self) -> None:
        """Ignore signals until this process has ended, which is about to."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def restore(self) -> None:
        """Give the signals back to whoever had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _run(
    interrupts: Interrupts, options: dict[str, Any], blocks: int, progress: Callable[[str], None]
) -> Report:
    """Run the journey over NICs of its own. All that it starts is stopped and removed, whatever comes."""
    from nicemu.run import Instance, ScratchFolder

    from .journey import Journey

    with ExitStack() as stack:
        try:
            scratch = ScratchFolder()
            stack.callback(scratch.remove)
            name = scratch.path.name.removeprefix("nicemu-")
            started = Instance.start(data=scratch.path, name=name, progress=progress, **options)
            instance = stack.enter_context(started)
            journey = Journey(instance, instance.fabric, progress, scratch.path)
            stack.callback(journey.close)
            report = journey.run(_storage_of(instance), {"blocks": blocks})
            if options.get("check_races"):
                _look_for_races(instance, report, progress)
            return report
        finally:
            interrupts.shield()


def _storage_of(instance: Instance) -> list[str]:
    """Return the names of the storage NICs. Raises: UsageError where the journey cannot run."""
    from nicemu.errors import UsageError

    compute = instance.topology.nics[0]
    if compute.name != instance.nics[0].name or not compute.peers:
        raise UsageError(
            f"{instance.topology.path}: the journey needs the first NIC, {compute.name}, on this machine, "
            "with storage NICs as its peers"
        )
    return list(compute.peers)


def _look_for_races(instance: Instance, report: Report, progress: Callable[[str], None]) -> None:
    """Look through the logs of NICs and host, and add what that gives to the report."""
    from nicemu.run import ask
    from nicemu.testing import check_races, read_logs

    for nic in instance.nics:
        ask(nic, "describe")  # all that it has noted is in its log then
    found = check_races(read_logs(instance.folder))
    report.held["no accesses without an order were found"] = not found.races
    for line in str(found).splitlines():
        progress(line)


def show(report: Report) -> None:
    """Print the report for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, width=None if is_terminal(sys.stdout) else 110)
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
