# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled code: filled once for each state of the sources, and emptied of what nobody uses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from nicemu.errors import NicemuError, counted

_PROCESSOR = "NUMBA_CPU_NAME"
TELL_S = 15.0
"""How often it is told how far compiling is."""
UNUSED_S = 14 * 24 * 3600
"""Compiled code that nothing was started with for so long is removed."""


def any_processor() -> dict[str, str]:
    """Return the environment in which is compiled for no processor in particular, and such code is run.

    Source: numba, "Environment variables".
    """
    return {_PROCESSOR: "generic", "NUMBA_CPU_FEATURES": ""}


def compile_datapath(progress: Callable[[str], None], environment: Mapping[str, str] | None = None) -> None:
    """Compile the datapath once, before NIC processes start, unless that was done by an earlier run.

    `environment` comes on top of this process's.
    """
    from nicemu.hot import JIT, cache_folder

    if not JIT:
        return
    folder = cache_folder()
    whole = os.environ | dict(environment or {})
    marker = folder / f"complete{whole.get(_PROCESSOR, '')}"
    if marker.exists():
        with suppress(OSError):  # a cache that cannot be written can be used
            os.utime(folder)
        return
    progress("compiling the datapath (the first time only, one to three minutes)")
    command = [sys.executable, "-m", "nicemu", "compile-datapath"]
    status, told = _waited(command, whole, lambda seconds: progress(_how_far(folder, seconds)))
    if status:
        raise NicemuError(f"the datapath does not compile: {told[-2000:]}")
    folder.mkdir(parents=True, exist_ok=True)
    marker.touch()
    remove_unused(folder)


def _waited(
    command: list[str], environment: Mapping[str, str], tell: Callable[[int], None]
) -> tuple[int, str]:
    """Run a command to its end; return its status and what it said of errors. Tells for how long it runs."""
    begun = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    _, told = process.communicate(timeout=TELL_S)
                    return process.returncode, told
                tell(round(time.monotonic() - begun))
        except BaseException:
            process.kill()
            raise


def _how_far(folder: Path, seconds: int) -> str:
    """Return how much of the code has been compiled."""
    count = sum(1 for _ in folder.rglob("*.nbi"))  # an index for each function
    return f"  {counted(count, 'function')} compiled in {seconds} s"


def remove_unused(kept: Path) -> None:
    """Remove what lies beside `kept` and was compiled from sources that nothing runs any more."""
    oldest = time.time() - UNUSED_S
    for folder in kept.parent.iterdir():
        if folder == kept or not re.fullmatch(r"[0-9a-f]{16}", folder.name):
            continue
        with suppress(OSError):
            if folder.lstat().st_mtime < oldest and folder.is_dir() and not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)
