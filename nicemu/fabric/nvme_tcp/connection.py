# SPDX-License-Identifier: Apache-2.0
"""One TCP connection of a host, which is one queue pair: bytes in, bytes out, commands between.

Source: NVM Express TCP Transport Specification 1.0, "Data Transfer", "Connection Establishment", "Error
Handling Model".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, Protocol

from nicemu.errors import NvmeStatus
from nicemu.nvme import Cqe, Sqe

from .fabrics import CONTROLLER_ID, FABRICS_OPCODE, Connect, FabricsStatus, Sgl
from .pdu import LAST, MAX_DATA_BYTES, FatalError, FatalStatus, Pdu, PduReader, PduType
from .ring import Buffer

_IC: Final = struct.Struct("<HBBI")
_DATA: Final = struct.Struct("<HHIII")
_HOST_TO_CONTROLLER, _CONTROLLER_TO_HOST = 1, 2
"""The two low bits of an opcode. Source: Base Specification 2.0, "Opcode" (Data Transfer)."""
CONNECT_LIMIT_NS: Final = 10 * 1_000_000_000
"""How long a connection may take until it is a queue pair, and what is said at its end until it is gone."""
_MAX_ALIGNMENT: Final = 31
"""HPDA: data to the host begin at a multiple of so many dwords and one. Source: "PDU Data Offset"."""
_NO_FLOW_CONTROL: Final = 0xFFFF
"""SQHD of the response to Connect. Source: Base Specification 2.0, "Submission Queue Flow Control
Negotiation"."""
_MAX_OUTSTANDING: Final = 160
"""More than any queue has entries."""


@dataclass(eq=False, slots=True)
class Command:
    """A command of the host that has not been answered; `internal_cid` once the controller has it."""

    connection: Connection
    sqe: Sqe
    sgl: Sgl
    data: bytes
    buffer: Buffer | None = None
    received: int = 0
    internal_cid: int | None = None

    @property
    def brings_data(self) -> bool:
        """Whether data come from the host."""
        return bool(self.sgl.length) and self.sqe.opcode & 3 == _HOST_TO_CONTROLLER

    @property
    def takes_data(self) -> bool:
        """Whether data go to the host."""
        return bool(self.sgl.length) and self.sqe.opcode & 3 == _CONTROLLER_TO_HOST


class Executor(Protocol):
    """What carries commands out."""

    def fabrics(self, connection: Connection, sqe: Sqe, data: bytes) -> None:
        """Carry out a command of the fabrics command set; answer with `respond`."""
        ...

    def execute(self, command: Command) -> None:
        """Carry out another command, asking for its data with `ask_for_data` where it did not bring them."""
        ...

    def store(self, command: Command, offset: int, data: bytes) -> None:
        """Put data of the host into the command's buffer."""
        ...

    def has_data(self, command: Command) -> None:
        """All of the command's data are in its buffer."""
        ...


