# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 transport headers: BTH, RETH, DETH, AETH, atomic ones, immediate data; opcodes and syndromes.

Source: InfiniBand Architecture Specification Volume 1, "Transport Layer" (header formats, opcode table,
"AETH Syndrome field", "Encoding for RNR NAK Timer Field") and Annex A17, "RoCEv2".
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from .malformed import MalformedError

ROCEV2_PORT = 4791
BTH_BYTES = 12
RETH_BYTES = 16
DETH_BYTES = 8
AETH_BYTES = 4
ATOMIC_ETH_BYTES = 28
ATOMIC_ACK_ETH_BYTES = 8
IMMEDIATE_BYTES = 4
ICRC_BYTES = 4
PSN_BITS = 24
PSN_MASK = (1 << PSN_BITS) - 1
DEFAULT_PARTITION_KEY = 0xFFFF
NO_CREDITS = 0x1F
"""Credit count of an ACK that takes no part in end-to-end flow control."""

_BTH = struct.Struct("!BBHII")
_RETH = struct.Struct("!QII")
_ATOMIC_ETH = struct.Struct("!QIQQ")
_WORD = struct.Struct("!I")
_TWO_WORDS = struct.Struct("!II")
_DOUBLE_WORD = struct.Struct("!Q")


class RcOpcode(enum.IntEnum):
    """BTH opcode of a reliable connection's packet."""

    SEND_FIRST = 0x00
    SEND_MIDDLE = 0x01
    SEND_LAST = 0x02
    SEND_LAST_WITH_IMMEDIATE = 0x03
    SEND_ONLY = 0x04
    SEND_ONLY_WITH_IMMEDIATE = 0x05
    RDMA_WRITE_FIRST = 0x06
    RDMA_WRITE_MIDDLE = 0x07
    RDMA_WRITE_LAST = 0x08
    RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x09
    RDMA_WRITE_ONLY = 0x0A
    RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x0B
    RDMA_READ_REQUEST = 0x0C
    RDMA_READ_RESPONSE_FIRST = 0x0D
    RDMA_READ_RESPONSE_MIDDLE = 0x0E
    RDMA_READ_RESPONSE_LAST = 0x0F
    RDMA_READ_RESPONSE_ONLY = 0x10
    ACKNOWLEDGE = 0x11
    ATOMIC_ACKNOWLEDGE = 0x12
    COMPARE_SWAP = 0x13
    FETCH_ADD = 0x14


RC_OPCODE_LIMIT = 0x20
"""Opcodes from here on belong to other transports (unreliable connection, datagram)."""


class UdOpcode(enum.IntEnum):
    """BTH opcode of an unreliable datagram's packet."""

    SEND_ONLY = 0x64
    SEND_ONLY_WITH_IMMEDIATE = 0x65


CNP_OPCODE = 0x81
"""BTH opcode of a congestion notification packet: BECN is set, and 16 reserved bytes follow."""
CNP_BYTES = 16
READ_OPCODES = frozenset({*range(RC_OPCODE_LIMIT), *UdOpcode, CNP_OPCODE})
"""What is read from the wire; of a reliable connection also what has no meaning, to refuse it with a NAK."""

WITH_RETH = frozenset(
    {
        RcOpcode.RDMA_WRITE_FIRST,
        RcOpcode.RDMA_WRITE_ONLY,
        RcOpcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE,
        RcOpcode.RDMA_READ_REQUEST,
    }
)
WITH_ATOMIC_ETH = frozenset({RcOpcode.COMPARE_SWAP, RcOpcode.FETCH_ADD})
WITH_AETH = frozenset(
    {
        RcOpcode.RDMA_READ_RESPONSE_FIRST,
        RcOpcode.RDMA_READ_RESPONSE_LAST,
        RcOpcode.RDMA_READ_RESPONSE_ONLY,
        RcOpcode.ACKNOWLEDGE,
        RcOpcode.ATOMIC_ACKNOWLEDGE,
    }
)
WITH_IMMEDIATE = frozenset(
    {
        RcOpcode.SEND_LAST_WITH_IMMEDIATE,
        RcOpcode.SEND_ONLY_WITH_IMMEDIATE,
        RcOpcode.RDMA_WRITE_LAST_WITH_IMMEDIATE,
        RcOpcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE,
        UdOpcode.SEND_ONLY_WITH_IMMEDIATE,
    }
)
WITH_DETH = frozenset(UdOpcode)


