# SPDX-License-Identifier: Apache-2.0
"""One source, run two ways: compiled by numba (GIL released), or interpreted as it stands.

`@hot` marks a function of the datapath. `interpreted(function)` gives the same source without the JIT, with
every hot function that it calls replaced likewise. Intrinsics (atomics, copies) are plain Python functions
with a numba `@overload`, so both ways call them by the same name. `NICEMU_JIT=0` turns the compiler off.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from .compiled_code import CodeLocator, kept_code, warn_of_no_cache

Function = TypeVar("Function", bound=Callable[..., Any])

Int: TypeAlias = Any
"""An integer of a hot function: Python's, or NumPy's of the width that the caller says."""
Flag: TypeAlias = Any
"""A truth value of a hot function."""
Records: TypeAlias = Any
"""A structured array whose records have their fields as attributes (a NumPy recarray), or one such record."""

JIT = os.environ.get("NICEMU_JIT", "1") != "0"
NUMBAS_OWN = (
    "UserProvidedCacheLocator,InTreeCacheLocator,UserWideCacheLocator,IPythonCacheLocator,ZipCacheLocator"
)
"""Where numba keeps the code of functions that are not of this package."""

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
    # Hot functions allocate nothing, so arrays need no reference counts (atomic, at every use); they call
    # each other with a hundred words of array descriptors, so calls are inlined. An empty turn of the
    # datapath costs a fortieth of what it costs otherwise.
    return _compiled(function, forceinline=True)


def cold(function: Function) -> Function:
    """As `hot`, for what hot functions call rarely: it is no part of their code. Give it numbers alone."""
    return _compiled(function)


def _compiled(function: Function, **options: bool) -> Function:
    if not JIT:
        return function
    CodeLocator.hot.add(function.__code__)
    compiled = _compiler().njit(nogil=True, error_model="numpy", _nrt=False, **options)(function)
    try:
        compiled._cache = kept_code()(function)  # noqa: SLF001 - cache=True chooses numba's own class
    except RuntimeError:  # there is nowhere to keep it
        warn_of_no_cache()
    made: Function = compiled
    return made


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


def _compiler() -> Any:  # noqa: ANN401 - numba has no types
    global _numba
    if _numba is None:
        import numba

        ours, others = f"{CodeLocator.__module__}.{CodeLocator.__name__}", numba.config.CACHE_LOCATOR_CLASSES
        numba.config.CACHE_LOCATOR_CLASSES = f"{ours},{others or NUMBAS_OWN}"
        _numba = numba
        while _extensions:
            _extensions.pop(0)()
    return _numba
