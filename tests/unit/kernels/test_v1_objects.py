# SPDX-License-Identifier: Apache-2.0
"""v1model's messages, chance, registers of any type and meters in kernels."""

from __future__ import annotations

import pytest

from nicemu.hot import JIT
from nicemu.kernels import loaded as loaded_kernels
from nicemu.pipeline import (
    MAX_EFFECTS,
    Count,
    DigestPosted,
    Exact,
    LogMessage,
    Meter,
    MeterConfig,
    TableEntry,
)

from .v1_programs import Engines, agree, agree_in_batches, both, loaded, same_state

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

PAIR = "struct pair_t { bit<70> wide; bool flag; int<9> signed; }"
CONFIGS = (
    MeterConfig(2.0, 3, 5.0, 4),
    MeterConfig(0.3, 1, 0.7, 30),
    MeterConfig(1e9, 1 << 40, 1e9, 1 << 40),
    MeterConfig(2.0, 3, 2.0, 3, excess_burst=4),
)
STEP_NS = 123_456_789


def test_messages_and_digests_come_in_the_order_of_the_calls() -> None:
    engines = both(
        metadata="either_t either; ",
        ingress="""m.signed = -5; log_msg("a {} and {} {}", { h.h.kind, m.signed });
                   digest<head_t>(1, h.h); digest(2, { m.wide, h.h.value, m.signed });
                   if (h.h.kind == 1) { m.either.more.setValid(); m.either.more = h.s[0]; }
                   digest(3, { h.h.value, h.s, m.either });""",
        egress='log_msg("egress");',
        compute='log_msg("{}", { h.h.sum });',
    )
    agree(engines)
    verdict = engines[1].process(bytes(12), 0)
    assert verdict.effects[:2] == (LogMessage("a 0 and -5 {}"), DigestPosted("head_t", 1, 96, 0, (1,)))
    assert verdict.effects[-2:] == (LogMessage("egress"), LogMessage("0"))


def test_effects_of_each_pass_have_a_limit_of_their_own() -> None:
    loop = 'for (bit<16> i = 0; i < {} + (bit<16>) h.h.value; i += 1) {{ log_msg("x"); }}'
    engines = both(ingress=loop.format(MAX_EFFECTS), egress=loop.format(MAX_EFFECTS - 3))
    agree(engines)
    verdict = engines[1].process(bytes((0, 0, *bytes(10))), 0)
    assert (verdict.drop_reason, len(verdict.effects)) == ("", 2 * MAX_EFFECTS - 3)
    engines = both(egress=loop.format(MAX_EFFECTS - 3), ingress='log_msg("first");')
    agree(engines)
    verdict = engines[1].process(bytes((0, 4, *bytes(10))), 0)
    assert (verdict.drop_reason, len(verdict.effects)) == ("pipeline.too_many_effects", 1)


@pytest.mark.parametrize("logs", [1, 2])
def test_a_parser_that_goes_round_leaves_no_more_effects_than_there_is_room_for(logs: int) -> None:
    parser = f"""transition select(h.h.kind) {{ 9: round; default: known; }} }}
                 state round {{
                     {'log_msg("{}", { m.x });' * logs} m.x = m.x + 1;
                     transition select(h.h.value) {{ 9: known; default: round; }} }}
                 state last {{"""
    engines = both(parser=parser)
    agree(engines)
    for value in (9, 1):
        expected, found = (engine.process(bytes((9, value, *bytes(10))), 0) for engine in engines)
        assert found == expected
    assert len(found.effects) == MAX_EFFECTS


def test_calls_in_a_parser_that_goes_round_are_turns() -> None:
    parser = f"""transition round; }}
                 state round {{
                     {"f(m.x);" * 300} m.wide = m.wide + 1;
                     transition select(m.wide, h.h.value) {{
                         (250, _): known; (217, 0): known; (219, 1): known; default: round;
                     }} }}
                 state last {{"""
    engines = both(parser=parser, types="void f(inout bit<8> x) { x = x + 1; }", ingress="h.h.kind = m.x;")
    for value, kind in ((0, 217 * 300 % 256), (1, 0), (2, 0)):  # the others end with ParserTimeout
        expected, found = (engine.process(bytes((1, value, *bytes(10))), 0) for engine in engines)
        assert found == expected
        assert found.frame[0] == kind


def test_packets_that_may_leave_many_effects_go_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = 'for (bit<16> i = 0; i < (bit<16>) h.h.value; i += 1) { log_msg("{}", { i }); }'
    for ingress in (loop, loop + "if (h.h.kind == 1) { clone(CloneType.I2E, 1); }"):
        engines = both(ingress=ingress)
        kernel = engines[1].kernel
        assert kernel is not None
        assert kernel.has_room_for(1024)
        monkeypatch.setattr(loaded_kernels, "MAX_EFFECT_BYTES", 100_000)
        assert not kernel.has_room_for(1024)
        agree_in_batches(engines)
        monkeypatch.undo()