@dataclass(eq=False)
class Connection:
    """Bytes of a host in by `feed`, bytes to it in `output`. `is_over`: close it when that is sent."""

    executor: Executor
    opened_ns: int = 0
    output: bytearray = field(default_factory=bytearray)
    is_over: bool = False
    qid: int | None = None
    ended_by: str = ""
    """Why it was terminated: a short name of a few."""
    said: str = ""
    """The same as a sentence."""

    def __post_init__(self) -> None:
        self._reader = PduReader()
        self._is_ready = False
        self._alignment_bytes = 4
        self._over_ns: int | None = None
        self.commands: dict[int, Command] = {}
        self._transfers: dict[int, Command] = {}
        self._next_tag = 0
        self._entry_count = 0
        self._sq_head = 0

    def feed(self, data: bytes) -> None:
        """Take bytes of the host; what breaks the transport's rules ends the connection."""
        try:
            for pdu in self._reader.feed(data):
                if self.is_over:
                    return
                self._take(pdu)
        except FatalError as error:
            self._terminate(error)

    def _take(self, pdu: Pdu) -> None:
        if pdu.kind is PduType.HOST_TERMINATES:
            self.end("host")
        elif pdu.kind is PduType.IC_REQUEST:
            self._initialize(pdu)
        elif not self._is_ready:
            raise FatalError(FatalStatus.SEQUENCE_ERROR, f"{pdu.kind.name} before the connection's request")
        elif pdu.kind is PduType.COMMAND:
            self._command(pdu)
        else:
            self._host_data(pdu)

    def _initialize(self, pdu: Pdu) -> None:
        version, alignment, _, _ = _IC.unpack_from(pdu.header)
        if self._is_ready:
            raise FatalError(FatalStatus.SEQUENCE_ERROR, "a second request for the connection")
        if version:
            raise FatalError(FatalStatus.UNSUPPORTED, f"PDU format version {version}; 0 is known", 8)
        if alignment > _MAX_ALIGNMENT:
            raise FatalError(
                FatalStatus.INVALID_FIELD, f"HPDA {alignment}; {_MAX_ALIGNMENT} is the most there is", 10
            )
        self._is_ready = True
        self._alignment_bytes = 4 * (alignment + 1)
        header = _IC.pack(0, 0, 0, MAX_DATA_BYTES).ljust(len(pdu.header), b"\0")
        self._send(Pdu(PduType.IC_RESPONSE, 0, header))

    def _command(self, pdu: Pdu) -> None:
        sqe = Sqe.decode(pdu.header)
        if self._entry_count:
            self._sq_head = (self._sq_head + 1) % self._entry_count
        if len(self.commands) >= _MAX_OUTSTANDING:
            raise FatalError(FatalStatus.LIMIT_EXCEEDED, f"{len(self.commands)} commands are outstanding")
        if sqe.cid in self.commands:
            self.respond(sqe.cid, NvmeStatus.COMMAND_ID_CONFLICT, ends_command=False)
        elif sqe.opcode == FABRICS_OPCODE:
            self.executor.fabrics(self, sqe, pdu.data)
        elif self.qid is None:
            self.respond(sqe.cid, FabricsStatus.COMMAND_SEQUENCE_ERROR)
        elif sqe.psdt != 1 or sqe.fuse:
            self.respond(sqe.cid, NvmeStatus.INVALID_FIELD)
        elif (sgl := Sgl.of(sqe)) is None:
            self.respond(sqe.cid, FabricsStatus.SGL_DESCRIPTOR_TYPE_INVALID)
        else:
            self._begin(Command(self, sqe, sgl, pdu.data))

    def _begin(self, command: Command) -> None:
        sgl, carried = command.sgl, len(command.data)
        if sgl.length > MAX_DATA_BYTES or (sgl.in_capsule and sgl.offset + sgl.length > carried):
            self.respond(command.sqe.cid, FabricsStatus.SGL_DATA_LENGTH_INVALID)
            return
        if sgl.in_capsule and command.takes_data:
            self.respond(command.sqe.cid, FabricsStatus.SGL_DESCRIPTOR_TYPE_INVALID)
            return
        self.commands[command.sqe.cid] = command
        self.executor.execute(command)

    def _host_data(self, pdu: Pdu) -> None:
        cid, tag, offset, length, _ = _DATA.unpack(pdu.header)
        command = self._transfers.get(tag)
        if command is None or command.sqe.cid != cid:
            raise FatalError(FatalStatus.INVALID_FIELD, f"data for transfer tag {tag:#x}, which is none", 10)
        if offset != command.received or length != len(pdu.data) or not length:
            raise FatalError(
                FatalStatus.SEQUENCE_ERROR, f"{length} bytes at {offset}; {command.received} have come", 12
            )
        if offset + length > command.sgl.length:
            raise FatalError(FatalStatus.OUT_OF_RANGE, f"{length} bytes at {offset} end behind the data", 12)
        is_all = offset + length == command.sgl.length
        if bool(pdu.flags & LAST) is not is_all:
            raise FatalError(FatalStatus.SEQUENCE_ERROR, "the last PDU of a transfer is not where it ends", 1)
        self.executor.store(command, offset, pdu.data)
        command.received += length
        if is_all:
            del self._transfers[tag]
            self.executor.has_data(command)

    def end(self, why: str, sentence: str = "") -> None:
        """Close it once what there is to say is sent."""
        if not self.is_over:
            self.is_over, self.ended_by, self.said = True, why, sentence

    def watch(self, now_ns: int) -> None:
        """Let time pass: end it if it is no queue pair in time; once over, drop what is not sent in time."""
        if self.qid is None and now_ns - self.opened_ns > CONNECT_LIMIT_NS:
            self.end("no_connect" if self._is_ready else "no_ic_request")
        if not self.is_over:
            return
        if self._over_ns is None:
            self._over_ns = now_ns
        if now_ns - self._over_ns > CONNECT_LIMIT_NS:
            self.output.clear()

    def forget(self) -> list[Command]:
        """Drop all commands, and return them: nothing is answered any more."""
        dropped = list(self.commands.values())
        self.commands.clear()
        self._transfers.clear()
        return dropped

    # To the host

    def ask_for_data(self, command: Command) -> None:
        """Tell the host that it may send all data of a command."""
        while self._next_tag in self._transfers:
            self._next_tag = self._next_tag + 1 & 0xFFFF
        tag, self._next_tag = self._next_tag, self._next_tag + 1 & 0xFFFF
        self._transfers[tag] = command
        header = _DATA.pack(command.sqe.cid, tag, 0, command.sgl.length, 0)
        self._send(Pdu(PduType.READY_TO_TRANSFER, 0, header))

    def send_data(self, command: Command, data: bytes) -> None:
        """Send the data that a command has read."""
        header = _DATA.pack(command.sqe.cid, 0, 0, len(data), 0)
        self._send(Pdu(PduType.CONTROLLER_DATA, LAST, header, data))

    def connected(self, cid: int, wanted: Connect) -> None:
        """Complete a Connect command that is accepted: it was the first entry of its submission queue."""
        if wanted.has_flow_control:
            self._entry_count, self._sq_head = wanted.entry_count, 1
            self.respond(cid, NvmeStatus.SUCCESS, CONTROLLER_ID)
            return
        self._entry_count, self._sq_head = 0, _NO_FLOW_CONTROL
        self.respond(cid, NvmeStatus.SUCCESS, CONTROLLER_ID)
        self._sq_head = 0

    def respond(
        self, cid: int, status: int, result: int = 0, *, dnr: bool = False, ends_command: bool = True
    ) -> None:
        """Complete a command; `result` has the 64 bits that Property Get fills.

        SQHD counts the commands that were taken, in entries of the host's queue: the controller's own ring
        is another one. Without flow control the field is reserved. `ends_command` is False for the refusal
        of a command whose identifier another one still uses.
        """
        if ends_command:
            self.commands.pop(cid, None)
        cqe = bytearray(Cqe(cid, status, 0, self._sq_head, 0, dnr=dnr).encode())
        struct.pack_into("<Q", cqe, 0, result)
        self._send(Pdu(PduType.RESPONSE, 0, bytes(cqe)))

    def _send(self, pdu: Pdu) -> None:
        if not self.is_over:
            self.output += pdu.encode(self._alignment_bytes)

    def _terminate(self, error: FatalError) -> None:
        header = struct.pack("<HI", error.status, error.offset).ljust(16, b"\0")
        self._send(Pdu(PduType.CONTROLLER_TERMINATES, 0, header))
        self.end(error.status.name.lower(), str(error))
