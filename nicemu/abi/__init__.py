# SPDX-License-Identifier: Apache-2.0
"""What host and NIC must agree on: the vocabulary of work, its encodings in shared memory, the register
layout.

Imports nothing but errors. Specifications: fi_trigger(3), fi_cntr(3), ibv_post_send(3), ibv_poll_cq(3).
"""

from . import registers
from .commands import (
    ABI_VERSION,
    ARMED,
    COMMAND,
    COMPLETION,
    NOBODY,
    RESPONSE,
    SIGNALED,
    WORK,
    CommandCode,
    CommandStatus,
    pack_deferred,
    pack_work,
    unpack_work,
)
from .connection import Connection, SharedMemory
from .program import Condition, Program, RemoteSpan, Span, Step
from .work import MAX_SGE, Access, DeferredWork, Opcode, Sge, WorkCompletion, WorkRequest

__all__ = [
    "ABI_VERSION",
    "ARMED",
    "COMMAND",
    "COMPLETION",
    "MAX_SGE",
    "NOBODY",
    "RESPONSE",
    "SIGNALED",
    "WORK",
    "Access",
    "CommandCode",
    "CommandStatus",
    "Condition",
    "Connection",
    "DeferredWork",
    "Opcode",
    "Program",
    "RemoteSpan",
    "Sge",
    "SharedMemory",
    "Span",
    "Step",
    "WorkCompletion",
    "WorkRequest",
    "pack_deferred",
    "pack_work",
    "registers",
    "unpack_work",
]
