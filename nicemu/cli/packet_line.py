# SPDX-License-Identifier: Apache-2.0
"""A RoCEv2 packet in one line, as `nicemu wire capture --print` tells it.

Source: InfiniBand Architecture Specification Volume 1, "Transport Layer" (opcode table, AETH syndromes),
Annex A17 "RoCEv2" (congestion notification packet), "Communication Management" (message formats).
"""

from __future__ import annotations

import time

from nicemu.wire import (
    ETHERNET_HEADER_BYTES,
    GSI_QP,
    ICRC_BYTES,
    IPV4_HEADER_BYTES,
    RNR_TIMER_NS,
    ROCEV2_PORT,
    UDP_HEADER_BYTES,
    Aeth,
    AtomicAckEth,
    AtomicEth,
    Bth,
    MalformedError,
    NakCode,
    RcOpcode,
    Rej,
    RejectReason,
    Req,
    Reth,
    SyndromeKind,
    UdOpcode,
    UdpFrame,
    decode_cm_message,
    decode_immediate,
    format_ipv4,
    icrc,
    port_of_service,
)

_BTH_BYTES = 12
_NAMES = {int(opcode): opcode.name for opcode in RcOpcode}
_NAMES |= {0x20 | code: f"UC_{name}" for code, name in _NAMES.items() if code < RcOpcode.RDMA_READ_REQUEST}
_NAMES |= {0x64: "UD_SEND_ONLY", 0x65: "UD_SEND_ONLY_WITH_IMMEDIATE", 0x81: "CNP"}
_NAK_CODES = frozenset(map(int, NakCode))
_REASONS = {int(reason): reason.name for reason in RejectReason}
_RETH = (6, 10, 11, 12)
_AETH = (13, 15, 16, 17, 18)
_ATOMIC = (19, 20)
_IMMEDIATE = (3, 5, 9, 11)


def packet_line(frame: bytes, time_ns: int) -> tuple[str, bool] | None:
    """Return the line, and whether the ICRC is right; None if the frame carries no RoCEv2 over IPv4.

    `time_ns` is since 1970; the line tells the time of day in UTC.
    """
    try:
        outer = UdpFrame.decode(frame)
        if outer.udp.destination_port != ROCEV2_PORT or len(outer.payload) < _BTH_BYTES + ICRC_BYTES:
            return None
        covered, told = outer.payload[:-ICRC_BYTES], outer.payload[-ICRC_BYTES:]
        bth = Bth.decode(covered)
    except MalformedError:
        return None
    ip_end = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES
    headers = frame[ETHERNET_HEADER_BYTES:ip_end], frame[ip_end : ip_end + UDP_HEADER_BYTES]
    is_right = icrc(*headers, [covered]) == told
    extension_bytes, details = _extensions(bth.opcode, covered[_BTH_BYTES:])
    if bth.opcode == UdOpcode.SEND_ONLY and bth.destination_qp == GSI_QP:
        details = _management(covered[_BTH_BYTES + extension_bytes :])
    payload_bytes = len(covered) - _BTH_BYTES - extension_bytes - bth.pad_count
    seconds, ns = divmod(time_ns, 1_000_000_000)
    words = [
        f"{time.strftime('%H:%M:%S', time.gmtime(seconds))}.{ns:09d}",
        f"{format_ipv4(outer.ip.source)} > {format_ipv4(outer.ip.destination)}",
        opcode_name(bth.opcode),
        f"qp {bth.destination_qp:#x} psn {bth.psn:#x} len {payload_bytes}",
        *details,
        *(["ack"] if bth.ack_request else []),
        *(["fecn"] if bth.fecn else []),
        *(["becn"] if bth.becn else []),
        "icrc ok" if is_right else "icrc WRONG",
    ]
    return " ".join(words), is_right


def opcode_name(opcode: int) -> str:
    """Return the name of a BTH opcode, or its number."""
    return _NAMES.get(opcode, f"opcode {opcode:#04x}")


def _extensions(opcode: int, rest: memoryview) -> tuple[int, list[str]]:
    """Return how many bytes the extended headers take, and what they say."""
    operation, transport = opcode & 0x1F, opcode >> 5
    if transport not in (0, 1):
        return (8 if transport == 3 else 0), []
    details: list[str] = []
    used = 0
    try:
        if operation in _RETH:
            reth = Reth.decode(rest)
            used, details = 16, [f"at {reth.address:#x} rkey {reth.rkey:#x} of {reth.dma_length}"]
        elif operation in _AETH:
            used, details = 4, [_syndrome(Aeth.decode(rest))]
            if operation == RcOpcode.ATOMIC_ACKNOWLEDGE:
                used, details = 12, [*details, f"was {AtomicAckEth.decode(rest[4:]).original:#x}"]
        elif operation in _ATOMIC:
            atomic = AtomicEth.decode(rest)
            used, details = 28, [f"at {atomic.address:#x} rkey {atomic.rkey:#x} by {atomic.swap_add:#x}"]
            if operation == RcOpcode.COMPARE_SWAP:
                details.append(f"if {atomic.compare:#x}")
        if operation in _IMMEDIATE:
            details.append(f"imm {decode_immediate(rest[used:]):#x}")
            used += 4
    except MalformedError:
        return len(rest), ["cut short"]
    return used, details


def _management(data: memoryview) -> list[str]:
    """Return what a management datagram says, if it is a message of connection management."""
    try:
        _, message = decode_cm_message(data)
    except MalformedError:
        return []
    words = [type(message).__name__.upper(), f"id {message.local_communication_id:#x}"]
    if isinstance(message, Req):
        port = port_of_service(message.service_id)
        words += [
            f"port {port[1]}" if port else f"service {message.service_id:#x}",
            f"for qp {message.local_qpn:#x}",
        ]
    else:
        words.append(f"to {message.remote_communication_id:#x}")
    if isinstance(message, Rej):
        words.append(_REASONS.get(message.reason, f"reason {message.reason}"))
    return [" ".join(words)]


def _syndrome(aeth: Aeth) -> str:
    if aeth.kind is SyndromeKind.ACK:
        said = "ACK"
    elif aeth.kind is SyndromeKind.RNR_NAK:
        said = f"RNR_NAK wait {RNR_TIMER_NS[aeth.value] / 1e6:g} ms"
    elif aeth.kind is SyndromeKind.NAK and aeth.value in _NAK_CODES:
        said = f"NAK {NakCode(aeth.value).name}"
    else:
        said = f"syndrome {aeth.syndrome:#04x}"
    return f"{said} msn {aeth.msn}"
