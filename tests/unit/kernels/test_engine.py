# SPDX-License-Identifier: Apache-2.0
"""The compiled engine: entries, counts, effects and batches, and what it leaves to the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from nicemu.errors import ControlError
from nicemu.hot import JIT
from nicemu.kernels import DROPPED, PACKET, TO_PORT, CompiledEngine, drop_reason
from nicemu.p4 import compile_text
from nicemu.pipeline import (
    MAX_EFFECTS,
    MAX_EMITTED_BYTES,
    CounterAdd,
    Disposition,
    Engine,
    EventPosted,
    Exact,
    Lpm,
    Match,
    Optional,
    Range,
    TableEntry,
    Ternary,
    Verdict,
    WorkArmed,
    program_of_json,
)

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

SOURCE = """
#include <core.p4>
#include <nicemu.p4>
header tag_t {{ bit<8> kind; bit<16> value; }}
header more_t {{ bit<32> word; }}
struct seen_t {{ bit<8> kind; bit<100> wide; }}
struct headers_t {{ tag_t tag; more_t more; }}
struct m_t {{ bit<100> wide; }}
struct held_t {{ bit<4> low; bit<0> none; bit<4> high; }}
parser P(packet_in packet, out headers_t h, inout m_t m, inout nic_metadata_t nic) {{
    state start {{ packet.extract(h.tag); {parse} transition accept; }}
}}
control C(inout headers_t h, inout m_t m, inout nic_metadata_t nic) {{
    TriggerCounter() hits;
    FirmwareEvent<seen_t>("seen") seen;
    DeferredWork("later") later;
    action go(bit<16> port) {{ send_to_port(port); }}
    action stop() {{ drop_packet(); }}
    {parts}
    apply {{ {apply} }}
}}
control D(packet_out packet, in headers_t h, in m_t m, in nic_metadata_t nic) {{ apply {{ {emit} }} }}
SmartNic(P(), C(), D()) main;
"""


def loaded(apply: str, parts: str = "", parse: str = "", emit: str = "packet.emit(h);") -> CompiledEngine:
    engine = CompiledEngine(optimised=False)
    text = SOURCE.format(apply=apply, parts=parts, parse=parse, emit=emit)
    engine.load(compile_text(text).program)
    assert engine.interpreted_because == ""
    return engine


def table(kind: str, keys: str = "h.tag.value") -> str:
    return f"""table t {{ key = {{ {keys}: {kind}; }} actions = {{ go; stop; }}
                        default_action = stop; size = 8; }}"""


def port(engine: Engine, value: int) -> int | None:
    verdict = engine.process(bytes((1, *value.to_bytes(2, "big"))), 0)
    return None if verdict.disposition is Disposition.DROP else verdict.port


def test_entries_come_change_and_go_while_packets_flow() -> None:
    engine = loaded("t.apply();", table("exact"))
    assert port(engine, 5) is None
    engine.insert("t", TableEntry((Exact(5),), "go", (7,)))
    assert port(engine, 5) == 7
    engine.modify("t", TableEntry((Exact(5),), "go", (8,)))
    assert port(engine, 5) == 8
    engine.delete("t", (Exact(5),))
    assert port(engine, 5) is None
    engine.set_default("t", "go", (9,))
    assert port(engine, 5) == 9


def test_every_match_kind_finds_what_the_interpreter_finds() -> None:
    given: tuple[tuple[str, list[tuple[tuple[Match, ...], int]]], ...] = (
        ("lpm", [((Lpm(0x1200, 8),), 0), ((Lpm(0x1230, 12),), 0), ((Lpm(0, 0),), 0)]),
        ("ternary", [((Ternary(1, 1),), 2), ((Ternary(0, 2),), 3), ((Ternary(0, 0),), 1)]),
        ("range", [((Range(5, 900),), 2), ((Range(100, 200),), 3), ((Range(0, 0xFFFF),), 1)]),
        ("optional", [((Optional(5),), 2), ((Optional(None),), 1)]),
    )
    for kind, entries in given:
        engine = loaded("t.apply();", table(kind))
        for number, (matches, priority) in enumerate(entries):
            engine.insert("t", TableEntry(matches, "go", (number,), priority))
        for value in (0, 1, 2, 5, 99, 100, 150, 200, 900, 901, 0x1200, 0x1234, 0x12FF, 0xFFFF):
            frame = bytes((1, *value.to_bytes(2, "big")))
            assert engine.process(frame, 0) == Engine.process(engine, frame, 0)


def test_what_a_table_refuses_changes_nothing() -> None:
    engine = loaded("t.apply();", table("exact"))
    engine.insert("t", TableEntry((Exact(5),), "go", (7,)))
    with pytest.raises(ControlError):
        engine.insert("t", TableEntry((Exact(5),), "go", (8,)))
    with pytest.raises(ControlError):
        engine.insert("t", TableEntry((Exact(6),), "go", (1 << 16,)))
    assert (port(engine, 5), port(engine, 6)) == (7, None)


def test_packets_bytes_and_the_last_hit_are_counted_for_each_entry() -> None:
    engine = loaded("t.apply();", table("exact"))
    engine.insert("t", TableEntry((Exact(5),), "go", (7,)))
    for now_ns, frame in ((10, b"\1\0\5"), (20, b"\1\0\5more"), (30, b"\1\0\6")):
        engine.process(frame, 0, now_ns=now_ns)
    engine.process(b"\1\0\5", 0, trace=True, now_ns=15)  # by the interpreter
    row = engine.row("t", (Exact(5),))
    assert (row.hits, row.bytes, row.last_hit_ns) == (3, 13, 20)
    (info,) = engine.tables()
    assert (info.hits, info.misses) == (3, 1)


def test_misses_are_counted_for_the_default_entry_whichever_it_was() -> None:
    engine = loaded("t.apply();", table("exact"))
    held = engine.table("t")
    for turn in range(1, 5):
        engine.process(b"\1\0\6", 0, now_ns=10 * turn)
        put_back = held.remember_default()
        engine.set_default("t", "go", (turn,))
        engine.process(b"\1\0\6more", 0, now_ns=10 * turn + 1)
        engine.process(b"\1\0\6", 0, now_ns=10 * turn + 2, trace=True)  # by the interpreter
        row = held.default_row()
        assert (row.hits, row.bytes, row.last_hit_ns) == (3 + turn - 1, 13 + 3 * (turn - 1), 10 * turn + 2)
        put_back()
        assert held.default_row().hits == turn, "what a change that is taken back has counted goes with it"
    assert engine.tables()[0].misses == 12


def test_no_miss_is_lost_where_nobody_reads_between_the_changes() -> None:
    engine = loaded("t.apply();", table("exact"))
    for turn in range(4):
        engine.process(b"\1\0\6", 0)
        engine.set_default("t", "go", (turn,))
    assert engine.table("t").default_row().hits == 4


def test_a_table_without_keys_counts_each_packet_for_its_default_entry() -> None:
    engine = loaded("t.apply();", "table t { actions = { stop; } default_action = stop; }")
    for _ in range(3):
        engine.process(b"\1\0\6", 0)
    assert (engine.table("t").default_row().hits, engine.table("t").default_row().bytes) == (3, 9)


@pytest.mark.parametrize("kind", [Engine, CompiledEngine])
def test_a_table_without_keys_takes_no_entry(kind: type[Engine]) -> None:
    program = loaded("t.apply();", "table t { actions = { stop; } default_action = stop; }").program
    engine = kind()
    assert program is not None
    engine.load(program)
    with pytest.raises(ControlError, match="has no keys"):
        engine.insert("t", TableEntry((), "stop"))


def test_what_a_controller_does_to_a_table_itself_reaches_the_kernel() -> None:
    engine = loaded("t.apply();", table("exact"))
    held = engine.table("t")
    put_back = held.remember((Exact(5),))
    held.insert(TableEntry((Exact(5),), "C.go", (7,)))
    assert port(engine, 5) == 7
    assert held.row((Exact(5),)).hits == 1
    put_back()
    assert port(engine, 5) is None
    held.set_default("C.go", (3,))
    assert port(engine, 5) == 3


def test_another_engines_program_comes_with_what_it_holds() -> None:
    first, second = loaded("t.apply();", table("ternary")), Engine()
    assert first.program is not None
    second.load(first.program)
    for number, priority in ((1, 4), (2, 9), (3, 5)):
        second.insert("t", TableEntry((Ternary(0, 0),), "go", (number,), priority))
    first.adopt(second)
    assert first.interpreted_because == ""
    assert port(first, 5) == 2


def test_effects_come_in_the_order_of_the_calls_however_wide_they_are() -> None:
    wide = (1 << 99) + 5
    engine = loaded(
        f"m.wide = 100w{wide}; hits.add(3, 4); seen.post({{ h.tag.kind, m.wide }});"
        " later.arm(5, 1 << 40); hits.add(1, 2);"
    )
    effects = engine.process(b"\x09\0\0", 0).effects
    seen = EventPosted("seen", {"kind": 9, "wide": wide})
    assert effects == (CounterAdd(3, 4), seen, WorkArmed("later", 5, 1 << 40), CounterAdd(1, 2))


def test_a_rejected_packet_has_no_effects_and_a_reason() -> None:
    engine = loaded("hits.add(3, 4);")
    verdict = engine.process(b"\x09", 0)
    assert (verdict.drop_reason, verdict.effects) == ("parser.too_short", ())
    assert engine.drops == {"parser.too_short": 1}


def test_headers_may_come_and_go_so_that_the_frame_grows_and_shrinks() -> None:
    grows = loaded("h.more.setValid(); h.more.word = 0x11223344; send_to_port(1);")
    assert grows.process(bytes.fromhex("010203ff"), 0).frame.hex() == "01020311223344ff"
    shrinks = loaded("h.tag.setInvalid(); send_to_port(1);")
    assert shrinks.process(bytes.fromhex("010203ff"), 0).frame.hex() == "ff"
    swaps = loaded(
        "send_to_port(1);", parse="packet.extract(h.more);", emit="packet.emit(h.more); packet.emit(h.tag);"
    )
    assert swaps.process(bytes.fromhex("01020311223344ff"), 0).frame.hex() == "11223344010203ff"


def test_bytes_beside_a_changed_field_stay() -> None:
    engine = loaded("h.tag.kind = h.tag.kind + 1; send_to_port(1);")
    assert engine.process(bytes.fromhex("ff0203ff"), 0).frame.hex() == "000203ff"


def test_a_loop_without_end_drops_the_packet() -> None:
    engine = loaded("for (bit<32> i = 0; i < 0xffffffff; i += 1) { m.wide = m.wide + 1; } send_to_port(1);")
    assert engine.process(b"\1\2\3", 0).drop_reason == "pipeline.too_many_turns"


def test_one_packet_leaves_nothing_to_the_next() -> None:
    engine = loaded("if (h.tag.kind == 1) { m.wide = 77; } hits.add(0, (bit<64>) m.wide); send_to_port(1);")
    assert [engine.process(bytes((kind, 0, 0)), 0).effects[0] for kind in (1, 2)] == [
        CounterAdd(0, 77),
        CounterAdd(0, 0),
    ]


@pytest.mark.parametrize("ahead", [False, True])
def test_a_batch_does_what_its_packets_do_one_by_one(ahead: bool) -> None:
    engine = loaded("t.apply(); hits.add(1, (bit<64>) h.tag.value);", table("exact"))
    for value in range(8):
        engine.insert("t", TableEntry((Exact(value),), "go", (value + 100,)))
    kernel = engine.kernel
    assert kernel is not None
    count, slot = 77, 64
    room = np.zeros((count, slot), np.uint8)
    packets = np.zeros(count, PACKET)
    for number in range(count):
        frame = bytes((1, 0, number % 10)) if number % 7 else b"\1"
        room[number, 32 : 32 + len(frame)] = np.frombuffer(frame, np.uint8)
        packets[number]["length"] = len(frame)
    packets["address"] = room.ctypes.data + 32 + slot * np.arange(count, dtype=np.uint64)
    kernel.run(packets, fetch_ahead=ahead)
    for number, packet in enumerate(packets):
        if number % 7 == 0:
            assert (packet["verdict"], drop_reason(kernel.program, packet["reason"])) == (
                DROPPED,
                "parser.too_short",
            )
        elif number % 10 < 8:
            assert (packet["verdict"], packet["out_port"]) == (TO_PORT, number % 10 + 100)
            assert kernel.effects(packet) == [CounterAdd(1, number % 10)]
        else:
            assert (packet["verdict"], packet["reason"]) == (DROPPED, 0)


def same(engine: CompiledEngine, frame: bytes) -> Verdict:
    """Return what the compiled program makes of a frame, which is what the interpreter does."""
    plain = Engine()
    assert engine.program is not None
    plain.load(engine.program)
    found = engine.process(frame, 0)
    assert found == plain.process(frame, 0)
    return found


def test_a_deparser_may_decide_count_and_end() -> None:
    engine = loaded(
        "h.more.setValid(); h.more.word = 0x11223344;",
        emit="""if (h.tag.kind == 1) { packet.emit(h.more); packet.emit(h.tag); }
                for (bit<8> i = 0; i < h.tag.kind; i += 1) {
                    packet.emit(h.tag);
                    if (i == 2) { exit; }
                }
                if (h.tag.kind == 2) { return; }
                tag_t copy = h.tag; copy.kind = 0; packet.emit(copy);""",
    )
    assert same(engine, bytes.fromhex("000203ff")).frame.hex() == "000203ff"
    assert same(engine, bytes.fromhex("010203ff")).frame.hex() == "11223344010203010203000203ff"
    assert same(engine, bytes.fromhex("020203ff")).frame.hex() == "020203020203ff"
    assert same(engine, bytes.fromhex("ff0203ee")).frame.hex() == "ff0203ff0203ff0203ee"


def test_headers_that_a_deparser_emits_without_end_drop_the_packet() -> None:
    emit = "for (bit<16> i = 0; i < h.tag.value; i += 1) { packet.emit(h.more); }"
    engine = loaded("h.more.setValid();", emit=emit)
    assert len(same(engine, b"\0" + (4096).to_bytes(2, "big")).frame) == MAX_EMITTED_BYTES
    assert same(engine, b"\0" + (4097).to_bytes(2, "big")).drop_reason == "pipeline.oversized"


def test_a_packet_that_is_dropped_and_whose_headers_would_be_too_long_is_told_as_too_long() -> None:
    """As where the deparser has other things to do: it runs whatever becomes of the packet."""
    found = []
    for times in (32, 33):
        apply, emit = "h.more.setValid(); drop_packet(); hits.add(1, 2);", "packet.emit(h.more); " * times
        text = SOURCE.format(apply=apply, parts="", parse="", emit=emit).replace(
            "bit<32> word", "bit<4096> word"
        )
        engine = CompiledEngine(optimised=False)
        engine.load(compile_text(text).program)
        assert engine.interpreted_because == ""
        found.append(same(engine, bytes(3)))
    assert MAX_EMITTED_BYTES == 32 * 4096 // 8
    assert [verdict.drop_reason for verdict in found] == ["pipeline.dropped", "pipeline.oversized"]
    assert [verdict.effects for verdict in found] == [(CounterAdd(1, 2),), ()]


def test_effects_in_a_loop_come_in_its_order_and_too_many_drop_the_packet() -> None:
    engine = loaded("for (bit<16> i = 0; i < h.tag.value; i += 1) { hits.add((bit<32>) i, 1); }")
    effects = same(engine, b"\0" + MAX_EFFECTS.to_bytes(2, "big")).effects
    assert effects == tuple(CounterAdd(number, 1) for number in range(MAX_EFFECTS))
    verdict = same(engine, b"\0" + (MAX_EFFECTS + 1).to_bytes(2, "big"))
    assert (verdict.drop_reason, verdict.effects) == ("pipeline.too_many_effects", ())


@pytest.mark.parametrize("width", [8, 64, 65, 100, 128, 129, 200])
@pytest.mark.parametrize("signed", [False, True])
def test_numbers_of_any_width_are_divided(width: int, signed: bool) -> None:
    kind = f"{'int' if signed else 'bit'}<{width}>"
    wide = f"bit<{width}>"
    text = SOURCE.format(
        parts="",
        parse="packet.extract(h.more);",
        emit="packet.emit(h);",
        apply=f"""{kind} a = ({kind}) ({wide}) h.more.word; {kind} b = ({kind}) ({wide}) h.tag.value;
                  a = a << {width // 2}; if (h.tag.kind[0:0] == 1) {{ a = -a; }}
                  if (h.tag.kind[1:1] == 1) {{ b = -b; }}
                  {kind} q = a |+| b; {kind} r = a |-| b;
                  h.more.word = (bit<32>) ({wide}) (q ^ (q >> {width // 2}));
                  h.tag.value = (bit<16>) ({wide}) r; send_to_port(1);""",
    )
    # P4 divides bit<N> alone; the IR, which BMv2 JSON becomes too, any number.
    written = compile_text(text).program.to_json()
    program = program_of_json(written.replace('"|+|"', '"/"').replace('"|-|"', '"%"'))
    plain, fast = Engine(), CompiledEngine(optimised=width in (65, 128))
    plain.load(program)
    fast.load(program)
    assert fast.interpreted_because == ""
    for kind_ in range(4):
        for value, word in ((0, 5), (1, 7), (3, 0xFFFFFFFF), (0xFFFF, 0x80000000), (0x8000, 1)):
            frame = bytes((kind_, *value.to_bytes(2, "big"), *word.to_bytes(4, "big")))
            assert fast.process(frame, 0) == plain.process(frame, 0)


def test_a_number_without_bits_is_0_in_a_kernel_too() -> None:
    engine = loaded(
        """bit<0> none = ~(bit<0>) h.tag.kind; held_t held = { 1, ~none, 2 }; bit<8> moved = 8w3 << none;
           h.tag.kind = none ++ held.low ++ -none ++ held.high;
           h.tag.value = (bit<16>) none + (bit<16>) moved;
           if (none != 0 || !(none <= 0w0) || none / none != 0) { h.tag.kind = 0xff; }
           switch (held.none) { 0: { } default: { h.tag.kind = 0xee; } }
           both(none, h.tag.value);""",
        parts="""action both(in bit<0> none, inout bit<16> value) { value += (bit<16>) (none >> 1); }""",
    )
    assert engine.interpreted_because == ""
    assert same(engine, bytes.fromhex("0102030405")).frame.hex() == "1200030405"


def test_action_data_without_bits_move_none_of_the_others() -> None:
    engine = loaded(
        "t.apply();",
        parts="""action put(bit<8> kind, bit<0> none, bit<64> wide, bit<0> last, bit<16> value) {
                     h.tag.kind = kind + (bit<8>) none;
                     h.tag.value = value ^ (bit<16>) (wide + (bit<64>) last);
                 }
                 table t {
                     key = { h.tag.kind: exact; }
                     actions = { put; NoAction; }
                     const entries = { 1: put(0xff, 0, 0x1122, 0, 0x3344); 2: put(7, 0, 1, 0, 1); }
                 }""",
    )
    assert engine.interpreted_because == ""
    assert same(engine, bytes.fromhex("0102030405")).frame.hex() == "ff22660405"
    assert same(engine, bytes.fromhex("0202030405")).frame.hex() == "0700000405"


def test_a_table_whose_key_has_no_bits_is_interpreted() -> None:
    table = 'table t { key = { (bit<0>) h.tag.kind: exact @name("k"); } actions = { NoAction; } }'
    text = SOURCE.format(apply="t.apply();", parts=table, parse="", emit="packet.emit(h);")
    engine = CompiledEngine(optimised=False)
    engine.load(compile_text(text).program)
    assert engine.interpreted_because == "C.t has a key of no bits"
    engine.insert("t", TableEntry((Exact(0),), "NoAction", ()))
    same(engine, bytes.fromhex("0102030405"))