@pytest.mark.parametrize("kind", ["bit<8>", "int<7>", "bit<32>", "bit<63>", "bit<64>", "int<64>", "bit<100>"])
def test_chance_draws_the_interpreters_numbers(kind: str) -> None:
    wide = f"bit<{kind[4:-1]}>"
    agree(
        both(
            ingress=f"""{kind} low = ({kind}) ({wide}) h.h.value; {kind} high = ({kind}) ({wide}) h.h.long;
                        {kind} drawn; random(drawn, low, high); m.wide = (bit<70>) ({wide}) drawn;
                        wide_of.write((bit<32>) h.h.value, m.wide); random(m.x, 8w3, 8w5);
                        hash(m.x, HashAlgorithm.random, m.x, {{ h.h.kind }}, h.h.value); h.h.kind = m.x;""",
        )
    )


def test_registers_hold_structs() -> None:
    engines = both(
        objects=PAIR + "register<pair_t>(3) pairs; register<bool>(2) flags;",
        ingress="""pair_t p; pairs.read(p, (bit<32>) h.h.kind); p.wide = p.wide + 70w0x3fffffffff00000000;
                   p.flag = !p.flag; p.signed = p.signed - 3; pairs.write((bit<32>) h.h.kind, p);
                   h.h.long = (bit<64>) p.wide; h.h.sum = (bit<16>) (bit<9>) p.signed;
                   bool f; flags.read(f, 1); flags.write(1, !f);""",
    )
    agree(engines)
    assert engines[1].objects.register("pairs").values[0].keys() == {"wide", "flag", "signed"}


def test_what_a_controller_gives_to_all_places_is_what_they_hold() -> None:
    engines = both(
        ingress="""wide_of.read(m.wide, (bit<32>) h.h.value); h.h.long = (bit<64>) m.wide;
                   wide_of.write((bit<32>) h.h.value, m.wide - 1); seen.count((bit<32>) h.h.kind);""",
    )
    for engine in engines:
        registers, counters = engine.objects.register("wide_of"), engine.objects.counter("seen")
        registers.values.clear()
        registers.others = 1 << 69
        counters.counts.clear()
        counters.others = Count(5, 500)
    for engine in engines:
        for kind, value in ((0, 0), (1, 1), (0, 0)):
            engine.process(bytes((kind, value, *bytes(10))), 0)
        found = [engine.objects.register("wide_of").read(index, 0) for index in range(9)]
        assert found == [(1 << 69) - 2, (1 << 69) - 1, *[1 << 69] * 6, 0]
        counted = [engine.objects.counter("seen").counts.get(index, Count(5, 500)) for index in range(3)]
        assert [(count.packets, count.bytes) for count in counted] == [(7, 524), (6, 512), (5, 500)]


@pytest.mark.parametrize("unit", ["packets", "bytes"])
def test_meters_give_the_interpreters_colours(unit: str) -> None:
    engines = both(
        objects=f"meter(8, MeterType.{unit}) limits;",
        ingress="""limits.execute_meter((bit<32>) h.h.value + 2, m.x); h.h.kind = m.x;
                   bit<2> narrow; limits.execute_meter(1, narrow); h.h.sum = (bit<16>) narrow;""",
    )
    for engine in engines:
        meters = engine.objects.meter("limits")
        for index, config in enumerate((*CONFIGS, None)):
            meters.configure(index + 1, config, 0)
    agree(engines, step_ns=STEP_NS)
    for engine in engines:
        meters = engine.objects.meter("limits")
        meters.meters.clear()
        meters.others = CONFIGS[0]
        meters.meters[6] = Meter()
        meters.meters[6].configure(CONFIGS[1], engine.now_ns)
        meters.meters[7] = Meter()
    agree(engines, seed=2, step_ns=40 * STEP_NS)
    traced = [engine.process(bytes((0, 3, *bytes(10))), 0, trace=True, now_ns=1 << 50) for engine in engines]
    assert traced[0] == traced[1]
    agree(engines, seed=3, step_ns=1 << 51)
    for engine in engines:
        meters = engine.objects.meter("limits")
        meters.meters.clear()
        meters.others = CONFIGS[3]
    agree(engines, seed=4, step_ns=STEP_NS)


@pytest.mark.parametrize("unit", ["packets", "bytes"])
def test_direct_meters_mark_what_their_entry_matches(unit: str) -> None:
    engines: Engines = loaded(
        parts=f"direct_meter<bit<8>>(MeterType.{unit}) limit; direct_counter(CounterType.packets) hits;",
        action="limit.read(m.x); hits.count();",
        properties="meters = limit; counters = hits;",
        ingress="m.x = 9; limit.read(m.x); t.apply(); h.h.sum = (bit<16>) m.x;",
        egress="h.h.long = (bit<64>) m.x;",
    )
    for engine in engines:
        for value, config in enumerate((*CONFIGS, None)):
            engine.insert("t", TableEntry((Exact(value),), "go", (value,)))
            engine.row("t", (Exact(value),)).meter.configure(config, 0)
        engine.table("t").default_row().meter.configure(CONFIGS[0], 0)
        engine.set_default("t", "go", (7,))
    agree(engines, step_ns=STEP_NS)
    for engine in engines:
        engine.modify("t", TableEntry((Exact(1),), "NoAction"))
        put_back = engine.table("t").remember((Exact(0),))
        engine.delete("t", (Exact(0),))
        engine.process(bytes(12), 0)
        put_back()
        engine.row("t", (Exact(2),)).meter.configure(CONFIGS[0], engine.now_ns)
    agree(engines, seed=2, step_ns=90 * STEP_NS)
    same_state(engines)
