# SPDX-License-Identifier: Apache-2.0
"""What host and NIC must agree on: the vocabulary of work, its encodings in shared memory, the register
layout.

Imports nothing but errors and the clock.
Specifications: fi_trigger(3), fi_cntr(3), ibv_post_send(3), ibv_poll_cq(3).
"""

from . import registers
from .check import Finding, Severity, check_program
from .commands import (
    ABI_VERSION,
    ARMED,
    COMMAND,
    COMPLETION,
    NOBODY,
    OPERATION_SHIFT,
    POSTED,
    RESPONSE,
    SIGNALED,
    TRANSMITTED,
    WORK,
    CommandCode,
    CommandStatus,
    pack_deferred,
    pack_program,
    pack_work,
    unpack_work,
)
from .connection import Connection, SharedMemory
from .event_log import Event, EventLog, file_writer, place
from .granularity import Granularity
from .limits import PROFILES, FiringOrder, Limits
from .operands import seconds, shown, text, whole, yes_or_no
from .program import Condition, Program, Step, check_counter
from .span import RemoteSpan, Span, check_remote, local_piece, local_pieces
from .target import (
    Capabilities,
    CounterError,
    ProgramTarget,
    TargetCounter,
    TargetProgram,
    TriggerTableFull,
    Unsupported,
)
from .work import MAX_SGE, Access, AtomicOperation, DeferredWork, Opcode, Sge, WorkCompletion, WorkRequest

__all__ = [
    "ABI_VERSION",
    "ARMED",
    "COMMAND",
    "COMPLETION",
    "MAX_SGE",
    "NOBODY",
    "OPERATION_SHIFT",
    "POSTED",
    "PROFILES",
    "RESPONSE",
    "SIGNALED",
    "TRANSMITTED",
    "WORK",
    "Access",
    "AtomicOperation",
    "Capabilities",
    "CommandCode",
    "CommandStatus",
    "Condition",
    "Connection",
    "CounterError",
    "DeferredWork",
    "Event",
    "EventLog",
    "Finding",
    "FiringOrder",
    "Granularity",
    "Limits",
    "Opcode",
    "Program",
    "ProgramTarget",
    "RemoteSpan",
    "Severity",
    "Sge",
    "SharedMemory",
    "Span",
    "Step",
    "TargetCounter",
    "TargetProgram",
    "TriggerTableFull",
    "Unsupported",
    "WorkCompletion",
    "WorkRequest",
    "check_counter",
    "check_program",
    "check_remote",
    "file_writer",
    "local_piece",
    "local_pieces",
    "pack_deferred",
    "pack_program",
    "pack_work",
    "place",
    "registers",
    "seconds",
    "shown",
    "text",
    "unpack_work",
    "whole",
    "yes_or_no",
]
