# SPDX-License-Identifier: Apache-2.0
"""The architectures that the engine has, by name."""

from __future__ import annotations

from collections.abc import Mapping

from . import ir
from .architecture import Architecture
from .matches import width_of
from .smartnic import NIC
from .v1switch import V1MODEL

ARCHITECTURES: Mapping[str, Architecture] = {NIC.name: NIC, V1MODEL.name: V1MODEL}


def last_port(program: ir.Program) -> int:
    """Return the largest number that a port has on which packets of a program come in."""
    fields = ARCHITECTURES[program.architecture].metadata.fields
    return max((1 << width_of(field.type)) - 1 for field in fields if field.name == "ingress_port")
