# SPDX-License-Identifier: Apache-2.0
"""What a script means: what passes, and what does not and why. The switch sends to port 0 by itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.hot import JIT
from nicemu.p4 import compile_text
from nicemu.stf import parse_script, run_script

KERNELS = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

# Packets


@pytest.mark.parametrize(
    ("expected", "passes"),
    [
        ("01 02 03", True),
        ("0102", True),  # without $ more may follow
        ("0102 $", False),
        ("010203$", True),
        ("01*2**", True),  # * is one digit
        ("0*2*3", False),
        ("0102030", False),
        ("01020304", False),  # fewer bytes never do
        ("0A", False),
        ("", True),
        ("$", False),
    ],
)
def test_an_expectation_is_a_prefix_unless_it_ends_in_a_dollar(
    stf: SimpleNamespace, expected: str, passes: bool
) -> None:
    report = stf.run(f"packet 0 01 02 03\nexpect 0 {expected}")
    assert report.passed is passes
    assert (report.packets_in, report.packets_out) == (1, 1)


def test_hexadecimal_digits_are_large_or_small(stf: SimpleNamespace) -> None:
    assert stf.run("packet 0 aB Cd\nexpect 0 Ab cD$").passed


TO_PORT_A = {"ingress": "s.egress_spec = (bit<9>) h.h.a;"}


def test_packets_are_compared_in_order_at_each_port_and_not_between_ports(stf: SimpleNamespace) -> None:
    script = "packet 9 01 aa\npacket 9 02 bb\npacket 9 01 cc\n"
    assert stf.run(script + "expect 2 02bb\nexpect 1 01aa\nexpect 1 01cc", **TO_PORT_A).passed
    assert stf.failures(script + "expect 2 02bb\nexpect 1 01cc\nexpect 1 01aa", **TO_PORT_A) == [
        "packet 1 of port 1, of line 1, differs",
        "packet 2 of port 1, of line 3, differs",
    ]


def test_expectations_may_stand_before_their_packets(stf: SimpleNamespace) -> None:
    assert stf.run("expect 0 01\npacket 0 01 02").passed


def test_as_many_packets_leave_as_are_expected(stf: SimpleNamespace) -> None:
    assert stf.failures("packet 0 0102\nexpect 0\nexpect 0") == ["1 packet left by port 0; 2 should have"]
    assert stf.failures("packet 0 0102\npacket 0 0304\nexpect 0") == [
        "a packet has left by port 0 that nothing expects"
    ]


def test_a_port_that_only_sends_packets_is_looked_at_too(stf: SimpleNamespace) -> None:
    assert stf.failures("packet 1 01 02", **TO_PORT_A) == ["a packet has left by port 1 that nothing expects"]


def test_a_packet_comes_in_on_a_port_that_the_architecture_can_name(stf: SimpleNamespace) -> None:
    report = stf.run("packet 511 0102\npacket 512 0102")
    (failure,) = report.failures
    assert failure.diagnostic.message == "port 512; the program has ports 0 to 511"
    assert failure.diagnostic.line == 2


def test_a_port_that_nothing_names_is_not_looked_at(stf: SimpleNamespace) -> None:
    assert stf.run("packet 0 01 02", **TO_PORT_A).passed


def test_no_packet_looks_at_every_port_up_to_its_line(stf: SimpleNamespace) -> None:
    assert stf.failures("packet 0 01 02\nno_packet", **TO_PORT_A) == [
        "a packet has left by port 1 that nothing above expects"
    ]
    assert stf.run("packet 0 01 02\nexpect 1\nno_packet\npacket 0 02 02\nexpect 2", **TO_PORT_A).passed
    assert not stf.run("packet 0 01 02\nno_packet\nexpect 1", **TO_PORT_A).passed
    assert stf.run("packet 0 01 02\nno_packet", ingress="mark_to_drop(s);").passed


def test_a_missing_packet_comes_with_what_became_of_those_that_came_in(stf: SimpleNamespace) -> None:
    (failure,) = stf.run("packet 3 01 02\nexpect 3", ingress="mark_to_drop(s);").failures
    assert failure.diagnostic.line == 2
    assert failure.detail == "packet of line 1: dropped (pipeline.dropped)"


def test_a_difference_is_shown_byte_by_byte_and_field_by_field(stf: SimpleNamespace) -> None:
    (failure,) = stf.run("packet 0 ee02 1abc 2def 99\nexpect 0 ee03 1*bd 2d*f").failures
    assert failure.render().splitlines() == [
        "script.stf:2:1: error: packet 1 of port 0, of line 1, differs",
        "    expect 0 ee03 1*bd 2d*f",
        "    ^~~~~~",
        "    byte 0     expected  ee 03 1* bd 2d *f",
        "               seen      ee 02 1a bc 2d ef 99",
        "                             ^     ^",
        "    h.b: expected 0x03, seen 0x02",
        "    ns[0].y: expected 0x*bd, seen 0xabc",
    ]


def test_a_wrong_length_is_told(stf: SimpleNamespace) -> None:
    (failure,) = stf.run("packet 0 0102 03\nexpect 0 0102$").failures
    assert failure.detail == "3 bytes left; 2 and no more were expected: 03 behind"
    (failure,) = stf.run("packet 0 0102\nexpect 0 010203").failures
    assert failure.detail == "2 bytes left; 3 were expected at least"


# Tables


@pytest.mark.parametrize("name", ["I.t", "t"])
def test_a_table_goes_by_its_name_or_by_a_unique_end_of_it(stf: SimpleNamespace, name: str) -> None:
    assert not stf.with_keys("h.h.a: exact;")(f"add {name} h.h.a:1 send(port:5)\npacket 0 0102\nexpect 5")


def test_an_end_of_a_name_has_to_be_unique(stf: SimpleNamespace) -> None:
    tables = "table {} {{ key = {{ h.h.a: exact; }} actions = {{ send; }} }}"
    parts = tables.format("one_t") + tables.format("two_t")
    pieces = {"parts": parts, "ingress": "one_t.apply(); two_t.apply();"}
    assert stf.run("add one_t a:1 send(port:5)\npacket 0 0102\nexpect 5", **pieces).passed
    assert stf.failures("add _t a:1 send(port:5)", **pieces) == [
        "table _t is one of I.one_t, I.two_t; write more of its name"
    ]


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("h.h.a: exact", ["h.h.a", "h.a", "a"]),
        ('h.ns[1].x: exact @name("h.ns[1].x")', ["h.ns[1].x", "h.ns$1.x", "ns$1.x", "x"]),
        ("h.h.isValid(): exact", ["h.h.$valid$", "h.h.$valid", "h.h.valid", "h.h"]),
        ('h.h.a + 1: exact @name("sum")', ["sum"]),
    ],
)
def test_a_key_goes_by_its_name_and_what_bmv2_calls_it(
    stf: SimpleNamespace, key: str, names: list[str]
) -> None:
    run = stf.with_keys(f"{key};")
    for name in names:
        assert not run(
            f"add t {name}:1 send(port:5)\nadd t {name}:0 send(port:5)\npacket 0 0002\nexpect 5"
        ), name


@pytest.mark.parametrize(
    ("kind", "value", "matching", "others"),
    [
        ("exact", "0x1f", [0x1F], [0x1E, 0]),
        ("exact", "31", [0x1F], [0x1E, 0]),
        ("exact", "0b11111", [0x1F], [0x1E, 0]),
        ("exact", "0o37", [0x1F], [0x1E, 0]),
        ("exact", "", [0], [1, 0xFF]),  # left out: 0
        ("lpm", "0x10/4", [0x10, 0x1F], [0x20, 0]),
        ("lpm", "0x1f/4", [0x10, 0x1F], [0x20, 0]),
        ("lpm", "0x1*", [0x10, 0x1F], [0x20, 0]),
        ("lpm", "0x12", [0x12], [0x13]),
        ("lpm", "18", [0x12], [0x13]),
        ("lpm", "0b001*****", [0x20, 0x3F], [0x40]),
        ("lpm", "0x**", [0, 0xFF], []),
        ("lpm", "*", [0, 0xFF], []),
        ("lpm", "", [0, 0xFF], []),
        ("ternary", "0x1*", [0x10, 0x1F], [0x20]),
        ("ternary", "0x*1", [0x11, 0xF1], [0x10]),
        ("ternary", "0x1", [0x11, 0xF1], [0x10]),  # a digit that is not written is open
        ("ternary", "0b1***0000", [0x80, 0xF0], [0x81, 0x70]),
        ("ternary", "18", [0x12], [0x13]),
        ("ternary", "0x12&&&0x0f", [0x12, 0xF2], [0x13]),
        ("ternary", "0x10/4", [0x10, 0x1F], [0x20]),
        ("ternary", "", [0, 0xFF], []),
        ("range", "0x10..0x20", [0x10, 0x18, 0x20], [0x0F, 0x21]),
        ("range", "16", [0x10], [0x0F, 0x11]),
        ("range", "*", [0, 0xFF], []),
        ("range", "", [0, 0xFF], []),
        ("optional", "16", [0x10], [0x0F]),
        ("optional", "*", [0, 0xFF], []),
        ("optional", "", [0, 0xFF], []),
    ],
)
def test_a_value_means_for_each_kind_what_it_says(
    stf: SimpleNamespace, kind: str, value: str, matching: list[int], others: list[int]
) -> None:
    key = f"h.h.a:{value}" if value else ""
    script = [f"add t 1 {key} send(port:5)"]
    for number in (*matching, *others):
        script += [f"packet 0 {number:02x}01"]
    script += [f"expect 5 {number:02x}01" for number in matching]
    assert stf.with_keys(f"h.h.a: {kind};")("\n".join([*script, "no_packet"])) == []


@pytest.mark.parametrize(
    ("kind", "value", "matching", "others"),
    [
        ("exact", "-5", [251], [5]),
        ("exact", "251", [251], [5]),
        ("lpm", "-5", [251], [250, 5]),
        ("lpm", "-16/4", [0xF0, 0xFF], [0xE0, 0]),
        ("ternary", "-0x5", [251], [250, 5]),
        ("ternary", "-16&&&-16", [0xF0, 0xFF], [0xE0]),
        ("range", "-5..-1", [251, 255], [250, 0]),
        ("range", "-5..255", [251, 255], [250, 0]),
        ("optional", "-128", [128], [127]),
    ],
)
def test_a_value_of_a_signed_key_may_have_a_minus(
    stf: SimpleNamespace, kind: str, value: str, matching: list[int], others: list[int]
) -> None:
    script = [f"add t 1 m.i:{value} add_to_b(value:-1)"]
    script += [f"packet 0 {number:02x}01" for number in (*matching, *others)]
    script += [f"expect 5 {number:02x}00" for number in matching]
    pieces = {"parts": stf.table(f"m.i: {kind};"), "ingress": "m.i = (int<8>) h.h.a; t.apply();"}
    assert stf.failures("\n".join([*script, "no_packet"]), **pieces) == []


@pytest.mark.parametrize(
    ("kind", "value", "matching", "others"),
    [
        ("exact", "10.0.0.7", [7], [8]),
        ("lpm", "10.0.0.16/28", [16, 31], [32]),
        ("lpm", "10.0.0.7", [7], [6]),
        ("ternary", "10.0.0.7", [7], [6]),
        ("ternary", "0.0.0.1&&&0.0.0.1", [1, 3], [2]),
        ("range", "10.0.0.5..10.0.0.7", [5, 7], [4, 8]),
    ],
)
def test_a_value_of_32_bits_may_be_an_address(
    stf: SimpleNamespace, kind: str, value: str, matching: list[int], others: list[int]
) -> None:
    script = [f"add t 1 m.ip:{value} send(port:5)"]
    script += [f"packet 0 {number:02x}01" for number in (*matching, *others)]
    script += [f"expect 5 {number:02x}01" for number in matching]
    pieces = {
        "parts": stf.table(f"m.ip: {kind};"),
        "ingress": "m.ip = 0x0a000000 + (bit<32>) h.h.a; t.apply();",
    }
    assert stf.failures("\n".join([*script, "no_packet"]), **pieces) == []


def test_an_address_is_of_32_bits(stf: SimpleNamespace) -> None:
    told = stf.with_keys("h.h.a: exact;")("add t h.h.a:10.0.0.1 send(port:1)")
    assert told == ["10.0.0.1 is an address of 32 bits; key h.h.a is bit<8>"]


@pytest.mark.parametrize(
    ("kind", "key", "message"),
    [
        ("exact", "m.i:-129", "-129 does not fit key m.i, which is int<8>"),
        ("ternary", "m.i:0x100", "0x100 does not fit key m.i, which is int<8>"),
        ("range", "m.i:-5..5", "the range of key m.i passes 0"),
        ("range", "m.i:5..-5", "the range of key m.i is empty"),
        ("exact", "m.i:1 add_to_b(value:-129)", "-129 does not fit parameter value, which is int<8>"),
    ],
)
def test_a_number_that_a_signed_type_does_not_have_is_refused(
    stf: SimpleNamespace, kind: str, key: str, message: str
) -> None:
    pieces = {"parts": stf.table(f"m.i: {kind};"), "ingress": "t.apply();"}
    action = "" if "(" in key else " send(port:1)"
    assert stf.failures(f"add t 1 {key}{action}", **pieces) == [message]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("exact", "-1", "-1 does not fit key h.h.a, which is bit<8>"),
        ("exact", "0x1*", "key h.h.a is exact; no digit of 0x1* can be open"),
        ("exact", "*", "key h.h.a is exact; no digit of * can be open"),
        ("exact", "256", "256 does not fit key h.h.a, which is bit<8>"),
        ("exact", "1..2", "key h.h.a is exact; .. cannot stand in it"),
        ("lpm", "0x1/9", "key h.h.a is bit<8>; 9 is too long"),
        ("lpm", "0x*1", "key h.h.a is lpm; * can only stand at the end of 0x*1"),
        ("lpm", "0x1", "0x1 means a prefix of 4 bits, as many as its digits have; key h.h.a has 8, and the "
         "value has bits set behind them"),
        ("lpm", "0x100", "0x100 does not fit key h.h.a, which is bit<8>"),
        ("ternary", "0x1*0", "0x1*0 does not fit key h.h.a, which is bit<8>"),
        ("ternary", "1..2", "key h.h.a is ternary; .. cannot stand in it"),
        ("range", "9..1", "the range of key h.h.a is empty"),
        ("range", "0x1*", "key h.h.a is range; no digit of 0x1* can be open"),
        ("optional", "0x1*", "key h.h.a is optional; no digit of 0x1* can be open"),
    ],
)  # fmt: skip
def test_a_value_that_its_kind_cannot_take_is_refused(
    stf: SimpleNamespace, kind: str, value: str, message: str
) -> None:
    assert stf.with_keys(f"h.h.a: {kind};")(f"add t 1 h.h.a:{value} send(port:5)") == [message]


def test_the_larger_priority_wins_and_none_is_the_least(stf: SimpleNamespace) -> None:
    run = stf.with_keys("h.h.a: ternary; h.h.b: ternary;")
    low, high, none = (
        "add t 10 a:0x01 send(port:5)\n",
        "add t 20 b:0x02 send(port:6)\n",
        "add t send(port:7)\n",
    )
    for order in (low + high + none, none + high + low, high + none + low):
        assert not run(order + "packet 0 0102\nexpect 6\npacket 0 0103\nexpect 5\npacket 0 0303\nexpect 7")


def test_priority_0_is_above_none_at_all_in_no_table_but_is_taken(stf: SimpleNamespace) -> None:
    assert not stf.with_keys("h.h.a: ternary;")("add t 0 a:0x01 send(port:5)\npacket 0 0102\nexpect 5")
    assert not stf.with_keys("h.h.a: exact;")("add t 7 a:0x01 send(port:5)\npacket 0 0102\nexpect 5")


def test_the_program_s_own_entries_can_be_matched_beside_added_ones(stf: SimpleNamespace) -> None:
    parts = """table t { key = { h.h.a: exact; } actions = { send; drop; } default_action = drop;
                         entries = { 1: send(5); } }"""
    script = "add t a:2 send(port:6)\npacket 0 0102\npacket 0 0202\nexpect 5\nexpect 6\n"
    assert stf.run(script, parts=parts, ingress="t.apply();").passed
    assert stf.failures(
        "add t a:2 send(port:6)", parts=parts.replace("entries", "const entries"), ingress="t.apply();"
    ) == ["table I.t: its entries are const in the program"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("add u a:1 send(port:1)", "there is no table u"),
        ("add t c:1 send(port:1)", "there is no key c"),
        ("add t a:1 a:2 send(port:1)", "key h.h.a is given twice"),
        ("add t a:1 sent(port:1)", "there is no action sent"),
        ("add t a:1 send()", "action I.send lacks port"),
        ("add t a:1 send(porto:1)", "there is no parameter of I.send porto"),
        ("add t a:1 send(port:1, port:2)", "parameter port is given twice"),
        ("add t a:1 send(port:512)", "512 does not fit parameter port, which is bit<9>"),
        ("add t a:1 NoAction()", "there is no action NoAction"),
        ("setdefault u send(port:1)", "there is no table u"),
    ],
)
def test_a_name_that_the_program_has_not_is_pointed_at(stf: SimpleNamespace, line: str, message: str) -> None:
    assert stf.with_keys("h.h.a: exact;")(f"{line}\npacket 0 00\nexpect 3") == [message]


def test_setdefault_chooses_what_a_miss_runs(stf: SimpleNamespace) -> None:
    script = "packet 0 0102\nsetdefault t mark(value:9, port:0)\npacket 0 0102\nexpect 0 0109"
    assert stf.with_keys("h.h.a: exact;")(script) == []


def test_remove_all_takes_every_entry_away(stf: SimpleNamespace) -> None:
    script = "add t a:1 send(port:0)\npacket 0 0102\nremove all\npacket 0 0102\nexpect 0\nno_packet"
    assert stf.with_keys("h.h.a: exact;")(script) == []


def test_remove_all_leaves_an_entry_that_is_const(stf: SimpleNamespace) -> None:
    parts = """table t { key = { h.h.a: exact; } actions = { send; drop; } default_action = drop;
                         entries = { const 1: send(0); 2: send(0); } }"""
    script = "remove all\npacket 0 01 02\npacket 0 02 02\nexpect 0 01"
    assert stf.failures(script, parts=parts, ingress="t.apply();") == []


# Extern objects

COUNTER = {
    "parts": "counter(4, CounterType.packets_and_bytes) c; register<bit<8>>(4) r;",
    "ingress": "c.count((bit<32>) h.h.a); bit<8> v; r.read(v, 0); r.write(0, v + h.h.b);",
}


@pytest.mark.parametrize(
    ("check", "passes"),
    [
        ("c(1) packets == 2", True),
        ("c(1) packets == 1", False),
        ("I.c(1) bytes == 5", True),
        ("c(1) bytes == 4", False),
        ("c(1) packets != 2", False),
        ("c(1) packets < 3", True),
        ("c(1) packets < 2", False),
        ("c(1) packets <= 2", True),
        ("c(1) packets > 2", False),
        ("c(1) packets >= 2", True),
        ("c(0) packets == 0", True),
        ("c(0)", True),
        ("c(4)", False),
        ("d(0)", False),
    ],
)
def test_counters_are_really_checked(stf: SimpleNamespace, check: str, passes: bool) -> None:
    script = f"packet 0 0102\npacket 0 010203\nexpect 0\nexpect 0\ncheck_counter {check}"
    assert stf.run(script, **COUNTER).passed is passes


def test_a_counter_that_is_wrong_says_what_it_has(stf: SimpleNamespace) -> None:
    assert stf.failures("check_counter c(1) packets > 2", **COUNTER) == [
        "counter c(1) has 0 packets; > 2 was expected"
    ]


def test_an_entry_with_a_name_counts_its_packets_and_bytes(stf: SimpleNamespace) -> None:
    run = stf.with_keys("h.h.a: exact;")
    script = "add t a:1 send(port:0) = $E\npacket 0 0102\nexpect 0\n"
    assert run(script + "check_counter t($E) packets == 1") == []
    assert run(script + "check_counter t($E) packets == 2") == [
        "counter t($E) has 1 packet; == 2 was expected"
    ]
    assert run(script + "check_counter t($F)") == ["no entry is called $F"]
    assert run(script + "check_counter u($E)") == ["there is no table or direct counter of this entry u"]
    assert run(script + "check_counter t($E) bytes == 2") == []
    assert run(script + "check_counter t($E) bytes > 2") == ["counter t($E) has 2 bytes; > 2 was expected"]


def test_the_name_of_an_entry_may_look_like_a_number(stf: SimpleNamespace) -> None:
    assert stf.failures('check_counter c("1st")', **COUNTER) == ["no entry is called 1st"]


def test_counters_are_written_and_noted(stf: SimpleNamespace) -> None:
    script = "counter_write c 1 7 70\ncheck_counter c(1) packets == 7\ncounter_read c 1"
    report = stf.run(script, **COUNTER)
    assert report.passed
    assert [note.text for note in report.notes] == ["I.c[1]: 7 packets, 70 bytes"]


@pytest.mark.parametrize(("check", "passes"), [("== 7", True), ("== 8", False), ("< 7", False)])
def test_registers_are_really_checked(stf: SimpleNamespace, check: str, passes: bool) -> None:
    script = f"register_write r 0 5\npacket 0 0102\nexpect 0\nregister_read r 0 {check}"
    assert stf.run(script, **COUNTER).passed is passes


@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=KERNELS)])
def test_what_a_register_holds_is_noted_place_by_place(stf: SimpleNamespace, kernel: bool) -> None:
    script = "register_write r 3 5\nregister_write r 1 6\nregister_read r"
    report = stf.run(script, kernel=kernel, **COUNTER)
    assert [note.text for note in report.notes] == ["I.r: {1: 6, 3: 5}"]


@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=KERNELS)])
def test_a_register_of_structs_is_noted_with_its_fields_and_compared_with_no_number(
    stf: SimpleNamespace, kernel: bool
) -> None:
    parts = {"parts": "register<metadata_t>(4) r;", "ingress": "r.write(2, { -2, 0xab });"}
    script = "packet 0 0102\nexpect 0\nregister_read r 2\nregister_read r 1\nregister_read r"
    notes = [note.text for note in stf.run(script, kernel=kernel, **parts).notes]
    held, zero = "{i=-2, ip=0xab}", "{i=0x0, ip=0x0}"
    assert notes == [f"I.r[2]: {held}", f"I.r[1]: {zero}", f"I.r: {{2: {held}}}"]
    assert "holds no numbers" in stf.failures("register_read r 1 == 0", **parts)[0]


@pytest.mark.parametrize("written", ["-3", "65533", "0xfffd"])
@pytest.mark.parametrize("check", ["== -3", "== 0xfffd", "== 65533", "< 0", "< 0x7fff", "< 70000"])
def test_a_signed_register_takes_numbers_with_their_sign_or_as_bits(
    stf: SimpleNamespace, written: str, check: str
) -> None:
    parts = "register<int<16>>(4) r;"
    assert stf.failures(f"register_write r 2 {written}\nregister_read r 2 {check}", parts=parts) == []


def test_registers_are_reset_and_noted(stf: SimpleNamespace) -> None:
    report = stf.run(
        "register_write r 3 5\nregister_read r 3\nregister_reset r\nregister_read r 3", **COUNTER
    )
    assert report.passed
    assert [note.text for note in report.notes] == ["I.r[3]: 5", "I.r[3]: 0"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("register_write r 4 1", "I.r has 4 places; there is no place 4"),
        ("register_write r 0 256", "256 does not fit register I.r of bit<8>"),
        ("register_write r 0 -1", "-1 does not fit register I.r of bit<8>"),
        ("register_write q 0 1", "there is no object q"),
        ("counter_read r 0", "I.r is a register, no counter"),
    ],
)
def test_an_object_that_is_not_there_is_pointed_at(stf: SimpleNamespace, line: str, message: str) -> None:
    assert stf.failures(line, **COUNTER) == [message]


@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=KERNELS)])
def test_a_count_goes_on_from_0_behind_its_largest(stf: SimpleNamespace, kernel: bool) -> None:
    most = (1 << 64) - 1
    script = f"counter_write c 0 {most} {most}\npacket 0 0002\nexpect 0\ncounter_read c 0"
    parts = {"parts": "counter(2, CounterType.packets_and_bytes) c;", "ingress": "c.count(0);"}
    report = stf.run(script, kernel=kernel, **parts)
    assert [note.text for note in report.notes] == ["I.c[0]: 0 packets, 1 byte"]
    assert "0xffffffffffffffff is the largest" in stf.failures(f"counter_write c 0 {most + 1} 0", **parts)[0]


METER = {
    "parts": "meter(2, MeterType.packets) rates;",
    "ingress": "bit<8> colour; rates.execute_meter((bit<32>) h.h.a, colour); h.h.b = colour;",
}


def test_a_peak_rate_is_not_less_than_the_committed_one(stf: SimpleNamespace) -> None:
    (message,) = stf.failures("meter_set_rates rates 1 2:1 1.5:2", **METER)
    assert message == "the peak rate, 1.5, is less than the committed rate, 2"


def test_meters_have_rates_for_each_microsecond_and_wait_lets_time_pass(stf: SimpleNamespace) -> None:
    script = """
        meter_set_rates rates 1 0.000001:1 0.000001:2
        meter_get_rates rates 1
        packet 0 0100
        packet 0 0100
        packet 0 0100
        wait
        packet 0 0100
        expect 0 0100
        expect 0 0101
        expect 0 0102
        expect 0 0100
    """
    report = stf.run(script, **METER)
    assert report.passed
    assert [note.text for note in report.notes] == ["I.rates[1]: 1e-06:1 1e-06:2"]


def test_every_meter_of_an_array_can_be_set_at_once(stf: SimpleNamespace) -> None:
    script = "meter_array_set_rates rates 0:0 0:0\npacket 0 0000\npacket 0 0100\nexpect 0 0002\nexpect 0 0102"
    assert stf.run(script, **METER).passed


# Replication

GROUP = {"ingress": "s.mcast_grp = 3;", "egress": "h.h.b = (bit<8>) s.egress_rid;"}


def test_a_packet_goes_to_every_node_of_its_multicast_group(stf: SimpleNamespace) -> None:
    script = """
        mc_mgrp_create 3
        mc_node_create 10 1 2 1
        mc_node_create 11 2
        mc_node_associate 3 0
        mc_node_associate 3 1
        packet 0 0100
        expect 1 010a
        expect 2 010a
        expect 2 010b
        mc_node_update 1 4
        packet 0 0200
        expect 1 020a
        expect 2 020a
        expect 4 020b
        no_packet
    """
    assert stf.failures(script, **GROUP) == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("mc_node_create 1 1\nmc_node_associate 3 0", "there is no multicast group 3"),
        ("mc_mgrp_create 3\nmc_node_associate 3 0", "there is no node 0; 0 were created, numbered from 0"),
        ("mc_node_update 2 1", "there is no node 2; 0 were created, numbered from 0"),
        ("mc_mgrp_create 3\nmc_mgrp_create 3", "multicast group 3 is there already"),
        ("mirroring_delete 5", "there is no session 5"),
        ("mirroring_add 5 600", "there can be no port 600; 0 to 511 was expected"),
        ("mirroring_add 70000 1", "there can be no session 70000; 0 to 65535 was expected"),
        ("mirroring_add_mc 5 0", "there can be no multicast group 0; 1 to 65535 was expected"),
        ("mc_mgrp_create 0", "there can be no multicast group 0; 1 to 65535 was expected"),
        ("mc_mgrp_create 70000", "there can be no multicast group 70000; 1 to 65535 was expected"),
        ("mc_node_create 1 600 9", "there can be no port 600; 0 to 511 was expected"),
        ("mirroring_get 5", "there is no session 5"),
    ],
)
def test_what_was_not_created_cannot_be_used(stf: SimpleNamespace, script: str, message: str) -> None:
    assert stf.failures(script) == [message]


CLONE = {"ingress": "clone(CloneType.I2E, 5);", "egress": "h.h.b = (bit<8>) s.instance_type;"}


def test_a_clone_goes_where_its_session_says(stf: SimpleNamespace) -> None:
    script = """
        mirroring_add 5 7
        mirroring_get 5
        packet 0 0100
        expect 7 0101
        expect 0 0100
        mirroring_delete 5
        packet 0 0200
        expect 0 0200
        no_packet
    """
    report = stf.run(script, **CLONE)
    assert report.passed
    assert [note.text for note in report.notes] == ["session 5: port 7"]


def test_a_session_of_a_group_follows_the_group(stf: SimpleNamespace) -> None:
    script = """
        mirroring_add_mc 5 3
        mc_mgrp_create 3
        mc_node_create 0 8 9
        mc_node_associate 3 0
        packet 0 0100
        expect 0 0100
        expect 8 0101
        expect 9 0101
        no_packet
    """
    assert stf.failures(script, **CLONE) == []


# The rest


def test_a_trace_stands_at_the_line_of_its_packet(stf: SimpleNamespace) -> None:
    (note,) = stf.run("# one\npacket 0 0102\nexpect 0", trace=True).notes
    assert note.location.line == 2
    assert note.text.splitlines()[0] == "ingress, port 0, 2 bytes"
    assert note.text.splitlines()[-1] == "out: port 0, 01 02"


def test_the_same_script_gives_the_same_report(stf: SimpleNamespace) -> None:
    ingress = "bit<8> v; random(v, 0, 255); h.h.b = v;"
    seen = {stf.run("packet 0 0102\nexpect 0 ffff", ingress=ingress).failures[0].detail for _ in range(3)}
    assert len(seen) == 1


NIC = """
#include <core.p4>
#include <nicemu.p4>
header h_t { bit<8> a; }
struct headers_t { h_t h; } struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout nic_metadata_t n) {
    state start { b.extract(h.h); transition accept; }
}
control C(inout headers_t h, inout metadata_t m, inout nic_metadata_t n) {
    apply { if (h.h.a == 1) { drop_packet(); } if (h.h.a == 2) { send_to_port(9); } }
}
control D(packet_out b, in headers_t h, in metadata_t m, in nic_metadata_t n) { apply { b.emit(h); } }
SmartNic(P(), C(), D()) main;
"""


def test_the_host_of_a_smart_nic_or_its_controller_is_behind_port_510() -> None:
    script = "packet 0 0007\nexpect 510 0007\npacket 0 01\npacket 0 02\nexpect 9 02\npacket 0\nno_packet"
    for text in (NIC, NIC.replace("header h", '@controller_header("packet_in") header h', 1)):
        assert run_script(compile_text(text).program, parse_script(script)).passed
