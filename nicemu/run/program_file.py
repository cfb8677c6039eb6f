# SPDX-License-Identifier: Apache-2.0
"""Programs for the pipeline, in whichever language; their compilers are imported when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Program

if TYPE_CHECKING:
    from nicemu.bmv2 import Loaded
    from nicemu.p4 import Compiled


def read_program(
    path: Path, include_paths: Sequence[Path] = (), defines: Mapping[str, str] | None = None
) -> Compiled | Loaded:
    """Return the program in a file: P4-16, or what p4c-bm2-ss made of it (BMv2 JSON).

    Raises: CompileError, Bmv2Error; UsageError if the file cannot be read, or as `compile_program`.
    """
    from nicemu.bmv2 import is_bmv2, load_bmv2

    if is_bmv2(path):
        return load_bmv2(path)
    from nicemu.p4 import compile_program

    return compile_program(path, include_paths, defines)


def program_of(text: bytes) -> Program:
    """Return the program that a controller brings: IR as JSON, or BMv2 JSON. Raises: ControlError."""
    from nicemu.bmv2 import Bmv2Error, is_bmv2_text, load_bmv2_text

    if not is_bmv2_text(text):
        return Program.from_json(text)
    try:
        return load_bmv2_text(text, "p4_device_config").program
    except Bmv2Error as error:
        raise ControlError(P4RuntimeCode.INVALID_ARGUMENT, str(error)) from None
