# SPDX-License-Identifier: Apache-2.0
"""The extern objects of a running program, and what else outlives a packet."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from . import ir
from .externs import ExternType


class Objects:
    """The state of every extern object by its full name, and the engine's seeded chance."""

    def __init__(self, program: ir.Program, types: Mapping[str, ExternType], seed: int = 0) -> None:
        self.instances = {instance.name: instance for instance in program.externs}
        self.states: dict[str, Any] = {
            instance.name: types[instance.extern].make(instance) for instance in program.externs
        }
        self.random = random.Random(seed)
