# SPDX-License-Identifier: Apache-2.0
"""A host's association with the controller: fabrics commands, properties, and its commands on the rings.

Commands, data and completions are the controller's own: what is in between changes only what the transport
wants changed, which is command identifiers, data pointers, and the fabric fields of Identify Controller.
Source: NVM Express Base Specification 2.0, "Fabrics Command Set", "Keep Alive", "Controller Initialization".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

from nicemu.errors import NvmeStatus
from nicemu.nvme import (
    AdminOpcode,
    AdminStatus,
    Cqe,
    Feature,
    IdentifyCns,
    IoOpcode,
    NvmeRegisters,
    Register,
    Sqe,
)
from nicemu.pcie import AddressSpace

from .connection import Command, Connection
from .fabrics import (
    CONNECT_DATA_BYTES,
    KEEP_ALIVE_UNITS,
    Connect,
    FabricsStatus,
    FabricsType,
    Sgl,
    invalid_parameter,
    patched_identity,
)
from .ring import MAX_ENTRIES, QUEUES, Memory, Ring

_ENABLE: Final = 1
_READY: Final = 1
_IDENTIFY_BYTES: Final = 4096
_KEEP_ALIVE: Final = 0x18
_NOT_OVER_FABRICS: Final = (
    AdminOpcode.CREATE_IO_CQ,
    AdminOpcode.CREATE_IO_SQ,
    AdminOpcode.DELETE_IO_CQ,
    AdminOpcode.DELETE_IO_SQ,
)
_CONTIGUOUS: Final = 1
_EIGHT_BYTES: Final = 1
_PROPERTIES: Final = {Register.CAP: 8, Register.VS: 4, Register.CC: 4, Register.CSTS: 4}
_NOT_ABORTED: Final = 1
_CHANGEABLE: Final = 1 << 2
_OF_INTERRUPTS: Final = (Feature.INTERRUPT_COALESCING, Feature.INTERRUPT_VECTOR_CONFIGURATION)
"""Features of controllers whose queues are in memory."""
_SQSIZE, _QID, _CNTLID, _SUBNQN, _HOSTNQN = 44, 42, 16, 256, 512
"""Where fields of Connect and of its data lie."""
_RESET_ROUNDS: Final = 100_000


class ServedController(Protocol):
    """A controller to serve: `memory` is what it reaches, `TARGET_MEMORY_BYTES` at `base` the target's."""

    @property
    def registers(self) -> NvmeRegisters:
        """Its registers."""
        ...

    @property
    def memory(self) -> AddressSpace:
        """What it reaches."""
        ...

    @property
    def base(self) -> int:
        """Where the target's part begins, on a page."""
        ...

    @property
    def block_bytes(self) -> Mapping[int, int]:
        """Bytes of a block, by nsid."""
        ...

    def run(self) -> None:
        """Let the controller go on for a moment."""
        ...


