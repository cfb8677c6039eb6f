# SPDX-License-Identifier: Apache-2.0
"""Programs as machine code: the IR becomes LLVM instructions, with the lookups of `nicemu.lookup` in line.

A kernel means what the interpreter computes, and differential tests hold the two equal; what a kernel does
not do is interpreted. Specifications: as `nicemu.pipeline`.
"""

from .engine import CompiledEngine, Kernel, drop_reason, kernel_text
from .expressions import NotCompiled
from .groups import GROUP
from .kernel import generate
from .records import AFTER_EGRESS, AFTER_INGRESS, DROPPED, HELD, PACKET, STUCK, TO_HOST, TO_PORT, TOLD
from .slots import Slots

__all__ = [
    "AFTER_EGRESS",
    "AFTER_INGRESS",
    "DROPPED",
    "GROUP",
    "HELD",
    "PACKET",
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
]
