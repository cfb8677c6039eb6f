# SPDX-License-Identifier: Apache-2.0
"""One v1model program with room for pieces, on both engines, and what they are compared by."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import CounterArray, Engine, Exact, MeterArray, RegisterArray, TableEntry
from nicemu.switch.batches import BatchForwarder, Frames
from nicemu.switch.forwarding import Summary, left_of
from nicemu.switch.packing import departures

SOURCE = """
#include <core.p4>
#include <v1model.p4>
header head_t {{ bit<8> kind; bit<8> value; bit<16> sum; bit<64> long; }}
header more_t {{ bit<24> a; }}
header_union either_t {{ head_t head; more_t more; }}
{types}
struct headers_t {{ head_t h; more_t[3] s; {headers} }}
struct metadata_t {{ {metadata} bit<8> x; bit<70> wide; int<70> signed; }}
register<bit<70>>(8) wide_of;
register<int<9>>(4) signed_of;
counter(4, CounterType.packets_and_bytes) seen;
{objects}
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    state start {{ b.extract(h.h); {parser} transition known; }}
    state known {{ transition select(h.h.kind) {{ 1: more; 2: reject; _: accept; }} }}
    state more {{ b.extract(h.s.next); transition select(h.s.last.a[0:0]) {{ 1: more; _: accept; }} }}
}}
control V(inout headers_t h, inout metadata_t m) {{ apply {{ {verify} }} }}
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    {parts}
    action go(bit<9> port) {{ s.egress_spec = port; {action} }}
    table t {{ key = {{ h.h.value: exact; {keys} }} actions = {{ go; NoAction; }} size = 8; {properties} }}
    apply {{ {ingress} }}
}}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ {egress} }} }}
control C(inout headers_t h, inout metadata_t m) {{ apply {{ {compute} }} }}
control D(packet_out b, in headers_t h) {{ apply {{ {deparser} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
PIECES = (
    *("types", "headers", "metadata", "objects", "parser", "verify", "parts", "action", "keys"),
    *("properties", "ingress", "egress", "compute", "deparser"),
)
Engines = tuple[Engine, CompiledEngine]


def text_of(**pieces: str) -> str:
    """Return a program with these pieces in it."""
    return SOURCE.format(
        **{name: pieces.get(name, "") for name in PIECES} | {"deparser": "b.emit(h);"} | pieces
    )


def loaded(**pieces: str) -> Engines:
    """Return an engine that interprets a program and one that has compiled it."""
    program = compile_text(text_of(**pieces)).program
    plain, fast = Engine(seed=7), CompiledEngine(seed=7, optimised=False)
    for engine in (plain, fast):
        engine.load(program)
    assert fast.interpreted_because == ""
    return plain, fast


def both(**pieces: str) -> Engines:
    """Return both engines with entries in the table."""
    engines = loaded(**pieces)
    for engine in engines:
        for value, port in ((3, 9), (4, 511), (5, 510)):
            engine.insert("t", TableEntry((Exact(value),), "go", (port,)))
    return engines


def frame_of(chance: random.Random) -> bytes:
    """Return a frame of one of the kinds that the program's parser knows, or a short one."""
    kind, value = chance.choice((0, 1, 2, 3)), chance.randrange(8)
    return bytes((kind, value)) + chance.randbytes(chance.choice((0, 5, 10, 13, 16, 19, 30)))


def agree(engines: Engines, seed: int = 1, packets: int = 40, step_ns: int = 0) -> None:
    """Send the same packets through both: at random times, or one every `step_ns`; compare all there is."""
    chance = random.Random(seed)
    for number in range(packets):
        frame, port = frame_of(chance), chance.randrange(600)
        now_ns = number * step_ns if step_ns else chance.getrandbits(60)
        expected, found = (engine.process(frame, port, now_ns=now_ns) for engine in engines)
        assert found == expected, f"packet {number}: {frame.hex()}"
    same_state(engines)


def agree_in_batches(engines: Engines, seed: int = 1, packets: int = 40, at_once: int = 15) -> Summary:
    """Send the same packets through both, the compiled one some at a time; return what came of them."""
    plain, fast = engines
    chance = random.Random(seed)
    frames = [frame_of(chance) for _ in range(packets)]
    numbers = [(chance.randrange(511), number * 1000) for number in range(packets)]
    wanted, expected, found = Summary(), [], []
    for frame, (port, now_ns) in zip(frames, numbers, strict=True):
        verdict = plain.process(frame, port, now_ns=now_ns)
        expected += [(to, now_ns, left) for to, left in left_of(verdict, wanted)]
    forwarder = BatchForwarder(fast)
    for first in range(0, packets, at_once):
        some = frames[first : first + at_once]
        memory = np.frombuffer(b"".join(some) + bytes(1), np.uint8)
        lengths = np.array([len(frame) for frame in some], np.uint64)
        ports, times = np.array(numbers[first : first + at_once], np.uint64).T
        offsets = np.cumsum(lengths) - lengths
        for records, told in forwarder.run(Frames(memory.ctypes.data, offsets, lengths, times, ports)):
            found += list(departures(records, told))
    forwarder.close()
    assert found == expected
    assert (forwarder.summary.out, forwarder.summary.dropped) == (wanted.out, wanted.dropped)
    same_state(engines)
    return wanted


def same_state(engines: Engines) -> None:
    """Compare what both engines hold."""
    plain, fast = engines
    assert fast.drops == plain.drops
    assert fast.tables() == plain.tables()
    for table in plain.tables():
        tables = [engine.table(table.name) for engine in engines]
        rows = [[*held.rows(), held.default_row()] for held in tables]
        told = [[(row.entry, row.hits, row.bytes, row.colours) for row in held] for held in rows]
        assert told[0] == told[1]
    for name, state in plain.objects.states.items():
        assert contents(fast.objects.states[name]) == contents(state), name
    assert fast.objects.random.word() == plain.objects.random.word()


def contents(state: Any) -> dict[int, Any]:  # noqa: ANN401
    """Return what an array holds, without zeros."""
    match state:
        case RegisterArray():
            held = {index: shown(value) for index, value in state.values.items()}
            return {index: value for index, value in held.items() if any(value)}
        case CounterArray():
            counts = {index: (count.packets, count.bytes) for index, count in state.counts.items()}
            return {index: count for index, count in counts.items() if any(count)}
        case MeterArray():
            return {index: meter.config for index, meter in state.meters.items()}
    return {}


def shown(value: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """Return a register's value as something to compare."""
    if isinstance(value, dict):
        return tuple(part for item in value.values() for part in shown(item))
    if isinstance(value, int):
        return (value,)
    return (value.valid, *shown(value.fields))
