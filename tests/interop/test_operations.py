# SPDX-License-Identifier: Apache-2.0
"""Every operation of a reliable connection, at every path MTU, between our engine and the kernel's rxe."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nicemu.abi import Opcode
from nicemu.errors import VerbsStatus
from nicemu.rdma import ArrivalKind

from .world import MTU_CODES, Connection, some_bytes

pytestmark = [pytest.mark.interop, pytest.mark.slow]
MTUS = tuple(MTU_CODES)
SUCCESS = VerbsStatus.SUCCESS
Connect = Callable[..., Connection]
IMMEDIATE = 0xC0FFEE42
WC_RECV, WC_RECV_RDMA_WITH_IMM = 128, 129
"""Opcodes of completions. Source: rdma-core, enum ibv_wc_opcode."""


def lengths(mtu: int) -> list[int]:
    """Messages of one packet and of many: empty, padded, full, with a packet of one byte at the end."""
    return [0, 1, 2, 3, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + 5, 37 * mtu + 2]


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("opcode", [Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM])
def test_our_write_lands_at_rxe(connect: Connect, mtu: int, opcode: Opcode) -> None:
    one = connect(mtu)
    immediate = opcode is Opcode.RDMA_WRITE_WITH_IMM
    for seed, length in enumerate(lengths(mtu)):
        data = some_bytes(seed, length)
        one.write(data)
        one.peer_write(bytes(4), 64 + length)
        if immediate:
            one.peer_receive(0)
        one.post(opcode, length, remote_offset=64, imm_data=IMMEDIATE + seed)
        (done,) = one.completed()
        assert (done.status, done.byte_len) == (SUCCESS, length)
        if immediate:
            (told,) = one.peer_completed()
            assert (told["status"], told["opcode"], told["imm"]) == (
                0,
                WC_RECV_RDMA_WITH_IMM,
                IMMEDIATE + seed,
            )
            assert told["bytes"] == length
        assert one.peer_holds(data + bytes(4), 64), f"{length} bytes"


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("op", ["RDMA_WRITE", "RDMA_WRITE_WITH_IMM"])
def test_rxe_s_write_lands_here(connect: Connect, mtu: int, op: str) -> None:
    one = connect(mtu)
    immediate = op == "RDMA_WRITE_WITH_IMM"
    for seed, length in enumerate(lengths(mtu)):
        data = one.peer_fill(seed, length)
        one.write(bytes(4), 64 + length)
        if immediate:
            one.receive(0)
        one.peer_post(op, length, remote_offset=64, imm=IMMEDIATE + seed)
        (done,) = one.peer_completed()
        assert done["status"] == 0
        (arrival,) = one.arrived()
        kind = ArrivalKind.WRITE_WITH_IMM if immediate else ArrivalKind.WRITE
        assert (arrival.kind, arrival.byte_len) == (kind, length)
        assert arrival.imm_data == (IMMEDIATE + seed if immediate else None)
        assert one.read(length + 4, 64) == data + bytes(4), f"{length} bytes"


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("opcode", [Opcode.SEND, Opcode.SEND_WITH_IMM])
def test_our_send_lands_in_rxe_s_receive(connect: Connect, mtu: int, opcode: Opcode) -> None:
    one = connect(mtu)
    for seed, length in enumerate(lengths(mtu)):
        data = some_bytes(seed, length)
        one.write(data)
        one.peer_write(bytes(4), 64 + length)
        one.peer_receive(length + 4, 64)
        one.post(opcode, length, imm_data=IMMEDIATE + seed)
        (done,) = one.completed()
        assert (done.status, done.byte_len) == (SUCCESS, length)
        (told,) = one.peer_completed()
        assert (told["status"], told["opcode"], told["bytes"]) == (0, WC_RECV, length)
        if opcode is Opcode.SEND_WITH_IMM:
            assert told["imm"] == IMMEDIATE + seed
        assert one.peer_holds(data + bytes(4), 64), f"{length} bytes"


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("op", ["SEND", "SEND_WITH_IMM"])
def test_rxe_s_send_lands_in_our_receive(connect: Connect, mtu: int, op: str) -> None:
    one = connect(mtu)
    for seed, length in enumerate(lengths(mtu)):
        data = one.peer_fill(seed, length)
        one.write(bytes(4), 64 + length)
        one.receive(length + 4, 64)
        one.peer_post(op, length, imm=IMMEDIATE + seed)
        assert one.peer_completed()[0]["status"] == 0
        (arrival,) = one.arrived()
        kind = ArrivalKind.SEND_WITH_IMM if op == "SEND_WITH_IMM" else ArrivalKind.SEND
        assert (arrival.kind, arrival.byte_len) == (kind, length)
        assert arrival.imm_data == (IMMEDIATE + seed if op == "SEND_WITH_IMM" else None)
        assert one.read(length + 4, 64) == data + bytes(4), f"{length} bytes"


@pytest.mark.parametrize("mtu", MTUS)
def test_our_read_brings_rxe_s_bytes(connect: Connect, mtu: int) -> None:
    one = connect(mtu)
    for seed, length in enumerate(lengths(mtu)):
        data = one.peer_fill(seed, length, 64)
        one.write(bytes(length + 4), 128)
        one.post(Opcode.RDMA_READ, length, offset=128, remote_offset=64)
        (done,) = one.completed()
        assert (done.status, done.byte_len) == (SUCCESS, length)
        assert one.read(length + 4, 128) == data + bytes(4), f"{length} bytes"


@pytest.mark.parametrize("mtu", MTUS)
def test_rxe_s_read_brings_our_bytes(connect: Connect, mtu: int) -> None:
    one = connect(mtu)
    for seed, length in enumerate(lengths(mtu)):
        data = some_bytes(seed, length)
        one.write(data, 64)
        one.peer_write(bytes(4), 128 + length)
        one.peer_post("RDMA_READ", length, offset=128, remote_offset=64)
        assert one.peer_completed()[0]["status"] == 0
        (arrival,) = one.arrived()
        assert (arrival.kind, arrival.byte_len) == (ArrivalKind.READ, length)
        assert one.peer_holds(data + bytes(4), 128), f"{length} bytes"


def word(value: int) -> bytes:
    """Return 64 bits as they lie in memory."""
    return (value & (1 << 64) - 1).to_bytes(8, "little")


ATOMICS = [(41, 1), (2**64 - 1, 5), (0x0123456789ABCDEF, 0x1111111111111111)]


@pytest.mark.parametrize(("before", "operand"), ATOMICS)
def test_our_fetch_add_at_rxe(connect: Connect, before: int, operand: int) -> None:
    one = connect()
    one.peer_write(word(before), 64)
    one.post(Opcode.FETCH_ADD, 8, remote_offset=64, compare_add=operand)
    assert one.completed()[0].status == SUCCESS
    assert one.read(8) == word(before)
    assert one.peer_read(8, 64) == word(before + operand)


@pytest.mark.parametrize(("before", "operand"), ATOMICS)
def test_rxe_s_fetch_add_here(connect: Connect, before: int, operand: int) -> None:
    one = connect()
    one.write(word(before), 64)
    one.peer_post("ATOMIC_FETCH_AND_ADD", 8, remote_offset=64, compare_add=operand, swap=0)
    assert one.peer_completed()[0]["status"] == 0
    assert one.peer_read(8) == word(before)
    assert one.read(8, 64) == word(before + operand)
    assert one.arrived()[0].kind is ArrivalKind.ATOMIC


@pytest.mark.parametrize("equal", [True, False])
def test_our_compare_swap_at_rxe(connect: Connect, equal: bool) -> None:
    one = connect()
    one.peer_write(word(0xFEDCBA9876543210), 64)
    compared = 0xFEDCBA9876543210 if equal else 0xFEDCBA9876543211
    one.post(Opcode.COMPARE_SWAP, 8, remote_offset=64, compare_add=compared, swap=7)
    assert one.completed()[0].status == SUCCESS
    assert one.read(8) == word(0xFEDCBA9876543210)
    assert one.peer_read(8, 64) == word(7 if equal else 0xFEDCBA9876543210)


@pytest.mark.parametrize("equal", [True, False])
def test_rxe_s_compare_swap_here(connect: Connect, equal: bool) -> None:
    one = connect()
    one.write(word(0xFEDCBA9876543210), 64)
    compared = 0xFEDCBA9876543210 if equal else 0xFEDCBA9876543211
    one.peer_post("ATOMIC_CMP_AND_SWP", 8, remote_offset=64, compare_add=compared, swap=7)
    assert one.peer_completed()[0]["status"] == 0
    assert one.peer_read(8) == word(0xFEDCBA9876543210)
    assert one.read(8, 64) == word(7 if equal else 0xFEDCBA9876543210)


@pytest.mark.parametrize("mtu", [256, 4096])
def test_a_message_of_a_megabyte_each_way(connect: Connect, mtu: int) -> None:
    one = connect(mtu, region_bytes=3 << 20)
    data = some_bytes(1, 1 << 20)
    one.write(data)
    one.post(Opcode.RDMA_WRITE, 1 << 20)
    assert one.completed()[0].status == SUCCESS
    assert one.peer_holds(data)
    one.post(Opcode.RDMA_READ, 1 << 20, offset=1 << 20)
    assert one.completed()[0].status == SUCCESS
    assert one.read(1 << 20, 1 << 20) == data
    one.peer_post("RDMA_WRITE", 1 << 20, remote_offset=2 << 20)
    assert one.peer_completed()[0]["status"] == 0
    assert one.read(1 << 20, 2 << 20) == data
    one.peer_post("RDMA_READ", 1 << 20, offset=2 << 20)
    assert one.peer_completed()[0]["status"] == 0
    assert one.peer_holds(data, 2 << 20)
