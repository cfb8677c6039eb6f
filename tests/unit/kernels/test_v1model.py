# SPDX-License-Identifier: Apache-2.0
"""v1model in kernels: ingress and egress, sums, arrays; what the interpreter computes is computed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import MAX_STATES, Engine, Exact, TableEntry

from .v1_programs import agree, both, text_of

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

DATA = "{ h.h.kind, h.h.value, h.h.long, m.x }"


def test_a_packet_goes_through_ingress_and_egress() -> None:
    agree(
        both(
            ingress="""t.apply(); m.x = (bit<8>) s.packet_length + (bit<8>) s.ingress_port;
                       if (s.parser_error == error.StackOutOfBounds) { m.x = 77; s.deq_qdepth = 9; }
                       if (s.parser_error == error.NoError) {
                           h.h.long = (bit<64>) s.ingress_global_timestamp;
                       }""",
            egress="""h.h.value = (bit<8>) s.egress_port + (bit<8>) s.egress_spec + m.x;
                      if (h.h.kind == 3) { mark_to_drop(s); } if (h.h.kind == 1) { h.s.push_front(1); exit; }
                      h.h.sum = (bit<16>) s.egress_global_timestamp;
                      h.h.long = h.h.long + (bit<64>) s.enq_timestamp + (bit<64>) s.deq_qdepth;""",
        )
    )


@pytest.mark.parametrize(
    "algorithm", ["crc32", "crc16", "csum16", "xor16", "identity", "crc32_custom", "random"]
)
def test_sums_are_the_interpreters(algorithm: str) -> None:
    algorithm = f"HashAlgorithm.{algorithm}"
    agree(
        both(
            verify=f"""verify_checksum(h.h.kind == 0, {DATA}, h.h.sum, {algorithm});
                       verify_checksum_with_payload(true, {{ h.h.kind }}, h.h.sum, {algorithm});""",
            ingress=f"""hash(m.wide, {algorithm}, 70w5, {DATA}, 32w1000); h.h.value = (bit<8>) m.wide;
                        hash(m.x, {algorithm}, (bit<8>) s.checksum_error, {{ 3w1, h.h.value }}, h.h.kind);
                        hash(m.wide, {algorithm}, h.h.long, {{ m.x }}, h.h.long);
                        hash(h.h.long, {algorithm}, m.wide, {DATA}, 70w1 << 66);
                        hash(m.wide, {algorithm}, 64w0 - h.h.long, {DATA}, (bit<70>) h.h.long << 2);
                        s.egress_spec = (bit<9>) m.x;""",
            compute=f"""update_checksum(h.h.kind != 1, {DATA}, h.h.sum, {algorithm});
                        update_checksum_with_payload(h.h.kind == 1, {DATA}, h.h.long, {algorithm});""",
        )
    )


def test_an_algorithm_that_is_told_at_run_time_is_the_interpreters() -> None:
    """That of an action's parameter, of a variable, and the one of two that a condition says."""
    names = ("crc32", "crc32_custom", "crc16", "crc16_custom", "random", "identity", "csum16", "xor16")
    chosen = "HashAlgorithm chosen = HashAlgorithm.csum16;" + "".join(
        f"if (h.h.value == {place}) {{ chosen = HashAlgorithm.{name}; }}" for place, name in enumerate(names)
    )
    other = "(m.x == 3 ? HashAlgorithm.crc16 : chosen)"
    agree(
        both(
            parts=f"action sum(HashAlgorithm by) {{ hash(m.wide, by, 70w5, {DATA}, 32w1000); }}",
            ingress=f"""{chosen} sum(chosen); h.h.value = (bit<8>) m.wide; sum(HashAlgorithm.crc16);
                        hash(m.x, {other}, 8w0, {{ h.h.kind }}, 8w200); s.egress_spec = (bit<9>) m.wide;""",
        ),
        packets=200,
    )


