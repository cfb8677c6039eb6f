# SPDX-License-Identifier: Apache-2.0
"""Loads a firmware script by path: checks what it imports, runs its top level, and lists its handlers."""

from __future__ import annotations

import ast
import contextvars
import sys
import types
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from nicemu import pipeline
from nicemu.errors import ProtocolError

from .core import FirmwareOverrun
from .registry import Registry, loading_into

ALLOWED_IMPORTS = (
    "__future__",
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "itertools",
    "math",
    "nicemu.errors",
    "nicemu.firmware",
    "nicemu.kv",
    "struct",
    "typing",
    "zlib",
)


class FirmwareError(ProtocolError):
    """A firmware script that cannot be loaded; what ran before goes on."""


def _check_imports(tree: ast.Module, path: str) -> None:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        for name in names:
            if name in ALLOWED_IMPORTS or name.startswith("collections."):
                continue
            place = f"{path}:{getattr(node, 'lineno', 0)}"
            if name.split(".")[0] in ("asyncio", "threading", "time", "trio"):
                raise FirmwareError(
                    f"{place}: firmware cannot import {name}: it runs on the NIC's own scheduler; "
                    "await nic.delay(...), a counter or a completion instead"
                )
            raise FirmwareError(
                f"{place}: firmware cannot import {name}; it may import {', '.join(ALLOWED_IMPORTS)}"
            )


def read_externs(paths: Iterable[Path]) -> list[Callable[..., Any]]:
    """Run Python files and return their functions and classes with `@extern`; handlers are nobody's.

    Raises: UsageError for a file that cannot be run or has none.
    """

    def run() -> list[Callable[..., Any]]:
        loading_into(Registry())
        return pipeline.read_externs(paths)

    return contextvars.copy_context().run(run)


def _put_back(name: str, module: types.ModuleType | None) -> None:
    if module is None:
        del sys.modules[name]
    else:
        sys.modules[name] = module


def load_firmware(path: Path, guard: Callable[[], AbstractContextManager[object]] = nullcontext) -> Registry:
    """Run the script at `path` and return its handlers. `guard` may raise FirmwareOverrun into its top level.

    Raises: FirmwareError, with the line, for a script that does not parse, imports what it may not, raises at
    its top level or does not return from it, or handles nothing.
    """
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source, str(path))
        code = compile(tree, str(path), "exec", dont_inherit=True)
    except (OSError, UnicodeDecodeError) as error:
        raise FirmwareError(f"{path}: cannot be read: {error}") from error
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 0)
        raise FirmwareError(f"{path}:{line}: {error}") from error
    _check_imports(tree, str(path))
    registry = Registry()
    module = types.ModuleType(f"nicemu_firmware_{path.stem}")
    module.__file__ = str(path)

    def run() -> None:
        loading_into(registry)
        exec(code, module.__dict__)

    # A dataclass looks its own module up by name, so the script must be findable while it runs and
    # afterwards.
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        with guard():
            contextvars.copy_context().run(run)
    except (Exception, SystemExit, FirmwareOverrun) as error:
        _put_back(module.__name__, before)
        frame = error.__traceback__
        line = 0
        while frame is not None:
            if frame.tb_frame.f_code.co_filename == str(path):
                line = frame.tb_lineno
            frame = frame.tb_next
        raise FirmwareError(f"{path}:{line}: {type(error).__name__}: {error}") from error
    registry.externs = pipeline.externs_in(module.__dict__)
    if not registry.names():
        _put_back(module.__name__, before)
        raise FirmwareError(
            f"{path}: handles nothing; decorate a coroutine with @on_event, @on_arrival or @on_start, or a "
            "function with @extern"
        )
    return registry
