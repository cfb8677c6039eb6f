# SPDX-License-Identifier: Apache-2.0
"""Programs of deferred work on libfabric, loaded when a target is opened. Manual: docs/libfabric.md."""

from .abi import libfabric_version
from .counter import LibfabricCounter, LibfabricProgram
from .domain import trigger_providers
from .target import FabricMemory, LibfabricTarget, Loopback

__all__ = [
    "FabricMemory",
    "LibfabricCounter",
    "LibfabricProgram",
    "LibfabricTarget",
    "Loopback",
    "libfabric_version",
    "trigger_providers",
]
