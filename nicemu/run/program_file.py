# SPDX-License-Identifier: Apache-2.0
"""Programs for the pipeline, in whichever language; their compilers are imported when one is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nicemu.errors import ControlError, P4RuntimeCode, UsageError
from nicemu.pipeline import P4Info, Program, p4info_of, program_of_json

if TYPE_CHECKING:
    from nicemu.bmv2 import Loaded
    from nicemu.p4 import Compiled

MAX_IR_BYTES = 64 << 20
"""As long as a message of P4Runtime that brings it may be."""


def read_program(
    path: Path, include_paths: Sequence[Path] = (), defines: Mapping[str, str] | None = None
) -> Compiled | Loaded:
    """Return the program in a file: P4-16, what p4c-bm2-ss made of it (BMv2 JSON), or what `nicemu compile`
    did (--emit ir).

    Raises: CompileError, Bmv2Error; UsageError if the file cannot be read or holds IR that cannot run, for
    `defines` of a file that is compiled already, or as `compile_program`.
    """
    from nicemu.bmv2 import Loaded, is_bmv2, load_bmv2

    if is_bmv2(path):
        if defines:
            raise UsageError(
                f"{path.name} is compiled already: {next(iter(defines))} cannot be defined in it"
            )
        text = _ir_in(path)
        if text is None:
            return load_bmv2(path)
        try:
            program = program_of_json(text)
        except ControlError as error:
            raise UsageError(f"{path.name}: {error}") from None
        return Loaded(program, p4info_of(program))
    from nicemu.p4 import compile_program

    return compile_program(path, include_paths, defines)


def _ir_in(path: Path) -> bytes | None:
    """Return what a JSON file holds, if that is IR and not BMv2 JSON."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_IR_BYTES + 1)
    except OSError:
        return None  # who reads it as BMv2 JSON says so
    return text if _is_ir(text) else None


def _is_ir(text: bytes) -> bool:
    """Return whether a text is IR as JSON; if it is not, it is read as BMv2 JSON."""
    if b'"architecture"' not in text:
        return False
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "architecture" in document and "__meta__" not in document


def program_of(text: bytes, p4info: P4Info | None = None) -> Program:
    """Return the program that a controller brings: IR as JSON, or BMv2 JSON, of which `p4info` says more.

    Raises: ControlError.
    """
    from nicemu.bmv2 import Bmv2Error, as_described, load_bmv2_text
    from nicemu.control import ir_reader

    if _is_ir(text):
        return ir_reader(text, p4info)
    try:
        program = load_bmv2_text(text, "p4_device_config").program
    except Bmv2Error as error:
        raise ControlError(P4RuntimeCode.INVALID_ARGUMENT, str(error)) from None
    return program if p4info is None else as_described(program, p4info)