class SyndromeKind(enum.IntEnum):
    """The two bits of an AETH syndrome that say what it acknowledges."""

    ACK = 0
    RNR_NAK = 1
    RESERVED = 2
    NAK = 3


class NakCode(enum.IntEnum):
    """What a NAK complains of."""

    PSN_SEQUENCE_ERROR = 0
    INVALID_REQUEST = 1
    REMOTE_ACCESS_ERROR = 2
    REMOTE_OPERATIONAL_ERROR = 3
    INVALID_RD_REQUEST = 4


RNR_TIMER_NS = (
    655_360_000, 10_000, 20_000, 30_000, 40_000, 60_000, 80_000, 120_000,
    160_000, 240_000, 320_000, 480_000, 640_000, 960_000, 1_280_000, 1_920_000,
    2_560_000, 3_840_000, 5_120_000, 7_680_000, 10_240_000, 15_360_000, 20_480_000, 30_720_000,
    40_960_000, 61_440_000, 81_920_000, 122_880_000, 163_840_000, 245_760_000, 327_680_000, 491_520_000,
)  # fmt: skip
"""Time in nanoseconds that each 5-bit timer code of an RNR NAK asks the requester to wait."""


def rnr_timer_code(wait_ns: int) -> int:
    """Return the code of the shortest wait that is at least `wait_ns` (the longest if none is)."""
    enough = [(ns, code) for code, ns in enumerate(RNR_TIMER_NS) if ns >= wait_ns]
    return min(enough)[1] if enough else 0


@dataclass(frozen=True, slots=True)
class Bth:
    """Base Transport Header, 12 bytes. `opcode` is an RcOpcode wherever the byte is one.

    `psn`: packet sequence number, 24 bits; `migration_request` is the MigReq bit, set on a settled path.
    """

    opcode: int
    destination_qp: int
    psn: int
    ack_request: bool = False
    pad_count: int = 0
    solicited: bool = False
    migration_request: bool = True
    partition_key: int = DEFAULT_PARTITION_KEY
    fecn: bool = False
    becn: bool = False

    def encode(self) -> bytes:
        """Return the header's 12 bytes."""
        flags = self.solicited << 7 | self.migration_request << 6 | self.pad_count << 4
        congestion = self.fecn << 31 | self.becn << 30
        return _BTH.pack(
            self.opcode,
            flags,
            self.partition_key,
            congestion | self.destination_qp,
            self.ack_request << 31 | self.psn,
        )

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Bth:
        """Read the header at the start of `data`.

        Raises: MalformedError with the reason bth.too_short or bth.version.
        """
        if len(data) < BTH_BYTES:
            raise MalformedError("bth.too_short", f"{len(data)} bytes; a BTH has {BTH_BYTES}")
        code, flags, partition_key, qp, psn = _BTH.unpack_from(data)
        if flags & 0x0F:
            raise MalformedError("bth.version", f"transport header version {flags & 0x0F}; only 0 is read")
        return cls(
            code,
            qp & 0xFFFFFF,
            psn & PSN_MASK,
            bool(psn >> 31),
            flags >> 4 & 3,
            bool(flags >> 7),
            bool(flags >> 6 & 1),
            partition_key,
            bool(qp >> 31),
            bool(qp >> 30 & 1),
        )


@dataclass(frozen=True, slots=True)
class Reth:
    """RDMA Extended Transport Header: where a WRITE or READ of `dma_length` bytes goes at the peer."""

    address: int
    rkey: int
    dma_length: int

    def encode(self) -> bytes:
        """Return the header's 16 bytes."""
        return _RETH.pack(self.address, self.rkey, self.dma_length)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Reth:
        """Read the header at the start of `data`.

        Raises: MalformedError("reth.too_short").
        """
        _require(data, RETH_BYTES, "reth.too_short")
        return cls(*_RETH.unpack_from(data))


