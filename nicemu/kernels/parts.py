# SPDX-License-Identifier: Apache-2.0
"""Hot functions that kernels take in as LLVM text, to be put in line: lookups, and sums over bytes.

Each is compiled by numba once, and kept beside the code of other hot functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nicemu.hot import own_cache_folder
from nicemu.kept_files import keep, kept
from nicemu.lookup import (
    begin_exact,
    begin_lpm,
    end_exact,
    end_lpm,
    find,
    find_lpm,
    find_ternary,
    hash_of,
    index_of,
    step_exact,
    step_lpm,
    strides_of,
)
from nicemu.pipeline import ir

from . import sums
from .table_keys import key_bits

Function = Callable[..., Any]
WITH_NOTES = ("exact", "lpm")
"""Kinds of tables whose lookups can be taken apart (`nicemu.lookup.ahead`)."""
MAX_PREFIX_BITS = 128
"""Keys up to here that are one prefix are looked up in a trie; other prefixes are masks."""


@dataclass(frozen=True, slots=True)
class Part:
    """A function: what it does, of which kind of table or algorithm, for keys of how many limbs."""

    what: str
    kind: str
    limbs: int = 0

    @property
    def name(self) -> str:
        """The name under which a kernel calls it."""
        return f"{self.what}_{self.kind}_{self.limbs}"

    @property
    def words(self) -> int:
        """How many words it takes."""
        return _WORDS[self.what]


def find_part(table: ir.Table) -> Part:
    """Return what looks up in a table: given its state and a key, it returns entry and head."""
    kinds = [key.match_kind for key in table.keys]
    kind = "exact" if set(kinds) <= {ir.MatchKind.EXACT} else "ternary"
    if kinds == [ir.MatchKind.LPM] and key_bits(table) <= MAX_PREFIX_BITS:
        kind = "lpm"
    return Part("find", kind, -(-key_bits(table) // 64))


def steps_of(table: ir.Table) -> int:
    """Return how many steps a lookup in a table takes at most that has been begun."""
    return len(strides_of(key_bits(table))) if find_part(table).kind == "lpm" else 1


def part_text(part: Part, processor: str) -> str:
    """Return the LLVM module that defines a part under a name of numba's."""
    path = own_cache_folder() / "kernels" / f"{part.name}.{processor}.ll"
    found = kept(path)
    if found is not None:
        return found.decode()
    text = _compiled(_SOURCES[part.what, part.kind](part.limbs), part.words)
    keep(path, text.encode())
    return text


def _compiled(function: Function, words: int) -> str:
    import numba
    from numba import types

    signature = (types.uint64,) * words
    made = numba.njit(nogil=True, error_model="numpy", _nrt=False)(function)
    made.compile(signature)
    text: str = made.overloads[signature].library.get_llvm_str()
    return text


def _find_exact(limbs: int) -> Function:
    count = np.uint64(limbs)

    def lookup(state: Any, key: Any) -> Any:  # noqa: ANN401
        return find(index_of(state), key, count, hash_of(key, count))

    return lookup


def _find_by(search: Function) -> Callable[[int], Function]:
    def make(limbs: int) -> Function:
        count = np.uint64(limbs)

        def lookup(state: Any, key: Any) -> Any:  # noqa: ANN401
            return search(state, key, count)

        return lookup

    return make


def _begin(begins: Function) -> Callable[[int], Function]:
    def make(limbs: int) -> Function:
        count = np.uint64(limbs)

        def begin(state: Any, key: Any, note: Any) -> Any:  # noqa: ANN401
            return begins(state, key, count, note)

        return begin

    return make


def _step(steps: Function) -> Callable[[int], Function]:
    def make(limbs: int) -> Function:
        count = np.uint64(limbs)

        def step(state: Any, note: Any) -> Any:  # noqa: ANN401
            return steps(state, count, note)

        return step

    return make


def _end(ends: Function) -> Callable[[int], Function]:
    def make(limbs: int) -> Function:
        count = np.uint64(limbs)

        def end(state: Any, key: Any, note: Any) -> Any:  # noqa: ANN401
            return ends(state, key, count, note)

        return end

    return make


def _sum(function: Function) -> Callable[[int], Function]:
    def make(limbs: int) -> Function:
        def sums_up(data: Any, length: Any, payload: Any, payload_length: Any) -> Any:  # noqa: ANN401
            return function(data, length, payload, payload_length)

        return sums_up

    return make


_WORDS = {"find": 2, "begin": 3, "step": 2, "end": 3, "sum": 4}
_SOURCES: dict[tuple[str, str], Callable[[int], Function]] = {
    ("find", "exact"): _find_exact,
    ("find", "ternary"): _find_by(find_ternary),
    ("find", "lpm"): _find_by(find_lpm),
    ("begin", "exact"): _begin(begin_exact),
    ("begin", "lpm"): _begin(begin_lpm),
    ("step", "exact"): _step(step_exact),
    ("step", "lpm"): _step(step_lpm),
    ("end", "exact"): _end(end_exact),
    ("end", "lpm"): _end(end_lpm),
    ("sum", "crc32"): _sum(sums.sum_crc32),
    ("sum", "crc32_custom"): _sum(sums.sum_crc32),
    ("sum", "crc16"): _sum(sums.sum_crc16),
    ("sum", "crc16_custom"): _sum(sums.sum_crc16),
    ("sum", "csum16"): _sum(sums.sum_csum16),
    ("sum", "xor16"): _sum(sums.sum_xor16),
    ("sum", "identity"): _sum(sums.sum_identity),
}
