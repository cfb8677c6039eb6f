# SPDX-License-Identifier: Apache-2.0
"""Counters, meters, registers, profiles and hashes of nicemu.p4: on both engines what v1model's are."""

from __future__ import annotations

import random

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, Exact, Group, MeterConfig, TableEntry, ir

TEXT = """
#include <core.p4>
#include <nicemu.p4>
header h_t { bit<8> kind; bit<8> value; bit<16> sum; }
struct headers_t { h_t h; }
struct m_t { bit<8> colour; bit<32> slot; bit<16> some; }
parser P(packet_in packet, out headers_t h, inout m_t m, inout nic_metadata_t nic) {
    state start { packet.extract(h.h); transition accept; }
}
control C(inout headers_t h, inout m_t m, inout nic_metadata_t nic) {
    counter(8, CounterType.packets_and_bytes) per_kind;
    meter(8, MeterType.packets) rate;
    direct_meter<bit<8>>(MeterType.packets) limit;
    direct_counter(CounterType.packets_and_bytes) counted;
    register<bit<16>>(16) last;
    action_selector(HashAlgorithm.crc16, 16, 16) ways;
    Checksum16() sum;
    TriggerCounter() hits;
    action send(bit<16> port) { send_to_port(port); }
    action mark(bit<16> port) { limit.read(m.colour); send_to_port(port + (bit<16>) m.colour); }
    table t {
        key = { h.h.kind: exact; }
        actions = { mark; NoAction; }
        meters = limit;
        counters = counted;
    }
    table w {
        key = { h.h.kind: exact; h.h.value: selector; }
        actions = { send; NoAction; }
        implementation = ways;
    }
    apply {
        bit<8> chance;
        per_kind.count((bit<32>) h.h.kind);
        rate.execute_meter((bit<32>) h.h.value, m.colour);
        last.read(m.some, (bit<32>) h.h.value);
        last.write((bit<32>) h.h.value, m.some + 1);
        hash(m.slot, HashAlgorithm.crc32, 32w10, { h.h.kind, h.h.value }, 32w100);
        random(chance, 8w3, 8w9);
        h.h.sum = sum.get({ h.h.kind, h.h.value, m.some });
        if (w.apply().miss) { t.apply(); }
        h.h.value = (bit<8>) m.slot + m.colour + chance;
        hits.add(m.slot, 1);
    }
}
control D(packet_out b, in headers_t h, in m_t m, in nic_metadata_t nic) { apply { b.emit(h); } }
SmartNic(P(), C(), D()) main;
"""


def loaded(engine: Engine) -> Engine:
    engine.load(compile_text(TEXT).program)
    ways = engine.objects.profile("ways")
    for member, port in ((1, 7), (2, 9)):
        ways.insert_member(member, ir.ActionCall("C.send", (port,)))
    ways.insert_group(3, ((1, 1), (2, 2)))
    engine.insert("w", TableEntry((Exact(5),), "", (), choice=Group(3)))
    engine.insert("t", TableEntry((Exact(2),), "C.mark", (20,)))
    engine.row("t", (Exact(2),)).meter.configure(MeterConfig(1, 2, 2, 3), now_ns=0)
    return engine


def test_a_packet_finds_what_those_before_have_left() -> None:
    engine = loaded(Engine())
    ports = [engine.process(bytes((2, 1, 0, 0)), 1, now_ns=0).port for _ in range(4)]
    assert ports == [20, 20, 21, 22]  # green, green, yellow, red
    assert engine.objects.register("last").values == {1: 4}
    assert engine.objects.counter("per_kind").counts[2].bytes == 16
    assert engine.row("t", (Exact(2),)).hits == 4
    assert {engine.process(bytes((5, value, 0, 0)), 1).port for value in range(8)} == {7, 9}
    left = engine.process(bytes((0, 0xFF, 0, 0)), 1).frame
    assert left[2:] == bytes.fromhex("ff00")  # of 0x00ff and 0


@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
def test_any_packets_leave_the_same_on_both_engines() -> None:
    plain, fast = loaded(Engine(seed=4)), loaded(CompiledEngine(seed=4, optimised=False))
    assert isinstance(fast, CompiledEngine)
    assert fast.interpreted_because == ""
    chance = random.Random(5)
    for number in range(400):
        frame = bytes((chance.randrange(9), chance.randrange(18))) + chance.randbytes(chance.randrange(6))
        verdicts = [engine.process(frame, 1, now_ns=number * 10**8) for engine in (plain, fast)]
        assert verdicts[0] == verdicts[1], frame.hex()
    registers = [dict(engine.objects.register("last").values) for engine in (plain, fast)]
    assert registers[0] == registers[1]
    counts = [engine.objects.counter("per_kind").counts for engine in (plain, fast)]
    told = [{index: (count.packets, count.bytes) for index, count in each.items()} for each in counts]
    assert told[0] == told[1]
