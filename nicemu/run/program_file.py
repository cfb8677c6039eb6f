# SPDX-License-Identifier: Apache-2.0
"""Files that hold a program for the pipeline, in whichever language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nicemu.bmv2 import Loaded, is_bmv2, load_bmv2
from nicemu.p4 import Compiled, compile_program


def read_program(path: Path, include_paths: Sequence[Path] = ()) -> Compiled | Loaded:
    """Return the program in a file: P4-16, or what p4c-bm2-ss made of it (BMv2 JSON).

    Raises: CompileError, Bmv2Error; UsageError if the file cannot be read.
    """
    return load_bmv2(path) if is_bmv2(path) else compile_program(path, include_paths)
