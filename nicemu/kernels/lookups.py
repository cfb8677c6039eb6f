# SPDX-License-Identifier: Apache-2.0
"""The lookups of `nicemu.lookup` as LLVM text, which kernels take in and LLVM puts in line.

They are compiled once for each match kind and number of limbs, and kept beside the code of hot functions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nicemu.hot import cache_folder
from nicemu.lookup import find, find_ternary, hash_of, index_of, prefetch_bucket, prefetch_entry
from nicemu.pcie import store_u64


def lookup_text(kind: str, limbs: int, processor: str) -> dict[str, str]:
    """Return LLVM modules by the name of the function that each defines, as `Lookup` names them."""
    names = [what for what, of_kind in _SOURCES if of_kind == kind]
    return {f"{what}_{kind}_{limbs}": _kept(what, kind, limbs, processor) for what in names}


def _kept(what: str, kind: str, limbs: int, processor: str) -> str:
    name = f"{what}_{kind}_{limbs}"
    path: Path | None = cache_folder() / "kernels" / f"{name}.{processor}.ll"
    assert path is not None
    with contextlib.suppress(OSError):
        return path.read_text()
    text = _compiled(_SOURCES[what, kind](limbs), 3 if what == "find" else 2)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(text)
        partial.replace(path)
    return text


def _compiled(function: Callable[..., Any], words: int) -> str:
    """Return the LLVM module of a function of `words` words that returns one."""
    import numba
    from numba import types

    signature = (types.uint64,) * words
    made = numba.njit(nogil=True, error_model="numpy", _nrt=False)(function)
    made.compile(signature)
    text: str = made.overloads[signature].library.get_llvm_str()
    return text


def _find_exact(limbs: int) -> Callable[..., Any]:
    import numpy as np

    count, eight = np.uint64(limbs), np.uint64(8)

    def lookup(state: Any, key: Any, found: Any) -> Any:  # noqa: ANN401
        entry, head = find(index_of(state), key, count, hash_of(key, count))
        store_u64(found, entry)
        store_u64(found + eight, head)
        return entry

    return lookup


def _find_ternary(limbs: int) -> Callable[..., Any]:
    import numpy as np

    count, eight = np.uint64(limbs), np.uint64(8)

    def lookup(state: Any, key: Any, found: Any) -> Any:  # noqa: ANN401
        entry, head = find_ternary(state, key, count)
        store_u64(found, entry)
        store_u64(found + eight, head)
        return entry

    return lookup


def _fetch_exact(limbs: int) -> Callable[..., Any]:
    import numpy as np

    count = np.uint64(limbs)

    def fetch(state: Any, key: Any) -> Any:  # noqa: ANN401
        digest = hash_of(key, count)
        prefetch_bucket(index_of(state), digest)
        return digest

    return fetch


def _fetch_entry(limbs: int) -> Callable[..., Any]:
    def fetch(state: Any, digest: Any) -> Any:  # noqa: ANN401
        prefetch_entry(index_of(state), digest)
        return state

    return fetch


_SOURCES: dict[tuple[str, str], Callable[[int], Callable[..., Any]]] = {
    ("find", "exact"): _find_exact,
    ("find", "ternary"): _find_ternary,
    ("fetch", "exact"): _fetch_exact,
    ("entry", "exact"): _fetch_entry,
}
