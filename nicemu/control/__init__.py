# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, the one control path of a NIC: a server on targets it is given, a client for CLI and tests.

The names load on first use: importing the room imports neither gRPC nor protobuf.
Specification: P4Runtime Specification 1.4.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .p4runtime_client import P4RuntimeClient, ReadEntry, Update
    from .p4runtime_server import P4RuntimeServer
    from .schema import TableSchema
    from .target import PipelineTarget
    from .value_text import parse_match, parse_value

_HOMES = {
    "P4RuntimeClient": "p4runtime_client",
    "P4RuntimeServer": "p4runtime_server",
    "PipelineTarget": "target",
    "ReadEntry": "p4runtime_client",
    "TableSchema": "schema",
    "Update": "p4runtime_client",
    "parse_match": "value_text",
    "parse_value": "value_text",
}

__all__ = [
    "P4RuntimeClient",
    "P4RuntimeServer",
    "PipelineTarget",
    "ReadEntry",
    "TableSchema",
    "Update",
    "parse_match",
    "parse_value",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"nicemu.control has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
