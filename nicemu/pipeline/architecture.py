# SPDX-License-Identifier: Apache-2.0
"""What a P4 architecture is to compiler, verifier and engine: its blocks, its metadata, its externs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from . import ir
from .externs import ExternFunction, ExternType
from .trace import Event

HOST_PORT = 510
"""The port behind which a NIC's host is."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A frame that came in: on which port, and when, in nanoseconds; `trace` takes events, if given. What
    leaves by `cpu_port` goes to the host, too.
    """

    frame: bytes
    port: int
    now_ns: int = 0
    trace: list[Event] | None = None
    cpu_port: int = HOST_PORT


@dataclass(frozen=True, slots=True)
class Role:
    """A control behind the parser; `place` says which statements may stand in it: control or deparser.

    A program may leave out one that `is_optional`.
    """

    name: str
    place: str
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Architecture:
    """One architecture. Its package takes the parser, then a control for each role, in order.

    The parameters of every block but packets are, in order, the headers, the program's metadata and
    `metadata`, the architecture's, which lies in the variable `place`; a block may leave out the last ones.
    `enums` are the members that the engine knows by their position.
    Where `counts_every_table`, tables without a direct counter show one to the controller all the same.
    """

    name: str
    package: str
    include: str
    metadata: ir.StructType
    place: str
    roles: tuple[Role, ...]
    functions: Mapping[str, ExternFunction]
    objects: Mapping[str, ExternType]
    enums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    counts_every_table: bool = False