@pytest.mark.parametrize("algorithm", ["crc32", "csum16", "identity"])
def test_sums_leave_out_what_is_of_invalid_headers(algorithm: str) -> None:
    """In lists, as wholes, in stacks and unions, at an index, of results; not in what is computed."""
    algorithm = f"HashAlgorithm.{algorithm}"
    data = (
        "{ h.i.d, h.i.p.a, h.j.p, m.x, h.i.c, h.j.d }",
        "{ h.i, 3w5, h.j, h.list, h.either, h.s }",
        "{ h.list[h.h.value[0:0]].c, made(m.x).d, made(m.x), h.either.more.a, (bit<8>) h.i.c }",
    )
    hashed = "".join(
        f"hash(m.wide, {algorithm}, 70w0, {each}, 64w0 - 1); h.h.long = h.h.long ^ (bit<64>) m.wide;"
        for each in data
    )
    agree(
        both(
            types="""struct pair_t { bit<3> a; bit<5> b; } header inner_t { pair_t p; bit<12> c; bit<4> d; }
                     inner_t made(inout bit<8> n) { inner_t v; n = n + 1; if (n[0:0] == 1) { v.setValid(); }
                                                    v.d = (bit<4>) n; return v; }""",
            headers="inner_t i; inner_t j; either_t either; inner_t[2] list;",
            metadata="inner_t kept;",
            verify="verify_checksum(true, { h.h.kind }, h.j.c, HashAlgorithm.csum16);",
            ingress=f"""if (h.h.value[0:0] == 1) {{ h.i.setValid(); h.i = {{ {{ 1, 2 }}, 3, 4 }}; }}
                        if (h.h.value[1:1] == 1) {{ h.j.setValid(); h.j.p.b = 9; h.list[1].setValid(); }}
                        if (h.h.value[2:2] == 1) {{ h.either.more.setValid(); h.either.more.a = 0x234567; }}
                        {hashed} m.kept = h.j; h.h.kind = m.x;
                        s.egress_spec = (bit<9>) s.checksum_error;""",
            compute=f"""update_checksum(true, {{ m.kept.c, h.h.kind, h.s[0].a }}, h.h.sum, {algorithm});
                        update_checksum(true, {{ h.h.kind }}, h.i.c, HashAlgorithm.csum16);""",
        ),
        packets=80,
    )


def test_arrays_are_the_interpreters() -> None:
    agree(
        both(
            ingress="""wide_of.read(m.wide, (bit<32>) h.h.value + 6);
                       m.wide = m.wide + 70w0x3fffffffffffffffff;
                       wide_of.write((bit<32>) h.h.value, m.wide); wide_of.write(0xffffffff, 1);
                       int<9> n; signed_of.read(n, (bit<32>) h.h.kind); n = n - 100;
                       signed_of.write((bit<32>) h.h.kind, n); h.h.value = (bit<8>) (bit<9>) n;
                       seen.count((bit<32>) h.h.kind + 2);""",
        )
    )


@pytest.mark.parametrize("verify", ["exit;", "return;", "if (h.h.kind == 1) exit; else return;"])
@pytest.mark.parametrize(
    "ingress", ["t.apply(); h.h.value = 7;", "exit;", "if (h.h.kind == 2) exit; t.apply();"]
)
def test_an_exit_ends_the_control_that_it_stands_in_alone(verify: str, ingress: str) -> None:
    agree(both(verify=verify, ingress=ingress))


def test_a_failed_assertion_drops() -> None:
    agree(both(ingress="assert(h.h.kind != 1);", egress="assume(h.h.value != 2);"))
    agree(both(verify="assume(h.h.kind != 1);", compute="assert(h.h.value != 2);"))


def test_traced_packets_and_others_work_on_the_same_registers() -> None:
    _, fast = both(ingress="wide_of.read(m.wide, 1); wide_of.write(1, m.wide + 1); seen.count(0);")
    for trace in (False, True, False, True):
        fast.process(bytes(12), 0, trace=trace)
    assert fast.objects.register("wide_of").values[1] == 4
    assert fast.objects.counter("seen").counts[0].packets == 4
    assert len(fast.objects.register("wide_of").values) == 1


@pytest.mark.parametrize(
    ("ingress", "because"),
    [
        ("int<8> n = 4; hash(m.x, HashAlgorithm.crc16, 8w0, { m.x }, n);", "it hashes up to a signed number"),
    ],
)
def test_what_needs_the_interpreter_says_so(ingress: str, because: str) -> None:
    engine = CompiledEngine(optimised=False)
    engine.load(compile_text(text_of(ingress=ingress)).program)
    assert engine.interpreted_because == because


@given(st.integers(0, 1 << 32))
def test_any_packets_do_the_same_to_both(seed: int) -> None:
    agree(_ENGINES[0], seed, 10)


