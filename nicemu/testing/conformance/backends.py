# SPDX-License-Identifier: Apache-2.0
"""Every bench by name, and where each is known not to follow the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias

from nicemu.abi import Limits

from .bench import Absent, Bench
from .stepped_bench import stepped_bench

OpenBench: TypeAlias = Callable[[Limits], AbstractContextManager[Bench]]

OURS = ("interpreted", "compiled")
"""The benches of our own engine: it follows every rule."""


def _libfabric(limits: Limits) -> AbstractContextManager[Bench]:
    """Raises: Absent without the library, Unsupported for limits that it cannot have."""
    if find_spec(f"{__package__}.libfabric_bench") is None:
        raise Absent("this nicemu has no bench over libfabric")
    bench: AbstractContextManager[Bench] = import_module(".libfabric_bench", __package__).libfabric_bench(
        limits
    )
    return bench


BENCHES: dict[str, OpenBench] = {
    "interpreted": lambda limits: stepped_bench(limits, compiled=False),
    "compiled": lambda limits: stepped_bench(limits, compiled=True),
    "libfabric": _libfabric,
}
"""How to open each bench. What it returns raises `Absent` or `Unsupported` when called or when entered."""


def deviations(bench: str) -> Mapping[str, str]:
    """Return by the names of cases what a bench does instead; it must be so, or the case must not be here.

    A bench over somebody else's library has them in its own file, as `DEVIATIONS`.
    """
    if bench in OURS or find_spec(f"{__package__}.{bench}_bench") is None:
        return {}
    found: Mapping[str, str] = import_module(f".{bench}_bench", __package__).DEVIATIONS
    return found
