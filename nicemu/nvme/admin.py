# SPDX-License-Identifier: Apache-2.0
"""What the controller does for each admin command.

Source: NVM Express Base Specification 2.0, "Admin Command Set"; NVM Command Set Specification 1.0, "Identify
command".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from nicemu.errors import NvmeCommandError, NvmeStatus
from nicemu.pcie import AddressSpace

from .command import AdminOpcode, AdminStatus, Feature, IdentifyCns, Sqe
from .features import Features
from .identify import (
    ASYNC_EVENT_LIMIT,
    IDENTIFY_BYTES,
    ControllerIdentity,
    NamespaceIdentity,
    encode_namespace_descriptors,
    encode_namespace_list,
)
from .io_command import check_plain, status_of_nsid
from .log_page import IoTotals, LogPage, read_log
from .namespace import Namespace
from .prp import walk_prp
from .queue_table import ADMIN, QueueTable
from .registers import IO_CQE_SHIFT, IO_SQE_SHIFT, Configuration

Outcome = tuple[int, int]
"""Status and result (dword 0) of a command."""

_NOT_ABORTED: Final = 1
_NVM_COMMAND_SET: Final = 0
_LAST_NSID: Final = 0xFFFF_FFFD
_TEMPERATURE_EVENT_BIT: Final = 1
_TEMPERATURE_EVENT: Final = LogPage.HEALTH << 16 | 1 << 8 | 1
"""Dword 0: which log page has more, the temperature threshold, of the health status."""
_RETAIN_EVENT: Final = 1 << 15


class IoCancel(Protocol):
    """What the admin commands may ask of the I/O side."""

    def cancel_io(self, sq_id: int, cid: int | None, status: NvmeStatus) -> bool:
        """Complete a command whose I/O nobody has begun, all of the queue's if `cid` is None.

        True if there was one.
        """
        ...


class AdminCommands:
    """The admin command set over a queue table.

    `execute` returns the outcome of a command, or None for one that stays pending: an asynchronous event
    request, and the deletion of a submission queue until its last command has completed.
    """

    def __init__(
        self,
        table: QueueTable,
        namespaces: Mapping[int, Namespace],
        memory: AddressSpace,
        identity: ControllerIdentity,
        io_queue_limit: int,
        io: IoCancel,
        initiator: str,
        totals: IoTotals,
        max_transfer_bytes: int,
    ) -> None:
        self.configuration = Configuration(enable=False)
        self._table = table
        self._namespaces = namespaces
        self._memory = memory
        self._identity = identity
        self._io_queue_limit = io_queue_limit
        self._io = io
        self._initiator = initiator
        self._totals = totals
        self._max_transfer_bytes = max_transfer_bytes
        self._commands = {
            AdminOpcode.DELETE_IO_SQ: self._delete_submission,
            AdminOpcode.CREATE_IO_SQ: self._create_submission,
            AdminOpcode.GET_LOG_PAGE: self._get_log_page,
            AdminOpcode.DELETE_IO_CQ: self._delete_completion,
            AdminOpcode.CREATE_IO_CQ: self._create_completion,
            AdminOpcode.IDENTIFY: self._identify,
            AdminOpcode.ABORT: self._abort,
            AdminOpcode.SET_FEATURES: self._set_features,
            AdminOpcode.GET_FEATURES: self._get_features,
            AdminOpcode.ASYNC_EVENT_REQUEST: self._request_async_event,
        }
        self._features = Features(namespaces, _pair(io_queue_limit, io_queue_limit), table.vector_count)
        self.reset()

    def reset(self) -> None:
        """Return to the state after power-on."""
        self._features.reset()
        self._sq_limit = self._cq_limit = self._io_queue_limit
        self._async_events: list[int] = []
        self._temperature_event_waits = self._is_health_masked = False
        self._deletions: dict[int, int] = {}

    def execute(self, sqe: Sqe) -> Outcome | None:
        """Do what an admin command asks for.

        Raises: NvmeCommandError with the status that the command completes with; nothing was changed.
        """
        command = self._commands.get(sqe.opcode)  # type: ignore[call-overload]
        if command is None:
            raise NvmeCommandError(
                NvmeStatus.INVALID_COMMAND_OPCODE,
                f"admin opcode {sqe.opcode:#04x}; supported are {', '.join(AdminOpcode.__members__)}",
            )
        check_plain(sqe)
        outcome: Outcome | None = command(sqe)
        return outcome

    def complete_deletions(self) -> None:
        """Complete the deletion of every submission queue that has drained."""
        for sq_id in self._table.take_drained():
            self._table.complete(ADMIN, self._deletions.pop(sq_id), NvmeStatus.SUCCESS)

    def _create_completion(self, sqe: Sqe) -> Outcome:
        qid, entry_count = _queue_fields(sqe)
        if qid > self._cq_limit:
            return NvmeStatus.INVALID_QUEUE_IDENTIFIER, 0
        if self.configuration.io_cqe_shift != IO_CQE_SHIFT:
            return NvmeStatus.INVALID_QUEUE_SIZE, 0
        if not sqe.cdw11 & 1:
            return NvmeStatus.INVALID_FIELD, 0
        vector = sqe.cdw11 >> 16 if sqe.cdw11 & 2 else None
        return self._table.create_completion(qid, sqe.prp1, entry_count, vector), 0

    def _create_submission(self, sqe: Sqe) -> Outcome:
        qid, entry_count = _queue_fields(sqe)
        cq_id = sqe.cdw11 >> 16
        if qid > self._sq_limit or cq_id > self._cq_limit:
            return NvmeStatus.INVALID_QUEUE_IDENTIFIER, 0
        if self.configuration.io_sqe_shift != IO_SQE_SHIFT:
            return NvmeStatus.INVALID_QUEUE_SIZE, 0
        if not sqe.cdw11 & 1:
            return NvmeStatus.INVALID_FIELD, 0
        return self._table.create_submission(qid, cq_id, sqe.prp1, entry_count), 0

    def _delete_submission(self, sqe: Sqe) -> Outcome | None:
        qid = sqe.cdw10 & 0xFFFF
        if not self._table.close_submission(qid):
            return NvmeStatus.INVALID_QUEUE_IDENTIFIER, 0
        self._deletions[qid] = sqe.cid
        self._io.cancel_io(qid, None, NvmeStatus.ABORTED_SQ_DELETION)
        return None

    def _delete_completion(self, sqe: Sqe) -> Outcome:
        return self._table.delete_completion(sqe.cdw10 & 0xFFFF), 0

    def _abort(self, sqe: Sqe) -> Outcome:
        sq_id, cid = sqe.cdw10 & 0xFFFF, sqe.cdw10 >> 16
        if sq_id == ADMIN and cid in self._async_events:
            self._async_events.remove(cid)
            self._table.complete(ADMIN, cid, NvmeStatus.ABORTED_BY_REQUEST)
            return NvmeStatus.SUCCESS, 0
        is_aborted = self._io.cancel_io(sq_id, cid, NvmeStatus.ABORTED_BY_REQUEST)
        return NvmeStatus.SUCCESS, 0 if is_aborted else _NOT_ABORTED

    def _request_async_event(self, sqe: Sqe) -> Outcome | None:
        if len(self._async_events) == ASYNC_EVENT_LIMIT:
            return AdminStatus.ASYNC_EVENT_LIMIT_EXCEEDED, 0
        self._async_events.append(sqe.cid)
        self._send_async_events()
        return None

    def _send_async_events(self) -> None:
        """Report that the temperature has passed a threshold, once until the host has read the health log."""
        if self._temperature_event_waits and self._async_events and not self._is_health_masked:
            self._temperature_event_waits, self._is_health_masked = False, True
            cid = self._async_events.pop(0)
            self._table.complete(ADMIN, cid, NvmeStatus.SUCCESS, _TEMPERATURE_EVENT)

    def _set_features(self, sqe: Sqe) -> Outcome:
        was_out_of_range = self._features.is_temperature_out_of_range
        if sqe.cdw10 & 0xFF == Feature.NUMBER_OF_QUEUES:
            self._check_queue_count(sqe.cdw11)
        feature = self._features.set(sqe)
        if feature is Feature.NUMBER_OF_QUEUES:
            return NvmeStatus.SUCCESS, self._set_queue_count(sqe.cdw11)
        if self._features.is_temperature_out_of_range and not was_out_of_range:
            self._temperature_event_waits = self._features.is_event_enabled(_TEMPERATURE_EVENT_BIT)
            self._send_async_events()
        return NvmeStatus.SUCCESS, 0

    def _check_queue_count(self, wanted: int) -> None:
        if self._table.io_queue_count:
            raise NvmeCommandError(AdminStatus.COMMAND_SEQUENCE_ERROR, "there are I/O queues already")
        if 0xFFFF in (wanted & 0xFFFF, wanted >> 16):
            raise NvmeCommandError(NvmeStatus.INVALID_FIELD, "65536 queues; 65535 are the most to ask for")

    def _set_queue_count(self, wanted: int) -> int:
        """Allocate queues, and return how many."""
        self._sq_limit = min((wanted & 0xFFFF) + 1, self._io_queue_limit)
        self._cq_limit = min((wanted >> 16) + 1, self._io_queue_limit)
        allocated = _pair(self._sq_limit, self._cq_limit)
        self._features.store(Feature.NUMBER_OF_QUEUES, allocated)
        return allocated

    def _get_features(self, sqe: Sqe) -> Outcome:
        return NvmeStatus.SUCCESS, self._features.get(sqe)

    def _identify(self, sqe: Sqe) -> Outcome:
        self._return(sqe, self._identify_data(sqe.cdw10 & 0xFF, sqe.nsid, sqe.cdw11 >> 24))
        return NvmeStatus.SUCCESS, 0

    def _get_log_page(self, sqe: Sqe) -> Outcome:
        warns = self._features.is_temperature_out_of_range
        found = read_log(sqe, self._totals, self._max_transfer_bytes, warns_of_temperature=warns)
        if isinstance(found, int):
            return found, 0
        self._return(sqe, found)
        if sqe.cdw10 & 0xFF == LogPage.HEALTH and not sqe.cdw10 & _RETAIN_EVENT:
            self._is_health_masked = False
            self._send_async_events()
        return NvmeStatus.SUCCESS, 0

    def _return(self, sqe: Sqe, data: bytes) -> None:
        """Store data where a command's PRPs say."""
        place = 0
        for address, length_bytes in walk_prp(
            sqe.prp1, sqe.prp2, len(data), self._memory, initiator=self._initiator
        ):
            self._memory.write(address, data[place : place + length_bytes], self._initiator)
            place += length_bytes

    def _identify_data(self, cns: int, nsid: int, command_set: int) -> bytes:
        namespace = self._namespaces.get(nsid)
        if cns == IdentifyCns.CONTROLLER:
            return self._identity.encode()
        if cns == IdentifyCns.NAMESPACE and 1 <= nsid <= self._identity.namespace_limit:
            geometry = (namespace.block_bytes, namespace.block_count) if namespace else (0, 0)
            return NamespaceIdentity(*geometry).encode()
        if cns == IdentifyCns.COMMAND_SET_CONTROLLER and command_set == _NVM_COMMAND_SET:
            return bytes(IDENTIFY_BYTES)  # no limits beyond MDTS, and no optional commands
        if cns == IdentifyCns.COMMAND_SET_NAMESPACE and command_set == _NVM_COMMAND_SET and namespace:
            return bytes(IDENTIFY_BYTES)  # no metadata, no protection information
        if cns == IdentifyCns.ACTIVE_NAMESPACES and nsid <= _LAST_NSID:
            return encode_namespace_list(active for active in self._namespaces if active > nsid)
        if cns == IdentifyCns.NAMESPACE_DESCRIPTORS and namespace:
            return encode_namespace_descriptors(self._identity.serial, nsid)
        if cns in (IdentifyCns.NAMESPACE, IdentifyCns.ACTIVE_NAMESPACES, IdentifyCns.NAMESPACE_DESCRIPTORS):
            is_inactive = cns == IdentifyCns.NAMESPACE_DESCRIPTORS and nsid <= _LAST_NSID
            raise NvmeCommandError(
                status_of_nsid(nsid, self._namespaces) if is_inactive else NvmeStatus.INVALID_NAMESPACE,
                f"nsid {nsid:#x} cannot be identified by CNS {cns}",
            )
        raise NvmeCommandError(
            NvmeStatus.INVALID_FIELD,
            f"CNS {cns:#04x} of command set {command_set} is not supported; 0x00 to 0x03, 0x05 and 0x06 are",
        )


def _queue_fields(sqe: Sqe) -> tuple[int, int]:
    return sqe.cdw10 & 0xFFFF, (sqe.cdw10 >> 16) + 1


def _pair(sq_count: int, cq_count: int) -> int:
    return cq_count - 1 << 16 | sq_count - 1