@dataclass(frozen=True, slots=True)
class Deth:
    """Datagram Extended Transport Header: the Q_Key of the queue pair it is for, and who sends it."""

    q_key: int
    source_qp: int

    def encode(self) -> bytes:
        """Return the header's 8 bytes."""
        return _TWO_WORDS.pack(self.q_key, self.source_qp)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Deth:
        """Read the header at the start of `data`.

        Raises: MalformedError("deth.too_short").
        """
        _require(data, DETH_BYTES, "deth.too_short")
        q_key, source_qp = _TWO_WORDS.unpack_from(data)
        return cls(q_key, source_qp & 0xFFFFFF)


@dataclass(frozen=True, slots=True)
class Aeth:
    """ACK Extended Transport Header. `msn`: message sequence number, messages the responder has completed."""

    syndrome: int
    msn: int

    @classmethod
    def ack(cls, msn: int) -> Aeth:
        """An ACK without credits."""
        return cls(NO_CREDITS, msn)

    @classmethod
    def nak(cls, code: NakCode, msn: int) -> Aeth:
        """A NAK."""
        return cls(SyndromeKind.NAK << 5 | code, msn)

    @classmethod
    def rnr_nak(cls, timer_code: int, msn: int) -> Aeth:
        """A receiver-not-ready NAK that asks the requester to wait RNR_TIMER_NS[timer_code]."""
        return cls(SyndromeKind.RNR_NAK << 5 | timer_code, msn)

    @property
    def kind(self) -> SyndromeKind:
        """ACK, RNR NAK or NAK."""
        return SyndromeKind(self.syndrome >> 5 & 3)

    @property
    def value(self) -> int:
        """The low five bits: credit count, RNR timer code or NAK code."""
        return self.syndrome & 0x1F

    def encode(self) -> bytes:
        """Return the header's 4 bytes."""
        return _WORD.pack(self.syndrome << 24 | self.msn)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Aeth:
        """Read the header at the start of `data`.

        Raises: MalformedError("aeth.too_short").
        """
        _require(data, AETH_BYTES, "aeth.too_short")
        (word,) = _WORD.unpack_from(data)
        return cls(word >> 24, word & 0xFFFFFF)


@dataclass(frozen=True, slots=True)
class AtomicEth:
    """Atomic Extended Transport Header; `swap_add` is stored by COMPARE_SWAP and added by FETCH_ADD."""

    address: int
    rkey: int
    swap_add: int
    compare: int = 0

    def encode(self) -> bytes:
        """Return the header's 28 bytes."""
        return _ATOMIC_ETH.pack(self.address, self.rkey, self.swap_add, self.compare)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> AtomicEth:
        """Read the header at the start of `data`.

        Raises: MalformedError("atomic_eth.too_short").
        """
        _require(data, ATOMIC_ETH_BYTES, "atomic_eth.too_short")
        return cls(*_ATOMIC_ETH.unpack_from(data))


@dataclass(frozen=True, slots=True)
class AtomicAckEth:
    """Atomic ACK Extended Transport Header: the value that was in memory before the atomic operation."""

    original: int

    def encode(self) -> bytes:
        """Return the header's 8 bytes."""
        return _DOUBLE_WORD.pack(self.original)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> AtomicAckEth:
        """Read the header at the start of `data`.

        Raises: MalformedError("atomic_ack_eth.too_short").
        """
        _require(data, ATOMIC_ACK_ETH_BYTES, "atomic_ack_eth.too_short")
        return cls(*_DOUBLE_WORD.unpack_from(data))


def encode_immediate(imm_data: int) -> bytes:
    """Return the 4 bytes of immediate data."""
    return _WORD.pack(imm_data)


def decode_immediate(data: bytes | memoryview) -> int:
    """Read immediate data at the start of `data`.

    Raises: MalformedError("immediate.too_short").
    """
    _require(data, IMMEDIATE_BYTES, "immediate.too_short")
    (imm_data,) = _WORD.unpack_from(data)
    return int(imm_data)


def _require(data: bytes | memoryview, length_bytes: int, reason: str) -> None:
    if len(data) < length_bytes:
        raise MalformedError(reason, f"{len(data)} bytes are there, {length_bytes} are needed")
