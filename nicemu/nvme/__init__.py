# SPDX-License-Identifier: Apache-2.0
"""An NVMe controller and an initiator for one, over bus addresses.

Queues, PRP lists and data may lie in any window; in NIC memory they make a transfer peer-to-peer. The
controller does no I/O: it hands out `BlockIo` effects and is told when they are done.

Specifications: NVM Express Base Specification 2.0; NVM Express NVM Command Set Specification 1.0.
"""

from .command import (
    BROADCAST_NSID,
    CQE_BYTES,
    SQE_BYTES,
    AdminOpcode,
    AdminStatus,
    Cqe,
    Feature,
    IdentifyCns,
    IoOpcode,
    Sqe,
)
from .controller import NvmeController
from .identify import ControllerIdentity, NamespaceIdentity
from .initiator import FIRST_QUEUE, InitiatorState, NvmeInitiator, describe_status
from .messages import Messages, MessageTable
from .namespace import BlockIo, BlockIoKind, Namespace
from .prp import PrpList, Segment, build_prp, list_page_count, walk_prp
from .queue import CompletionConsumer, CompletionQueue, SubmissionProducer, SubmissionQueue
from .queue_memory import queue_memory_bytes
from .register_port import LocalRegisters, NvmeRegisters, OutsideController
from .registers import Capabilities, Configuration, Register, Status, doorbell_offset

__all__ = [
    "BROADCAST_NSID",
    "CQE_BYTES",
    "FIRST_QUEUE",
    "SQE_BYTES",
    "AdminOpcode",
    "AdminStatus",
    "BlockIo",
    "BlockIoKind",
    "Capabilities",
    "CompletionConsumer",
    "CompletionQueue",
    "Configuration",
    "ControllerIdentity",
    "Cqe",
    "Feature",
    "IdentifyCns",
    "InitiatorState",
    "IoOpcode",
    "LocalRegisters",
    "MessageTable",
    "Messages",
    "Namespace",
    "NamespaceIdentity",
    "NvmeController",
    "NvmeInitiator",
    "NvmeRegisters",
    "OutsideController",
    "PrpList",
    "Register",
    "Segment",
    "Sqe",
    "Status",
    "SubmissionProducer",
    "SubmissionQueue",
    "build_prp",
    "describe_status",
    "doorbell_offset",
    "list_page_count",
    "queue_memory_bytes",
    "walk_prp",
]
