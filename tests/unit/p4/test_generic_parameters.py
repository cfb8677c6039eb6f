# SPDX-License-Identifier: Apache-2.0
"""What type arguments make of the parameters of something generic is refused where that is used.

Source: P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out", "Functions",
"Type specialization", "Direct type invocation".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.p4 import compile_text
from nicemu.pipeline import Engine

TOP = """
control Read<T>(in T x) { apply { } }
control Known<T>(T x) { apply { } }
control Made<T>(inout T r)(T x) { apply { } }
control V() { apply { } }
void given<T>(out T x) { }
void read<T>(in T x) { }
T same<T>() { T x; return x; }
extern T found<T>();
extern void asked<T>(out T x);
extern Kept<T> { Kept(); T get(); void put(out T x); }
"""
TABLE = "table t { actions = { NoAction; } }"
KNOWN = "int as a parameter has no direction"


@pytest.mark.parametrize(
    ("apply", "parts", "message"),
    [
        ("Read.apply(3);", "", f"Read<int>, parameter x: {KNOWN}"),
        ("", "Read<int>() r;", f"Read<int>, parameter x: {KNOWN}"),
        ("", "Read<string>() r;", "Read<string>, parameter x: string as a parameter has no direction"),
        ("", "Read<match_kind>() r;", "x: a parameter of a control cannot be match_kind"),
        ("", "Read<V>() r;", "Read<control V>, parameter x: a parameter of a control cannot be control V"),
        ("", "Read<packet_in>() r;", "parameter x: extern packet_in as a parameter has no direction"),
        ("", "Read<list<bit<8>>>() r;", "parameter x: a parameter of a control cannot be list<bit<8>>"),
        ("Read.apply({ 1, 2 });", "", "parameter x: a parameter of a control cannot be a list of 2 values"),
        ("Read.apply({});", "", "parameter x: a parameter of a control cannot be "),
        ("Read.apply(t.apply());", TABLE, "x: a parameter of a control cannot be the result of apply()"),
        ("", 'Made("a") r;', "Made<string>, parameter r: string as a parameter has no direction"),
        ("given<int>(_);", "", f"given<int>, parameter x: {KNOWN}"),
        ("given<TriggerCounter>(_);", "", "extern TriggerCounter as a parameter has no direction"),
        ("read<int>(3);", "", f"read<int>, parameter x: {KNOWN}"),
        ("same<int>();", "", "same<int> cannot return int"),
        ("found<V>();", "", "found cannot return control V"),
        ("asked<V>(_);", "", "parameter x of asked: a parameter of an extern cannot be control V"),
        ("asked<TriggerCounter>(_);", "", "extern TriggerCounter as a parameter has no direction"),
        ("asked<string>(_);", "", "parameter x of asked: string as a parameter has no direction"),
        ("k.get();", "Kept<V>() k;", "get cannot return control V"),
        ("k.put(_);", "Kept<int>() k;", f"parameter x of put: {KNOWN}"),
    ],
)  # fmt: skip
def test_a_type_that_a_parameter_cannot_have_is_refused_where_it_is_given(
    p4: SimpleNamespace, apply: str, parts: str, message: str
) -> None:
    told = p4.refusal(apply, parts=parts, top=TOP)
    assert message in told
    line = int(told.partition(": error: ")[0].split(":")[1])
    assert (apply or parts) in p4.source(apply, parts=parts, top=TOP).splitlines()[line - 1]
    assert told.endswith("1 error")


@pytest.mark.parametrize(
    ("apply", "parts"),
    [
        ("Known.apply(3);", ""),
        ("k.apply(3);", "Known<int>() k;"),
        ("", "Known<int>() k;"),
        ("Read<bit<8>[2]>.apply({ 1, 2 });", ""),
        ("Read<bit<8>[2][3]>.apply(...);", ""),
        ("Read<bit<16>>.apply(3);", ""),
    ],
)
def test_what_it_can_have_is_taken(p4: SimpleNamespace, apply: str, parts: str) -> None:
    engine = Engine()
    engine.load(compile_text(p4.source(apply, parts=parts, top=TOP)).program)
    assert engine.process(bytes([1, 0, 3, 0]), 0).frame == bytes([1, 0, 3, 0])


@pytest.mark.parametrize("key", ["KQ[3:0]", "5[3:0]", "4w5"])
def test_bits_of_a_constant_may_be_a_key(p4: SimpleNamespace, key: str) -> None:
    table = f'table t {{ key = {{ {key}: exact @name("k"); }} actions = {{ NoAction; }} }}'
    p4.compile("t.apply();", parts=table, top="const int KQ = 5;")
