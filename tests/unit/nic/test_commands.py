# SPDX-License-Identifier: Apache-2.0
"""The command ring, whatever a process writes into it: answered, and nothing of anybody else's changes."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.abi import ARMED, CommandCode, Opcode, registers
from nicemu.errors import UsageError
from nicemu.firmware import Signal
from nicemu.host import Counter, Nic
from nicemu.pcie import load_u64, store_u64
from tests.unit.nic.conftest import LIMITS, Bench

WORD = st.one_of(
    st.integers(0, 60),
    st.sampled_from([1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1]),
    st.integers(0, (1 << 64) - 1),
)
CODE = st.one_of(st.sampled_from([int(code) for code in CommandCode]), st.integers(0, 0xFFFF))
COMMANDS = st.lists(st.tuples(CODE, st.lists(WORD, min_size=6, max_size=6)), min_size=1, max_size=8)


@st.composite
def armed_record(draw: st.DrawFn) -> bytes:
    """An armed-work record: any bytes, or one whose fields are nearly right."""
    if draw(st.booleans()):
        return draw(st.binary(min_size=ARMED.itemsize, max_size=ARMED.itemsize))
    record = np.zeros((), ARMED)
    for name, least, most in (
        ("opcode", 0, 20),
        ("options", 0, 255),
        ("sge_count", 0, 3),
        ("cq", 0, 5),
        ("qp", 0, 300),
        ("rkey", 0, 60),
        ("sge0_length", 0, 9000),
        ("sge1_length", 0, 9000),
        ("threshold", 0, 3),
        ("trigger", -2, 60),
        ("completion", -2, 60),
    ):
        record[name] = draw(st.integers(least, most))
    for name in ("remote_address", "sge0_address", "sge1_address", "wr_id"):
        record[name] = draw(WORD)
    for name in ("sge0_lkey", "sge1_lkey", "imm_data"):
        record[name] = draw(st.integers(0, (1 << 32) - 1))
    return record.tobytes()


@cache
def world(compiled: bool) -> tuple[Bench, Counter, Any, Nic]:
    """A bench, another process's counter and memory, and a process whose ring is filled."""
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder), compiled=compiled)
    (counter,) = bench.nic.counters("bystander", remote=True)
    memory = bench.nic.allocate((4096,), np.uint8)
    memory.array[:] = 0xA5
    bench.nic.register(memory)
    bench.nic.connect("there")
    return bench, counter, memory, bench.open()[1]


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
@settings(max_examples=60)
@given(commands=COMMANDS, records=st.lists(armed_record(), max_size=4))
def test_a_ring_full_of_garbage_is_answered_and_harms_nobody(
    compiled: bool, commands: list[tuple[int, list[int]]], records: list[bytes]
) -> None:
    bench, bystander, memory, _ = world(compiled)
    connection, nic = bench.open()
    peer = nic.connect("there")
    nic.counters("one", "two")
    bar = connection.bar
    staged = b"".join(records)
    bar.view[registers.STAGING : registers.STAGING + len(staged)] = staged
    own = bytes(bench.there.memory.own.window.backing.view)
    for number, (code, words) in enumerate(commands):
        entry = bar.address + registers.COMMANDS + number * 64
        packed = struct.pack("<Q6Q", code | number << 32, *words)
        bar.view[entry - bar.address : entry - bar.address + 56] = packed
        store_u64(entry + 56, number + 1)
    connection.notify()
    bench.simulation.run_until_idle()
    answered = bar.address + registers.RESPONSES + (len(commands) - 1) * 64
    assert load_u64(answered + 56) == len(commands)
    assert bystander.read() == (0, 0)
    assert (memory.array == 0xA5).all()
    assert bytes(bench.there.memory.own.window.backing.view) == own, "garbage reached the peer's memory"
    del peer
    nic.close()
    assert bench.here.unit.slots_in_use == 0
    assert int(bench.here.unit.state.unit[0].free_count) == LIMITS.slot_count
    bystander.add(1)
    assert bystander.read() == (1, 0), "the NIC does not obey any more"
    bystander.set(0, 0)


def test_commands_wait_while_the_answers_are_not_taken(bench: Bench) -> None:
    (counter,) = bench.nic.counters("counted")
    bar = bench.connection.bar
    first = load_u64(bar.address + registers.COMMANDS + 56)
    assert first == 0
    for number in range(registers.RESPONSE_COUNT):
        entry = bar.address + registers.COMMANDS + number % registers.COMMAND_COUNT * 64
        bar.view[entry - bar.address : entry - bar.address + 56] = struct.pack(
            "<Q6Q", int(CommandCode.COUNTER_ADD), counter.index, 1, 0, 0, 0, 0
        )
        store_u64(entry + 56, number + 1)
    bench.connection.notify()
    assert counter.success == registers.RESPONSE_COUNT
    entry = bar.address + registers.COMMANDS
    store_u64(entry + 56, registers.RESPONSE_COUNT + 1)
    bench.connection.notify()
    assert counter.success == registers.RESPONSE_COUNT, "an answer that was not taken is overwritten"
    taken = bar.address + registers.HOST_WORDS + registers.WORD_RESPONSES * registers.WORD_STRIDE
    store_u64(taken, 1)
    bench.connection.notify()
    assert counter.success == registers.RESPONSE_COUNT + 1


def test_a_process_cannot_forge_an_event_of_the_nic_s_own(bench: Bench) -> None:
    """Whatever number it names: what it arms goes to `@on_trigger`, and never wakes the NIC's own waits."""
    (counter,) = bench.nic.counters("mine")
    woken = Signal()
    cookie = bench.here.card.arm_signal(counter.index, 5, woken)
    record = np.zeros((), ARMED)
    record["opcode"], record["trigger"], record["completion"] = Opcode.FIRMWARE_EVENT, counter.index, -1
    record["wr_id"], record["options"] = cookie, 0
    bar = bench.connection.bar
    bar.view[registers.STAGING : registers.STAGING + ARMED.itemsize] = record.tobytes()
    bench.nic.command(CommandCode.ARM, 0, 1)
    assert not woken.done
    assert bench.here.drops["firmware.no_handler"] == 1
    with pytest.raises(UsageError, match="not supported"):
        bench.nic.command(CommandCode.POST, 0, 1)
