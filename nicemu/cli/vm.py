# SPDX-License-Identifier: Apache-2.0
"""`nicemu vm`: commands in a guest with the distribution's kernel, where this machine's has no SoftRoCE."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from nicemu.errors import NicemuError, ResourceError, UsageError

from .seconds import Seconds

if TYPE_CHECKING:
    from nicemu.fabric import GuestLink

TIMED_OUT, FAILED = 124, 125
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def vm() -> None:
    """Run commands in a virtual machine with the distribution's kernel, for its SoftRoCE (rdma_rxe)."""


@vm.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--memory", "memory_mib", type=click.IntRange(256), default=2048, show_default=True, help="MiB."
)
@click.option("--cpus", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option(
    "--time-limit", "time_limit_s", type=Seconds(), default=600.0, show_default=True, help="Seconds."
)
@click.option("--share", type=FOLDER, help="A folder that the guest may write to, at /mnt/share.")
@click.option(
    "--link",
    "links",
    multiple=True,
    metavar="LOCAL,REMOTE,ADDRESS",
    help="An Ethernet link over UNIX datagram sockets: where QEMU receives, where it sends, and the guest's "
    "address, such as 10.7.0.2/24.",
)
@click.option(
    "--env", "variables", multiple=True, metavar="NAME[=VALUE]", help="Set, or pass on, a variable."
)
@click.option("--qemu", "devices", default="", help="Further arguments of QEMU's.")
@click.option(
    "--accelerator", default="tcg", show_default=True, help="As QEMU names it; kvm is not tried unasked."
)
@click.option("--no-rxe", is_flag=True, help="Load no rdma_rxe, make no rxe0.")
@click.option("--only-if-needed", is_flag=True, help="Run it here if this machine has an RDMA device itself.")
@click.option("--compiled", is_flag=True, help="Compile the datapath here, for any processor, for COMMAND.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    memory_mib: int,
    cpus: int,
    time_limit_s: float,
    share: Path | None,
    links: tuple[str, ...],
    variables: tuple[str, ...],
    devices: str,
    accelerator: str,
    no_rxe: bool,
    only_if_needed: bool,
    compiled: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND as root in a guest, in this folder, with this Python on the path.

    Exit status: that of COMMAND; 124 if it took longer than the time limit, 125 if the guest failed.
    """
    from nicemu.fabric import Guest, GuestTimeoutError, rxe_here

    environment = dict(_variable(text) for text in variables)
    if compiled:
        environment = _compile() | environment
    if only_if_needed and rxe_here():
        _tell("this machine has an RDMA device; no guest is needed")
        folder = Path(sys.executable).parent
        path = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        whole = os.environ | {"PATH": path} | environment
        os.execvpe(command[0], list(command), whole)
    try:
        with (
            _termination_as_exit(),
            Guest(
                memory_mib=memory_mib,
                cpus=cpus,
                time_limit_s=time_limit_s,
                share=share,
                links=[_link(text) for text in links],
                devices=shlex.split(devices),
                rxe=not no_rxe,
                accelerator=accelerator,
                say=_tell,
            ) as guest,
        ):
            status = guest.run(command, environment=environment, sink=_print).status
    except UsageError:
        raise
    except NicemuError as error:
        _tell(f"Error: {error}")
        status = TIMED_OUT if isinstance(error, GuestTimeoutError) else FAILED
    raise click.exceptions.Exit(status)


@vm.command()
@click.option("--names", is_flag=True, help="Only the names, on one line.")
def packages(names: bool) -> None:
    """Print the command that installs what a guest needs (Debian, Ubuntu), and what each package is for."""
    from nicemu.fabric import PACKAGES, install_command

    if names:
        click.echo(" ".join(package.name for package in PACKAGES))
        return
    click.echo(install_command())
    for package in PACKAGES:
        click.echo(f"  {package.name}: {package.use}{'' if package.is_here() else ' (missing here)'}")


@vm.command()
def check() -> None:
    """Say where commands that need SoftRoCE would run: here, or in a guest. Exit status 1 if nowhere."""
    from nicemu.fabric import load_pyverbs, rxe_here

    from .devices import guests

    load_pyverbs()
    if rxe_here():
        click.echo("this machine has an RDMA device")
        return
    found = guests()
    click.echo(found.reason)
    if not found.ok:
        raise ResourceError(found.cure)


def _link(text: str) -> GuestLink:
    from nicemu.fabric import GuestLink

    parts = text.split(",")
    if len(parts) != 3:
        raise click.BadParameter(f"{text!r} is not LOCAL,REMOTE,ADDRESS", param_hint="--link")
    return GuestLink((Path(parts[0]), Path(parts[1])), parts[2])


def _variable(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    return name, value if given else os.environ.get(name, "")


def _compile() -> dict[str, str]:
    """Compile the datapath for a processor that every guest has; return how a command comes to use it."""
    from nicemu.hot import cache_folder
    from nicemu.run import any_processor, compile_datapath

    compile_datapath(_tell, any_processor())
    return any_processor() | {"NICEMU_JIT": "1", "XDG_CACHE_HOME": str(cache_folder().parent.parent)}


def _print(stream: int, data: bytes) -> None:
    out = sys.stdout if stream == 1 else sys.stderr
    out.buffer.write(data)
    out.flush()


def _tell(text: str) -> None:
    click.echo(text, err=True)


@contextmanager
def _termination_as_exit() -> Iterator[None]:
    """Have SIGTERM end this process by way of what it must clean up."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
