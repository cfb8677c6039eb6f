# SPDX-License-Identifier: Apache-2.0
"""Frames at raw addresses: made and refused as RoceFramer and decode_roce_frame make and refuse them."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.hot import Int, hot, interpreted
from nicemu.pcie import copy_memory
from nicemu.wire import (
    ACK_REQUEST,
    EXTENSION_PLACE,
    FRAME_REFUSALS,
    MalformedError,
    RcOpcode,
    RoceFramer,
    begin_frame,
    check_frame,
    crc32_copy,
    decode_roce_frame,
    end_frame,
    extension_bytes,
    headers_crc,
    icrc,
    internet_checksum,
    load_be16,
    load_be32,
    load_be64,
    load_u8,
    make_template,
    parse_ipv4,
    payload_bytes,
    store_be16,
    store_be32,
    store_be64,
    store_u8,
)

MACS, IPS = (b"\x02" * 6, b"\x04" * 6), (parse_ipv4("10.0.0.1"), parse_ipv4("10.200.30.255"))
FRAMER = RoceFramer(*MACS, *IPS)
TEMPLATE = np.frombuffer(make_template(*MACS, *IPS), np.uint8)
OPCODES = [*range(0x20), 0x64, 0x65, 0x81]


@hot
def make(
    target: Int, opcode: Int, qp: Int, psn_word: Int, headers: Int, data: Int, length: Int, template: Int
) -> Int:
    payload = begin_frame(target, template, opcode, qp, psn_word, length)
    copy_memory(target + EXTENSION_PLACE, headers, extension_bytes(opcode))
    crc = crc32_copy(headers_crc(target, opcode), payload, data, length)
    return end_frame(target, payload + length, crc, length)


@hot
def check(frame: Int, length: Int) -> Int:
    return check_frame(frame, length)


@hot
def payload_of(frame: Int, opcode: Int) -> Int:
    return payload_bytes(frame, opcode)


@hot
def move_fields(target: Int, source: Int) -> Int:
    store_u8(target, load_u8(source))
    store_be16(target + 1, load_be16(source + 1))
    store_be32(target + 3, load_be32(source + 3))
    store_be64(target + 7, load_be64(source + 7))
    return load_be32(source + 3)


@pytest.fixture(scope="module", params=["interpreted", "compiled"])
def way(request: pytest.FixtureRequest) -> Callable[[Callable[..., int]], Callable[..., int]]:
    return interpreted if request.param == "interpreted" else lambda function: function


def bytes_at(data: bytes) -> np.ndarray:
    return np.frombuffer(data + b"\0", np.uint8)


def reason(frame: bytes) -> str:
    """Why the plain decoder refuses a frame; empty if it does not."""
    try:
        decode_roce_frame(frame)
    except MalformedError as error:
        return error.reason
    return ""


def seal(frame: bytearray) -> bytes:
    """Make checksum and ICRC fit."""
    if len(frame) >= 58:
        frame[24:26] = b"\0\0"
        frame[24:26] = internet_checksum(bytes(frame[14:34])).to_bytes(2, "big")
        end = 34 + int.from_bytes(frame[38:40], "big")
        if 58 <= end <= len(frame):
            frame[end - 4 : end] = icrc(
                bytes(frame[14:34]), bytes(frame[34:42]), [bytes(frame[42 : end - 4])]
            )
    return bytes(frame)


def test_frames_are_made_byte_for_byte_as_the_framer_makes_them(
    way: Callable[[Callable[..., int]], Callable[..., int]],
) -> None:
    function, rng = way(make), random.Random(1)
    target = np.zeros(8192, np.uint8)
    for opcode in OPCODES:
        for length in (0, 1, 2, 3, 4, 31, 255, 256, 1000, 4096):
            headers, data = rng.randbytes(int(extension_bytes(opcode))), rng.randbytes(length)
            qp, psn, asks = rng.getrandbits(24), rng.getrandbits(24), bool(rng.getrandbits(1))
            expected = FRAMER.frame(opcode, qp, psn, ack_request=asks, extension=headers, payload=[data])
            kept = bytes_at(headers), bytes_at(data)
            target[:] = 0xA5
            made = function(
                target.ctypes.data + 8,
                opcode,
                qp,
                psn | ACK_REQUEST * asks,
                kept[0].ctypes.data,
                kept[1].ctypes.data,
                length,
                TEMPLATE.ctypes.data,
            )
            assert target[: len(expected) + 16].tobytes() == b"\xa5" * 8 + expected + b"\xa5" * 8
            assert made == len(expected)
            assert way(check)(target.ctypes.data + 8, made) == 0
            assert way(payload_of)(target.ctypes.data + 8, opcode) == length


@given(
    st.sampled_from(OPCODES),
    st.integers(0, 70),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
    st.integers(0, 40),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=600)
def test_frames_are_refused_for_the_same_reasons(
    opcode: int, length: int, changes: list[tuple[int, int]], cut: int, pads: bool, seals: bool
) -> None:
    frame = bytearray(FRAMER.frame(opcode, 5, 6, payload=[bytes(range(length))]))
    for place, value in changes:
        frame[place % len(frame)] = value
    data = seal(frame) if seals else bytes(frame)
    data = data + bytes(cut) if pads else data[: len(data) - cut]
    memory = bytes_at(data)
    for function in (check, interpreted(check)):
        assert FRAME_REFUSALS[function(memory.ctypes.data, len(data))] == reason(data)


@pytest.mark.parametrize("place", range(14, 58))
def test_every_value_of_every_header_byte_is_judged_the_same(place: int) -> None:
    good = FRAMER.frame(RcOpcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE, 5, 6, extension=bytes(20), payload=[b"four"])
    for value in range(256):
        frame = bytearray(good)
        frame[place] = value
        for data in (bytes(frame), seal(frame)):
            memory = bytes_at(data)
            assert FRAME_REFUSALS[check(memory.ctypes.data, len(data))] == reason(data)


@given(st.binary(max_size=130))
def test_noise_is_refused_for_the_same_reason(noise: bytes) -> None:
    memory = bytes_at(noise)
    assert FRAME_REFUSALS[check(memory.ctypes.data, len(noise))] == reason(noise) != ""


def test_fields_are_moved_at_any_alignment(way: Callable[[Callable[..., int]], Callable[..., int]]) -> None:
    rng = random.Random(3)
    for start in range(8):
        data = rng.randbytes(32)
        source, target = np.frombuffer(data, np.uint8), np.full(40, 0xA5, np.uint8)
        value = way(move_fields)(target.ctypes.data + 7 - start, source.ctypes.data + start)
        assert value == int.from_bytes(data[start + 3 : start + 7], "big")
        expected = b"\xa5" * (7 - start) + data[start : start + 15]
        assert target.tobytes() == expected.ljust(40, b"\xa5")
