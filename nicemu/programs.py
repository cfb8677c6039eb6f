# SPDX-License-Identifier: Apache-2.0
"""Find the shipped p4/, firmware/, host/ and examples/ files, in a checkout or an install; read a source."""

from __future__ import annotations

import importlib.util
import sys
import types
from hashlib import blake2b
from pathlib import Path

from nicemu.errors import UsageError


def programs_root() -> Path:
    """Return the folder that holds `p4`, `firmware`, `host` and `examples`."""
    package = Path(__file__).resolve().parent
    installed = package / "_programs"
    return installed if installed.is_dir() else package.parent


def find_program(path: str | Path, beside: Path | None = None) -> Path:
    """Return the file that `path` names: in the folder `beside`, as given, or among the shipped programs.

    Raises: UsageError if none of them exists; it names the places.
    """
    given = Path(path)
    if beside is not None and (beside / given).is_file():
        return (beside / given).resolve()
    if given.is_file():
        return given.resolve()
    if given.is_fifo():
        raise UsageError(f"{given} is a pipe, and is read more than once; write it to a file")
    shipped = programs_root() / given
    if not given.is_absolute() and shipped.is_file():
        return shipped
    places = "here" if beside is None else f"in {beside}, none here"
    raise UsageError(f"no file {given} {places}, and none among the shipped programs ({shipped})")


def load_module(path: Path) -> types.ModuleType:
    """Run the Python file at `path` as a module of its own and return it.

    It may import the modules that lie beside it, as it may where Python runs it, but for names that mean
    something else already.
    Raises: UsageError if it is no Python file.
    """
    name = f"nicemu_program_{path.stem}_{blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    beside = str(path.resolve().parent)
    if beside not in sys.path:
        sys.path.append(beside)
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def read_source(path: Path) -> str:
    """Return the text of a program, lines ending in \\n; one that is no UTF-8 is taken as ISO 8859-1.

    Raises: OSError; ValueError for what is no text.
    """
    data = path.read_bytes()
    at = data.find(b"\0")
    if at >= 0:
        line = data.count(b"\n", 0, at) + 1
        raise ValueError(f"line {line} has a byte that is 0: it is no text")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")