class Association:
    """One host at a time; another is told that the controller is busy. It is an `Executor`."""

    def __init__(self, served: ServedController, subsystem: str) -> None:
        self.subsystem = subsystem
        self.connections: dict[int, Connection] = {}
        self._served = served
        self._registers = served.registers
        self._memory = Memory(served.memory, served.base)
        self._rings: dict[int, Ring] = {}
        self._waiting: deque[Command] = deque()
        self._host: tuple[str | None, bytes] = (None, b"")
        self._admin_entries = 2
        self._keep_alive_ns = self._connected_keep_alive_ns = self._heard_ns = self._now_ns = 0

    # Time

    @property
    def is_busy(self) -> bool:
        """Whether the controller has commands that it will complete by itself, or some wait to go."""
        return bool(self._waiting) or any(
            command.internal_cid is not None
            and (qid or command.sqe.opcode != AdminOpcode.ASYNC_EVENT_REQUEST)
            for qid, connection in self.connections.items()
            for command in connection.commands.values()
        )

    def run(self, now_ns: int) -> None:
        """Let the controller go on and answer what it has completed; end an association that fell silent."""
        self._now_ns = now_ns
        self._served.run()
        while any([ring.reap() for ring in list(self._rings.values())]):
            pass
        for _ in range(len(self._waiting)):
            self.execute(self._waiting.popleft())
        if self._keep_alive_ns and now_ns - self._heard_ns > 2 * self._keep_alive_ns:
            self._keep_alive_ns = 0
            for connection in self.connections.values():
                connection.end("keep_alive")

    def leave(self, connection: Connection) -> None:
        """A connection is gone: its queue pair goes too, and with the admin queue's the association."""
        connection.is_over = True
        qid = connection.qid
        if qid is None or self.connections.get(qid) is not connection:
            return
        if qid:
            self._forget(connection)
            self._delete_queue(qid)
            return
        for other in self.connections.values():
            other.is_over = True
        self.connections.clear()
        self._keep_alive_ns = 0
        self._reset()

    def _forget(self, connection: Connection) -> None:
        """Drop what the controller has not got, and give its buffers back."""
        self._waiting = deque(one for one in self._waiting if one.connection is not connection)
        for command in connection.forget():
            if command.internal_cid is None and command.buffer is not None:
                self._memory.put(command.buffer)

    def _reset(self) -> bool:
        """Disable the controller; return whether it is, so that no buffer is in use any more."""
        self._registers.write32(Register.CC, 0)
        self._rings.clear()
        self._waiting.clear()
        for connection in self.connections.values():
            self._forget(connection)
        for _ in range(_RESET_ROUNDS):
            if not self._registers.read32(Register.CSTS) & _READY:
                self._memory = Memory(self._served.memory, self._served.base)
                return True
            self._served.run()
        return False

    # Fabrics commands

    def fabrics(self, connection: Connection, sqe: Sqe, data: bytes) -> None:
        """Carry out a command of the fabrics command set."""
        kind = sqe.nsid & 0xFF
        self._heard_ns = self._now_ns
        if kind == FabricsType.CONNECT:
            self._connect(connection, sqe, data)
        elif connection.qid is None:
            connection.respond(sqe.cid, FabricsStatus.COMMAND_SEQUENCE_ERROR)
        elif kind == FabricsType.DISCONNECT and connection.qid:
            connection.respond(sqe.cid, NvmeStatus.SUCCESS)
            connection.is_over = True
        elif kind == FabricsType.PROPERTY_GET and connection.qid == 0:
            self._property_get(connection, sqe)
        elif kind == FabricsType.PROPERTY_SET and connection.qid == 0:
            self._property_set(connection, sqe)
        else:
            connection.respond(sqe.cid, NvmeStatus.INVALID_FIELD)

    def _connect(self, connection: Connection, sqe: Sqe, data: bytes) -> None:
        sgl = Sgl.of(sqe)
        if sgl is None or not sgl.in_capsule or sgl.length != CONNECT_DATA_BYTES:
            connection.respond(sqe.cid, FabricsStatus.SGL_DATA_LENGTH_INVALID)
            return
        told = data[sgl.offset : sgl.offset + CONNECT_DATA_BYTES]
        if len(told) < CONNECT_DATA_BYTES:
            connection.respond(sqe.cid, FabricsStatus.SGL_DATA_LENGTH_INVALID)
            return
        wanted = Connect.decode(sqe, told)
        refusal = self._refusal(connection, wanted)
        if refusal is not None:
            connection.respond(sqe.cid, *refusal, dnr=True)
        elif wanted.qid == 0:
            self._host = wanted.host, wanted.host_id
            self._admin_entries = wanted.entry_count
            self._connected_keep_alive_ns = _keep_alive_ns(wanted.keep_alive_ms)
            self._keep_alive_ns = self._connected_keep_alive_ns
            connection.qid, self.connections[0] = 0, connection
            connection.connected(sqe.cid, wanted)
        else:
            self._create_queue(connection, sqe, wanted)

    def _refusal(self, connection: Connection, wanted: Connect) -> tuple[int, int] | None:
        """Return status and dword 0 for a Connect that is refused, None for one that is not."""
        invalid = FabricsStatus.INVALID_PARAMETERS
        if wanted.record_format:
            return FabricsStatus.INCOMPATIBLE_FORMAT, 0
        if connection.qid is not None:
            return FabricsStatus.COMMAND_SEQUENCE_ERROR, 0
        if wanted.subsystem != self.subsystem:
            return invalid, invalid_parameter(_SUBNQN, of_data=True)
        if wanted.host is None:
            return invalid, invalid_parameter(_HOSTNQN, of_data=True)
        if not wanted.names_this_controller:
            return invalid, invalid_parameter(_CNTLID, of_data=True)
        if not 2 <= wanted.entry_count <= MAX_ENTRIES:
            return invalid, invalid_parameter(_SQSIZE, of_data=False)
        if wanted.qid == 0:
            is_free = not self.connections and self._reset()
            return None if is_free else (FabricsStatus.CONTROLLER_BUSY, 0)
        if 0 not in self._rings:
            return FabricsStatus.COMMAND_SEQUENCE_ERROR, 0
        if (wanted.host, wanted.host_id) != self._host:
            return FabricsStatus.INVALID_HOST, 0
        if wanted.qid >= QUEUES or wanted.qid in self.connections:
            return invalid, invalid_parameter(_QID, of_data=False)
        return None

    def _create_queue(self, connection: Connection, sqe: Sqe, wanted: Connect) -> None:
        """Create the pair of queues at the controller, then answer Connect."""
        ring = Ring(wanted.qid, self._memory, wanted.entry_count, self._registers)
        connection.qid, self.connections[wanted.qid] = wanted.qid, connection
        size = (wanted.entry_count - 1) << 16 | wanted.qid
        create = Sqe(AdminOpcode.CREATE_IO_CQ, prp1=ring.cq_address, cdw10=size, cdw11=_CONTIGUOUS)
        attach = Sqe(
            AdminOpcode.CREATE_IO_SQ,
            prp1=ring.sq_address,
            cdw10=size,
            cdw11=wanted.qid << 16 | _CONTIGUOUS,
        )

        def refuse(cqe: Cqe) -> None:
            del self.connections[wanted.qid]
            connection.qid = None
            connection.respond(sqe.cid, cqe.status, dnr=cqe.dnr)

        def created(cqe: Cqe) -> None:
            if cqe.status or self._rings[0].post(attach, attached) is None:
                refuse(cqe)

        def attached(cqe: Cqe) -> None:
            if cqe.status:
                refuse(cqe)
                return
            self._rings[wanted.qid] = ring
            connection.connected(sqe.cid, wanted)

        if self._rings[0].post(create, created) is None:
            refuse(Cqe(0, NvmeStatus.INTERNAL_ERROR))

    def _delete_queue(self, qid: int) -> None:
        """Delete the queues of a connection that is gone; the number is free when the controller has."""

        def forgotten(cqe: Cqe) -> None:
            self._rings.pop(qid, None)
            self.connections.pop(qid, None)

        def drained(cqe: Cqe) -> None:
            if 0 not in self._rings or self._rings[0].post(delete, forgotten) is None:
                forgotten(cqe)

        delete, admin = Sqe(AdminOpcode.DELETE_IO_CQ, cdw10=qid), self._rings.get(0)
        if qid not in self._rings or admin is None:
            self.connections.pop(qid, None)
        elif admin.post(Sqe(AdminOpcode.DELETE_IO_SQ, cdw10=qid), drained) is None:
            self.connections[0].is_over = True  # an admin queue full of commands: the host begins anew

    def _property_get(self, connection: Connection, sqe: Sqe) -> None:
        width = 8 if sqe.cdw10 & 7 == _EIGHT_BYTES else 4
        if _PROPERTIES.get(sqe.cdw11) != width:  # type: ignore[call-overload]
            connection.respond(sqe.cid, NvmeStatus.INVALID_FIELD)
            return
        value = self._registers.read64(sqe.cdw11) if width == 8 else self._registers.read32(sqe.cdw11)
        if sqe.cdw11 == Register.CAP:
            value = value & ~0xFFFF | min(value & 0xFFFF, MAX_ENTRIES - 1)
        connection.respond(sqe.cid, NvmeStatus.SUCCESS, value)

    def _property_set(self, connection: Connection, sqe: Sqe) -> None:
        if sqe.cdw11 != Register.CC or sqe.cdw10 & 7:
            connection.respond(sqe.cid, NvmeStatus.INVALID_FIELD)
            return
        before = self._registers.read32(Register.CC)
        if sqe.cdw12 & _ENABLE and not before & _ENABLE:
            ring = Ring(0, self._memory, self._admin_entries, self._registers)
            entries = self._admin_entries - 1
            self._registers.write32(Register.AQA, entries << 16 | entries)
            self._registers.write64(Register.ASQ, ring.sq_address)
            self._registers.write64(Register.ACQ, ring.cq_address)
            self._rings[0] = ring
        self._registers.write32(Register.CC, sqe.cdw12)
        if before & _ENABLE and not sqe.cdw12 & _ENABLE:
            self._reset()
        connection.respond(sqe.cid, NvmeStatus.SUCCESS)

    # The controller's commands

    def execute(self, command: Command) -> None:
        """Carry out a command; one that finds no buffer or no room waits."""
        connection, sqe = command.connection, command.sqe
        self._heard_ns = self._now_ns
        ring = self._ring_of(connection)
        if ring is None:
            connection.respond(sqe.cid, FabricsStatus.COMMAND_SEQUENCE_ERROR)
            return
        refused = self._admin_refusal(command) if ring.qid == 0 else self._io_refusal(command)
        if refused is not None:
            connection.respond(sqe.cid, *refused)
            return
        if command.sgl.length and command.buffer is None:
            command.buffer = self._memory.take()
            if command.buffer is None:
                self._waiting.append(command)
                return
            if command.brings_data and not command.sgl.in_capsule:
                connection.ask_for_data(command)
                return
            if command.brings_data:
                start = command.sgl.offset
                self.store(command, 0, command.data[start : start + command.sgl.length])
        self.has_data(command)

    def _ring_of(self, connection: Connection) -> Ring | None:
        """Return the queue pair that a connection is, while it is one."""
        qid = -1 if connection.qid is None else connection.qid
        return self._rings.get(qid) if self.connections.get(qid) is connection else None

    def store(self, command: Command, offset: int, data: bytes) -> None:
        """Put data of the host into the command's buffer."""
        assert command.buffer is not None
        self._memory.space.write(command.buffer.address + offset, data, "tcp")

    def has_data(self, command: Command) -> None:
        """Hand a command to the controller."""
        sqe = self._translated(command)
        if command.buffer is not None:
            sqe = command.buffer.describe(sqe, command.sgl.length, self._memory.space)
        else:
            sqe = replace(sqe, psdt=0, prp1=0, prp2=0)
        ring = self._ring_of(command.connection)
        assert ring is not None
        command.internal_cid = ring.post(sqe, lambda cqe: self._completed(command, cqe))
        if command.internal_cid is None:
            self._waiting.append(command)

    def _completed(self, command: Command, cqe: Cqe) -> None:
        connection, buffer = command.connection, command.buffer
        if buffer is not None:
            if command.takes_data and not cqe.status:
                data = self._memory.space.read(buffer.address, command.sgl.length, "tcp")
                if command.sqe.opcode == AdminOpcode.IDENTIFY and connection.qid == 0:
                    data = self._identity(command.sqe, data)
                connection.send_data(command, data)
            self._memory.put(buffer)
        connection.respond(command.sqe.cid, cqe.status, cqe.result, dnr=cqe.dnr)

    def _identity(self, sqe: Sqe, data: bytes) -> bytes:
        if sqe.cdw10 & 0xFF != IdentifyCns.CONTROLLER:
            return data
        return patched_identity(data, self.subsystem, MAX_ENTRIES)

    def _io_refusal(self, command: Command) -> tuple[int, int] | None:
        """Return status and result of an I/O command that does not go to the controller."""
        sqe, length = command.sqe, 0
        if sqe.opcode in (IoOpcode.READ, IoOpcode.WRITE):
            if sqe.nsid not in self._served.block_bytes:
                return None  # the controller refuses it before it looks at data
            length = (sqe.nlb + 1) * self._served.block_bytes[sqe.nsid]
        elif sqe.opcode != IoOpcode.FLUSH:
            return NvmeStatus.INVALID_COMMAND_OPCODE, 0
        return None if command.sgl.length == length else (FabricsStatus.SGL_DATA_LENGTH_INVALID, 0)

    def _admin_refusal(self, command: Command) -> tuple[int, int] | None:
        sqe, length = command.sqe, command.sgl.length
        if sqe.opcode == _KEEP_ALIVE:
            return NvmeStatus.SUCCESS, 0
        if sqe.opcode in _NOT_OVER_FABRICS:
            return NvmeStatus.INVALID_COMMAND_OPCODE, 0
        if sqe.opcode == AdminOpcode.ABORT and self._meant(sqe) is None:
            return NvmeStatus.SUCCESS, _NOT_ABORTED
        if sqe.opcode in (AdminOpcode.SET_FEATURES, AdminOpcode.GET_FEATURES):
            feature = sqe.cdw10 & 0xFF
            if feature == Feature.KEEP_ALIVE_TIMER:
                return self._keep_alive_timer(sqe)
            if feature in _OF_INTERRUPTS:
                return NvmeStatus.INVALID_FIELD, 0
        if sqe.opcode == AdminOpcode.IDENTIFY:
            is_right = length == _IDENTIFY_BYTES
        elif sqe.opcode == AdminOpcode.GET_LOG_PAGE:
            dwords = (sqe.cdw10 >> 16 | (sqe.cdw11 & 0xFFFF) << 16) + 1
            is_right = length == 4 * dwords
        else:
            is_right = length <= _IDENTIFY_BYTES
        return None if is_right else (FabricsStatus.SGL_DATA_LENGTH_INVALID, 0)

    def _keep_alive_timer(self, sqe: Sqe) -> tuple[int, int]:
        """Set or get the feature that is the transport's: milliseconds, in the steps that KAS announces.

        None is saved; the default is what the host's Connect command has said.
        """
        select = sqe.cdw10 >> 8 & 7
        if sqe.opcode == AdminOpcode.GET_FEATURES:
            values = (self._keep_alive_ns, self._connected_keep_alive_ns, self._connected_keep_alive_ns)
            if select < len(values):
                return NvmeStatus.SUCCESS, values[select] // 1_000_000
            is_capabilities = select == len(values)
            return (NvmeStatus.SUCCESS, _CHANGEABLE) if is_capabilities else (NvmeStatus.INVALID_FIELD, 0)
        if sqe.cdw10 >> 31:
            return AdminStatus.FEATURE_NOT_SAVEABLE, 0
        self._keep_alive_ns = _keep_alive_ns(sqe.cdw11)
        return NvmeStatus.SUCCESS, 0

    def _meant(self, sqe: Sqe) -> Command | None:
        """Return the command that an Abort names, if the controller has it."""
        connection = self.connections.get(sqe.cdw10 & 0xFFFF)
        meant = connection.commands.get(sqe.cdw10 >> 16) if connection is not None else None
        return meant if meant is not None and meant.internal_cid is not None else None

    def _translated(self, command: Command) -> Sqe:
        """Return a command as this end's numbers and limits have it."""
        sqe = command.sqe
        if command.connection.qid:
            return sqe
        if sqe.opcode == AdminOpcode.ABORT and (meant := self._meant(sqe)) is not None:
            return replace(sqe, cdw10=(meant.internal_cid or 0) << 16 | sqe.cdw10 & 0xFFFF)
        if sqe.opcode == AdminOpcode.SET_FEATURES and sqe.cdw10 & 0xFF == Feature.NUMBER_OF_QUEUES:
            limit = QUEUES - 2
            return replace(sqe, cdw11=min(sqe.cdw11 >> 16, limit) << 16 | min(sqe.cdw11 & 0xFFFF, limit))
        return sqe


def _keep_alive_ns(wanted_ms: int) -> int:
    """Return a timeout, rounded up to what the timer counts in; 0 for none."""
    step_ms = 100 * KEEP_ALIVE_UNITS
    return -(-wanted_ms // step_ms) * step_ms * 1_000_000
