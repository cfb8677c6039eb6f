# SPDX-License-Identifier: Apache-2.0
"""Trigger units, each test with the JIT and without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nicemu.abi import Limits
from nicemu.trigger import TriggerUnit
from tests.conformance.trigger.firing_loop import FiringLoop


@pytest.fixture(params=[False, True], ids=["interpreted", "compiled"])
def compiled(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def make_loop(compiled: bool) -> Callable[..., FiringLoop]:
    def make(limits: Limits | None = None, fairness: int = 64) -> FiringLoop:
        return FiringLoop(TriggerUnit(limits or Limits(8, 32), compiled), fairness)

    return make


@pytest.fixture
def loop(make_loop: Callable[..., FiringLoop]) -> FiringLoop:
    """A unit of 8 counters and 32 slots."""
    return make_loop()


@pytest.fixture
def unit(loop: FiringLoop) -> TriggerUnit:
    return loop.unit
