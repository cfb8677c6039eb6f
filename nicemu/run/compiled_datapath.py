# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled code: filled once for each state of the sources, and emptied of what nobody uses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nicemu.errors import NicemuError

UNUSED_S = 14 * 24 * 3600
"""Compiled code that nothing was started with for so long is removed."""


def compile_datapath(progress: Callable[[str], None]) -> None:
    """Compile the datapath once, before NIC processes start, unless that was done by an earlier run."""
    from nicemu.hot import JIT, cache_folder

    if not JIT:
        return
    folder = cache_folder()
    marker = folder / "complete"
    if marker.exists():
        with suppress(OSError):  # a cache that cannot be written can be used
            os.utime(folder)
        return
    progress("compiling the datapath (the first time only, a minute or two)")
    command = [sys.executable, "-m", "nicemu", "compile-datapath"]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    if finished.returncode:
        raise NicemuError(f"the datapath does not compile: {finished.stderr[-2000:]}")
    folder.mkdir(parents=True, exist_ok=True)
    marker.touch()
    remove_unused(folder)


def remove_unused(kept: Path) -> None:
    """Remove what lies beside `kept` and was compiled from sources that nothing runs any more."""
    oldest = time.time() - UNUSED_S
    for folder in kept.parent.iterdir():
        if folder == kept or not re.fullmatch(r"[0-9a-f]{16}", folder.name):
            continue
        with suppress(OSError):
            if folder.lstat().st_mtime < oldest and folder.is_dir() and not folder.is_symlink():
                shutil.rmtree(folder, ignore_errors=True)
