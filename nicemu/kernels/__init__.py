# SPDX-License-Identifier: Apache-2.0
"""Programs as machine code: the IR becomes LLVM instructions, with the lookups of `nicemu.lookup` in line.

A kernel means what the interpreter computes, and differential tests hold the two equal; what a kernel does
not do is interpreted. What makes kernels loads on first use: an engine may do without for long.
Specifications: as `nicemu.pipeline`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .engine import CompiledEngine, drop_reason
from .not_compiled import NotCompiled
from .records import AFTER_EGRESS, AFTER_INGRESS, DROPPED, HELD, PACKET, SPLIT, STUCK, TO_HOST, TO_PORT, TOLD

if TYPE_CHECKING:
    from .hot_run import run_kernel
    from .kernel import generate
    from .loaded import Kernel, kernel_text
    from .slots import Slots

_HOMES = {
    "Kernel": "loaded",
    "Slots": "slots",
    "generate": "kernel",
    "kernel_text": "loaded",
    "run_kernel": "hot_run",
}

__all__ = [
    "AFTER_EGRESS",
    "AFTER_INGRESS",
    "DROPPED",
    "HELD",
    "PACKET",
    "SPLIT",
    "STUCK",
    "TOLD",
    "TO_HOST",
    "TO_PORT",
    "CompiledEngine",
    "Kernel",
    "NotCompiled",
    "Slots",
    "drop_reason",
    "generate",
    "kernel_text",
    "run_kernel",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"nicemu.kernels has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
