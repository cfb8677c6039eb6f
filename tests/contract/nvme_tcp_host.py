# SPDX-License-Identifier: Apache-2.0
"""A plain host of NVMe/TCP, which speaks with `struct` alone: a second opinion on the target's encodings."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from nicemu.fabric import DEFAULT_SUBSYSTEM, TARGET_MEMORY_BYTES
from nicemu.fabric.nvme_tcp.association import Association
from nicemu.fabric.nvme_tcp.connection import Connection
from nicemu.nvme import NvmeRegisters
from nicemu.pcie import AddressSpace
from tests.contract.nvme_rigs import NIC, SMALL_NSID, Rig, until

assert TARGET_MEMORY_BYTES < 8 << 20
TRANSPORT, IN_CAPSULE = 0x5A, 0x01
HOST_NQN = "nqn.2014-08.org.nicemu:host"


class RigController:
    """A rig's controller, to be served."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.memory: AddressSpace = rig.memory
        self.registers: NvmeRegisters = rig.registers
        self.base = NIC
        self.block_bytes = {1: 4096, SMALL_NSID: 512}

    def run(self) -> None:
        """Let it go on."""
        self._rig.run()


@dataclass
class Answer:
    """A response capsule, and the data that came before it."""

    status: int
    result: int
    data: bytes
    sq_head: int = 0


class PlainHost:
    """One connection; commands are answered before the next is sent, unless `send` is used."""

    def __init__(
        self, rig: Rig, association: Association, initialize: bool = True, alignment: int = 0
    ) -> None:
        self.rig, self.association = rig, association
        self.connection = Connection(association)
        self.data: dict[int, bytearray] = {}
        self.answers: dict[int, Answer] = {}
        self.transfers: list[tuple[int, int, int, int]] = []
        self.terminated: int | None = None
        self.terminated_at = 0
        self.initialized = False
        self._cid = 0x4321
        self._received = b""
        if initialize:
            self.initialize(alignment)

    def initialize(self, alignment: int = 0) -> None:
        """Send the connection's request; data shall begin at a multiple of 4 * (`alignment` + 1) bytes."""
        request = struct.pack("<BBBBIHB", 0, 0, 128, 0, 128, 0, alignment)
        self.alignment = alignment
        self.feed(request.ljust(128, b"\0"))

    def feed(self, data: bytes) -> None:
        """Send bytes, and read what is said at once."""
        self.connection.feed(data)
        self.pump()

    def pump(self) -> None:
        """Let the target go on once and read its PDUs."""
        self.association.run(0)
        self._received += bytes(self.connection.output)
        self.connection.output.clear()
        while len(self._received) >= 8:
            kind, _, hlen, pdo, plen = struct.unpack_from("<BBBBI", self._received)
            pdu, self._received = self._received[:plen], self._received[plen:]
            assert len(pdu) == plen
            if kind == 0x01:
                assert hlen == plen == 128
                self.initialized = True
            elif kind == 0x03:
                self.terminated, self.terminated_at = struct.unpack_from("<HI", pdu, 8)
            elif kind == 0x05:
                result, sq_head, _, cid, status = struct.unpack_from("<QHHHH", pdu, 8)
                data = bytes(self.data.pop(cid, b""))
                self.answers[cid] = Answer(status >> 1 & 0x7FF, result, data, sq_head)
            elif kind == 0x07:
                cid, _, offset, length = struct.unpack_from("<HHII", pdu, 8)
                held = self.data.setdefault(cid, bytearray())
                assert (offset, length) == (len(held), plen - pdo)
                assert (hlen, pdo % (4 * (self.alignment + 1))) == (24, 0)
                assert not any(pdu[hlen:pdo])
                held += pdu[pdo:]
            else:
                assert kind == 0x09
                self.transfers.append(struct.unpack_from("<HHII", pdu, 8))

    def send(
        self,
        opcode: int,
        nsid: int = 0,
        length: int = 0,
        data: bytes = b"",
        kind: int = TRANSPORT,
        flags: int = 0x40,
        cid: int | None = None,
        **dwords: int,
    ) -> int:
        """Send a command capsule; return its identifier. `data` go in the capsule."""
        if cid is None:
            self._cid = self._cid + 7 & 0xFFFF
            cid = self._cid
        cdws = [dwords.get(f"cdw{number}", 0) for number in range(10, 16)]
        sqe = struct.pack("<BBHI16xQIxxxB6I", opcode, flags, cid, nsid, 0, length, kind, *cdws)
        plen = 72 + len(data)
        self.feed(struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, plen) + sqe + data)
        return cid

    def answer(self, cid: int) -> Answer:
        """Wait for the answer to a command."""

        def came() -> bool:
            self.pump()
            return cid in self.answers or self.terminated is not None

        until(came, self.rig)
        return self.answers.pop(cid)

    def ask(self, opcode: int, **operands: object) -> Answer:
        """Send a command and wait for its answer."""
        return self.answer(self.send(opcode, **operands))  # type: ignore[arg-type]

    def host_data(self, cid: int, tag: int, offset: int, data: bytes, last: bool) -> None:
        """Send data that the target has asked for."""
        header = struct.pack("<BBBBI", 6, 4 if last else 0, 24, 24, 24 + len(data))
        self.feed(header + struct.pack("<HHIII", cid, tag, offset, len(data), 0) + data)

    # Fabrics

    def connect(
        self,
        qid: int = 0,
        entries: int = 32,
        subsystem: str = DEFAULT_SUBSYSTEM,
        host: str = HOST_NQN,
        cntlid: int | None = None,
        keep_alive_ms: int = 0,
        attributes: int = 0,
    ) -> Answer:
        """Connect this connection as a queue."""
        wanted = (0xFFFF if qid == 0 else 1) if cntlid is None else cntlid
        data = bytearray(1024)
        data[:16] = b"0123456789abcdef"
        struct.pack_into("<H", data, 16, wanted)
        data[256 : 256 + len(subsystem)] = subsystem.encode()
        data[512 : 512 + len(host)] = host.encode()
        return self.ask(
            0x7F,
            nsid=1,
            length=1024,
            data=bytes(data),
            kind=IN_CAPSULE,
            cdw10=qid << 16,
            cdw11=attributes << 16 | entries - 1,
            cdw12=keep_alive_ms,
        )

    def get(self, offset: int, eight: bool = False) -> Answer:
        """Property Get."""
        return self.ask(0x7F, nsid=4, cdw10=int(eight), cdw11=offset)

    def set(self, offset: int, value: int) -> Answer:
        """Property Set."""
        return self.ask(0x7F, nsid=0, cdw11=offset, cdw12=value)

    def enable(self) -> None:
        """Connect as the admin queue and enable the controller."""
        assert self.connect().status == 0
        assert self.set(0x14, 0x0046_0001).status == 0
        until(lambda: bool(self.get(0x1C).result & 1), self.rig)
