# SPDX-License-Identifier: Apache-2.0
"""pytest within pytest, in one process: a test file of somebody else's project."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest

import nicemu.testing.plugin

INSTALLED = bool(metadata.entry_points(group="pytest11", name="nicemu"))
"""Whether pytest finds the plugin by itself."""


class _Modules:
    """Forgets the inner test files alone; pytester would forget parts of numba, which cannot come twice."""

    def __init__(self) -> None:
        self._before = set(sys.modules)

    def restore(self) -> None:
        for name in set(sys.modules) - self._before:
            if name.startswith("test_"):
                del sys.modules[name]


def run_inner(pytester: pytest.Pytester, text: str, *arguments: str) -> pytest.RunResult:
    """Run `text` as test_mine.py of a project as strict as pytest can be."""
    pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config\n")
    pytester.makepyfile(test_mine=text)
    pytester._sys_modules_snapshot = _Modules()  # type: ignore[assignment]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytester, "_Pytester__take_sys_modules_snapshot", _Modules)
        plugins = [] if INSTALLED else [nicemu.testing.plugin]
        return pytester.runpytest_inprocess(*arguments, plugins=plugins)
