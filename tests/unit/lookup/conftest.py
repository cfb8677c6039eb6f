# SPDX-License-Identifier: Apache-2.0
"""Lookup tables, each test with the JIT and without it."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[False, True], ids=["interpreted", "compiled"])
def compiled(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
