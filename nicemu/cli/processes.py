# SPDX-License-Identifier: Apache-2.0
"""The hidden commands that nicemu starts its own processes with."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("nic-process", hidden=True)
@click.argument("config_file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def nic_process(config_file: Path) -> None:
    """Be the NIC that CONFIG_FILE describes, until it is told to stop."""
    from nicemu.garbage import garbage_waits

    with garbage_waits():  # a thousand modules
        from nicemu.run import run_nic_process

    run_nic_process(config_file)


@click.command("stream-process", hidden=True)
@click.argument("fd", type=click.IntRange(min=0))
def stream_process(fd: int) -> None:
    """Be the process of a ProcessStream, whose socket is descriptor FD."""
    from nicemu.host import run_stream_process

    run_stream_process(fd)


@click.command("compile-datapath", hidden=True)
def compile_datapath() -> None:
    """Compile every hot function into the cache, so that NIC processes start fast."""
    from nicemu.run import compile_everything

    compile_everything()
