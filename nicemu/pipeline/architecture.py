# SPDX-License-Identifier: Apache-2.0
"""What a P4 architecture is to the engine: the blocks of its pipeline, its metadata, its externs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import ir
from .externs import FUNCTIONS, NIC_METADATA, OBJECTS, ExternFunction, ExternType


@dataclass(frozen=True, slots=True)
class Role:
    """A control behind the parser; `place` says which statements may stand in it: control or deparser."""

    name: str
    place: str


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture. Its package takes the parser, then a control for each role, in order.

    The parameters of every block but packets are, in order, the headers, the program's metadata and
    `metadata`, the architecture's.
    """

    name: str
    package: str
    include: str
    metadata: ir.StructType
    roles: tuple[Role, ...]
    functions: Mapping[str, ExternFunction]
    objects: Mapping[str, ExternType]


NIC = Architecture(
    "nicemu",
    "SmartNic",
    "nicemu.p4",
    NIC_METADATA,
    (Role("control", "control"), Role("deparser", "deparser")),
    FUNCTIONS,
    OBJECTS,
)
"""The SmartNIC architecture of p4/include/nicemu.p4."""

ARCHITECTURES: Mapping[str, Architecture] = {NIC.name: NIC}
