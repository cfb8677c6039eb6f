# SPDX-License-Identifier: Apache-2.0
"""Hostile packets by the batch: a small, always equal share of what `python -m tests.reliability.fuzz` sends.

Source: InfiniBand Architecture Specification Volume 1, "Packet Header Validation", "Responder: Receiving
Inbound Request Packets", "Requester: Receiving Responses", "Queue Pair State Machine".
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings

from nicemu.hot import JIT
from nicemu.wire import RoceFramer, check_frame, parse_ipv4
from tests.reliability.fuzz import Fuzzer, fuzz
from tests.reliability.naive_responder import FIRST_NUMBER, well_formed


@pytest.mark.parametrize("seed", range(3))
def test_hostile_packets_change_nothing_but_what_they_may_and_end_in_the_states_named(seed: int) -> None:
    fuzzer = fuzz(seed, *((20_000, 16) if JIT else (2000, 6)))
    assert fuzzer.reconnected > 10
    assert int(fuzzer.counts["done"][0]) > fuzzer.packets // 4
    assert fuzzer.final["modelled: ERR after NAK 1"]
    if JIT:
        assert fuzzer.final["modelled: ERR after NAK 2"]
        assert len(fuzzer.drops) > 25
        assert sum(count > 0 for name, count in fuzzer.final.items() if name.startswith("asking")) > 4


@pytest.mark.slow
@pytest.mark.skipif(settings().max_examples < 1000, reason="minutes; run with --hypothesis-profile=long")
def test_ten_million_hostile_packets() -> None:
    fuzzer = fuzz(1, 10_000_000)
    assert fuzzer.make.touched.all()


@pytest.mark.parametrize("extension_bytes", [0, 3, 4, 8, 12, 15, 16, 28])
def test_engine_and_naive_responder_take_the_same_packets_for_well_formed(extension_bytes: int) -> None:
    framer = RoceFramer(bytes(6), bytes(6), parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2"))
    valid = []
    for opcode in range(256):
        made = framer.frame(opcode, FIRST_NUMBER, 1, extension=bytes(extension_bytes))
        frames = np.frombuffer(made, np.uint8).reshape(1, -1)
        is_one = well_formed(frames, 0, len(made), frames.ctypes.data)
        assert is_one == (check_frame(frames.ctypes.data, len(made)) == 0), hex(opcode)
        valid += [opcode] if is_one else []
    assert (0x64 in valid) == (extension_bytes >= 8)
    assert (0x81 in valid) == (extension_bytes >= 16)


def test_the_fuzzer_sees_a_byte_beside_a_region() -> None:
    fuzzer = Fuzzer(1, 4)
    fuzzer.batch()
    fuzzer.memory[int(fuzzer.regions[0].place) - 1] ^= 1
    with pytest.raises(AssertionError, match="memory"):
        fuzzer.batch()


def test_the_fuzzer_sees_a_request_that_is_executed_under_a_key_without_the_right() -> None:
    fuzzer = Fuzzer(1, 16)
    fuzzer.regions["rights"] &= ~2  # what the naive responder believes: no REMOTE_WRITE
    with pytest.raises(AssertionError):
        fuzzer.batch()
