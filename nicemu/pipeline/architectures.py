# SPDX-License-Identifier: Apache-2.0
"""The architectures that the engine has, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import ir, smartnic, v1switch
from .architecture import Architecture, Arrival
from .interpreter import Interpreter
from .matches import width_of
from .smartnic import NIC
from .v1switch import V1MODEL
from .verdict import Verdict

ARCHITECTURES: Mapping[str, Architecture] = {NIC.name: NIC, V1MODEL.name: V1MODEL}

RUN: Mapping[str, Callable[[Interpreter, Arrival], Verdict]] = {
    NIC.name: smartnic.run,
    V1MODEL.name: v1switch.run,
}
"""What takes a frame through a program of an architecture."""


def last_port(program: ir.Program) -> int:
    """Return the largest number that a port has on which packets of a program come in."""
    fields = ARCHITECTURES[program.architecture].metadata.fields
    return max((1 << width_of(field.type)) - 1 for field in fields if field.name == "ingress_port")
