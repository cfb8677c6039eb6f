# SPDX-License-Identifier: Apache-2.0
"""Find the shipped p4/, firmware/, host/ and examples/ files, in a checkout or in an install."""

from __future__ import annotations

from pathlib import Path

from nicemu.errors import UsageError


def programs_root() -> Path:
    """Return the folder that holds `p4`, `firmware`, `host` and `examples`."""
    package = Path(__file__).resolve().parent
    installed = package / "_programs"
    return installed if installed.is_dir() else package.parent


def find_program(path: str | Path) -> Path:
    """Return the file that `path` names: as given, or among the shipped programs.

    Raises: UsageError if neither exists; it names both places.
    """
    given = Path(path)
    if given.is_file():
        return given.resolve()
    shipped = programs_root() / given
    if not given.is_absolute() and shipped.is_file():
        return shipped
    raise UsageError(f"no file {given} here, and none among the shipped programs ({shipped})")
