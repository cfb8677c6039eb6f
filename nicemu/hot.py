# SPDX-License-Identifier: Apache-2.0
"""One source, run two ways: compiled by numba (GIL released), or interpreted as it stands.

`@hot` marks a function of the datapath. `interpreted(function)` gives the same source without the JIT, with
every hot function that it calls replaced likewise. Intrinsics (atomics, copies) are plain Python functions
with a numba
`@overload`, so both ways call them by the same name. `NICEMU_JIT=0` turns the compiler off altogether.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

Int: TypeAlias = Any
"""An integer of a hot function: Python's, or NumPy's of the width that the caller says."""
Flag: TypeAlias = Any
"""A truth value of a hot function."""
Records: TypeAlias = Any
"""A structured array whose records have their fields as attributes (a NumPy recarray), or one such record."""

JIT = os.environ.get("NICEMU_JIT", "1") != "0"
_extensions: list[Callable[[], None]] = []
_numba: Any = None


def extend(register: Callable[[], None]) -> None:
    """Have `register` teach numba some intrinsics before anything is compiled; never called without the
    JIT.
    """
    if _numba is None:
        _extensions.append(register)
    else:
        register()


def hot(function: Function) -> Function:
    """Compile `function` on first call, without the GIL, cached on disk; plain Python where the JIT is
    off.
    """
    if not JIT:
        return function
    # Hot functions allocate nothing, so arrays need no reference counts (atomic, at every use); they call
    # each other with a hundred words of array descriptors, so calls are inlined. An empty turn of the
    # datapath costs a fortieth of what it costs otherwise.
    options = {"nogil": True, "cache": True, "error_model": "numpy", "_nrt": False, "forceinline": True}
    compiled: Function = _compiler().njit(**options)(function)
    return compiled


def cold(function: Function) -> Function:
    """As `hot`, for what hot functions call rarely: it is no part of their code. Give it numbers alone."""
    if not JIT:
        return function
    options = {"nogil": True, "cache": True, "error_model": "numpy", "_nrt": False}
    compiled: Function = _compiler().njit(**options)(function)
    return compiled


def interpreted(function: Function, _seen: dict[int, Any] | None = None) -> Function:
    """Return the source of a hot function as plain Python, down to every hot function that it calls."""
    source = getattr(function, "py_func", None)
    if source is None:
        return function
    seen = {} if _seen is None else _seen
    if id(function) in seen:
        twin: Function = seen[id(function)]
        return twin
    namespace = dict(source.__globals__)
    plain = types.FunctionType(source.__code__, namespace, source.__name__, source.__defaults__)
    seen[id(function)] = plain
    for name in source.__code__.co_names:
        if hasattr(namespace.get(name), "py_func"):
            namespace[name] = interpreted(namespace[name], seen)
    return plain  # type: ignore[return-value]


def cache_folder() -> Path:
    """Return where compiled code is kept: one folder for each state of the sources it is compiled from.

    numba notices a change in the file of a cached function, but not in the files of the functions and
    constants that it uses. Those are this file and the status codes, the shared layouts and atomics, and
    whatever marks hot functions or defines array layouts. Where a source lies and when it was changed counts
    too, because numba takes code that was compiled from the same text elsewhere or earlier for stale.
    """
    package = Path(__file__).resolve().parent
    digest = blake2b(f"{package}".encode(), digest_size=8)
    sources = [package / "errors.py", package / "hot.py"]
    for room in ("abi", "pcie", "trigger", "rdma", "nic"):
        sources += sorted((package / room).glob("*.py"))
    for source in sources:
        text = source.read_bytes()
        always = source.parent in (package, package / "abi", package / "pcie")
        if always or b"nicemu.hot" in text or b"np.dtype(" in text:
            digest.update(f"{source.stat().st_mtime_ns}".encode() + text)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nicemu" / digest.hexdigest()


def _compiler() -> Any:  # noqa: ANN401 - numba has no types
    global _numba
    if _numba is None:
        folder = cache_folder()
        os.environ.setdefault("NUMBA_CACHE_DIR", str(folder))
        import numba

        if not numba.config.CACHE_DIR:  # numba was imported before, when the variable was not set
            numba.config.CACHE_DIR = str(folder)
        _numba = numba
        while _extensions:
            _extensions.pop(0)()
    return _numba