_ENGINES: list[tuple[Engine, CompiledEngine]] = []


@pytest.fixture(autouse=True, scope="module")
def _engines() -> None:
    if JIT:
        _ENGINES.append(
            both(
                ingress="t.apply(); seen.count((bit<32>) h.h.value);",
                egress="h.s[0].setInvalid(); h.h.long = h.h.long |-| 5;",
                compute=f"update_checksum(true, {DATA}, h.h.sum, HashAlgorithm.csum16);",
            )
        )


@pytest.mark.parametrize(
    ("name", "parts", "ingress"),
    [
        ("metadata", "bit<32> x;", "m.x = 5; x = 77; h.h.value = m.x; h.h.long = (bit<64>) x;"),
        ("headers", "more_t extra;", "extra.setValid(); extra.a = 7; m.x = (bit<8>) extra.a;"),
        (
            "standard_metadata",
            "bit<9> egress_spec;",
            "s.egress_spec = 1; egress_spec = 9; h.h.sum = (bit<16>) egress_spec;",
        ),
        (
            "I",
            "action put(in bit<9> port) { h.h.sum = (bit<16>) port; }",
            "{ port_t put; put.port = 66; s.egress_spec = put.port; } put(9);",
        ),
        ("I", "", "{ port_t go; go.port = 66; t.apply(); h.h.sum = (bit<16>) go.port; }"),
    ],
)
def test_a_name_with_a_dot_is_no_variable_with_a_field(name: str, parts: str, ingress: str) -> None:
    """Such as the x of a control called metadata, beside the x of the metadata."""
    text = text_of(
        parts=parts, ingress=ingress, headers="more_t extra;", types="struct port_t { bit<9> port; }"
    )
    text = text.replace("control I(", f"control {name}(").replace(" I(), E()", f" {name}(), E()")
    program = compile_text(text).program
    engines = Engine(), CompiledEngine(optimised=False)
    for engine in engines:
        engine.load(program)
        engine.insert("t", TableEntry((Exact(3),), "go", (9,)))
    agree(engines)


@pytest.mark.parametrize(
    ("states", "port"), [(MAX_STATES - 1, 3), (MAX_STATES, 3), (MAX_STATES + 1, 2), (1 << 20, 2)]
)
def test_a_parser_that_rejects_at_its_last_state_is_not_stuck(states: int, port: int) -> None:
    """So many states may be passed; behind them a parser is stuck."""
    turning = f"""state known {{
        m.wide = m.wide + 1; transition select(m.wide) {{ {states - 1}: reject; _: known; }} }}"""
    text = text_of(
        parser="",
        ingress="""s.egress_spec = 1;
            if (s.parser_error == error.ParserTimeout) { s.egress_spec = 2; }
            if (s.parser_error == error.NoError) { s.egress_spec = 3; }""",
    )
    start, behind = text.index("state known"), text.index("state more")
    program = compile_text(text[:start] + turning + text[behind:]).program
    for engine in (Engine(), CompiledEngine(optimised=False)):
        engine.load(program)
        assert engine.process(bytes(12), 0).port == port, type(engine)


def test_a_parser_may_take_each_byte_of_the_longest_frame_by_itself() -> None:
    """As simple_switch does: there is no end to the states that a packet passes there."""
    turning = """state known { m.wide = m.wide + 1; b.advance(8); transition further; }
        state further { transition select(m.wide) { 9204: accept; _: known; } }"""
    text = text_of(ingress="s.egress_spec = 1; if (s.parser_error == error.NoError) { s.egress_spec = 3; }")
    start, behind = text.index("state known"), text.index("state more")
    program = compile_text(text[:start] + turning + text[behind:]).program
    for engine in (Engine(), CompiledEngine(optimised=False)):
        engine.load(program)
        assert engine.process(bytes(9216), 0).port == 3, type(engine)


def test_a_program_that_llvm_refuses_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("expected type\n%1 = ")

    program = compile_text(text_of(ingress="s.egress_spec = 3;")).program
    monkeypatch.setattr("nicemu.kernels.loaded.Kernel", refuse)
    engine = CompiledEngine()
    engine.load(program)
    assert engine.interpreted_because == "LLVM does not take it: expected type"
    assert engine.process(bytes(12), 0).port == 3
