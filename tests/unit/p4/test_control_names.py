# SPDX-License-Identifier: Apache-2.0
"""What the control plane sees has a name and a number that nothing else of its kind has.

Source: P4-16 Language Specification 1.2.5, "Control plane names", "Direct type invocation",
"Control-plane API annotations"; P4Runtime Specification 1.4, "ID Allocation for P4Info Objects".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.p4 import CompileError, compile_text
from nicemu.pipeline import Engine, TableInfo, p4info_of

TABLE = "table t { actions = { NoAction; } } apply { t.apply(); }"
OBJECT = "TriggerCounter() c; apply { c.add(1, 1); }"
ACTION = "action a() { } apply { a(); }"
PLAIN = "apply { m.mark = 1; }"
SETS = "state start { transition select(m.mark) { v: accept; w: reject; default: accept; } }"

ILLEGAL: list[tuple[dict[str, str], str]] = [
    (
        {"parts": '@name("x") TriggerCounter() a; @name("x") TriggerCounter() b;'},
        "two objects are called C.x",
    ),
    (
        {"parts": "@id(3) TriggerCounter() a; @id(3) TriggerCounter() b;"},
        "two TriggerCounters have the number 3",
    ),
    (
        {"parts": "@id(3) TriggerCounter() a; @id(3) TriggerCounter() b;"},
        "two TriggerCounters have the",
    ),
    ({"top": '@name("x") action a() { } @name("x") action b() { }'}, "two actions are called x"),
    (
        {"states": '@name("x") value_set<bit<16>>(2) v; @name("x") value_set<bit<16>>(2) w; ' + SETS},
        "two value sets are called P.x",
    ),
    (
        {"states": "@id(3) value_set<bit<16>>(2) v; @id(3) value_set<bit<16>>(2) w; " + SETS},
        "two value sets have the number 3",
    ),
    (
        {"parts": "action a(@id(1) bit<8> x, @id(1) bit<8> y) { }"},
        "two parameters of action a have the number 1",
    ),
    (
        {"parts": "table t { key = { m.mark: exact @id(1); m.flag: lpm @id(1); } actions = { NoAction; } }"},
        "two keys of table t have the number 1",
    ),
    (
        {"parts": 'table t { key = { m.mark: exact @id("x"); } actions = { NoAction; } }'},
        "@id needs a number above 0, 32 bits at most",
    ),
    ({"parts": "@id(1) @id(2) action a() { }"}, "@id stands here twice"),
    (
        {"top": f"control Q() {{ {TABLE} }}", "parts": '@name("q") Q() q1; @name("q") Q() q2;'},
        "two controls are called C.q",
    ),
    (
        {
            "top": 'control Q() { @name(".x") TriggerCounter() c; apply { c.add(1, 1); } }',
            "parts": "Q() q1; Q() q2;",
            "apply": "q1.apply(); q2.apply();",
        },
        "two objects are called x",
    ),
    *(
        (
            {"top": f"control Q() {{ {body} }}", "apply": "if (m.flag) { Q.apply(); } else { Q.apply(); }"},
            "Q is applied by its name twice; what is in both would have the same names",
        )
        for body in (TABLE, OBJECT)
    ),
    (
        {
            "top": f"control Q() {{ {TABLE} }} control R() {{ apply {{ Q.apply(); }} }}",
            "apply": "R.apply(); R.apply();",
        },
        "R is applied by its name twice",
    ),
]


@pytest.mark.parametrize(("parts", "message"), ILLEGAL)
def test_two_that_cannot_be_told_apart_are_refused(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    assert f": error: {message}" in p4.refusal(**parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"top": f"control Q(inout metadata_t m) {{ {PLAIN} }}", "apply": "Q.apply(m); Q.apply(m);"},
        {"top": f"control Q() {{ {ACTION} }}", "apply": "Q.apply(); Q.apply();"},
        {"top": f"control Q() {{ @hidden {TABLE} }}", "apply": "Q.apply(); Q.apply();"},
        {
            "top": f"control Q() {{ {TABLE} }} control R() {{ apply {{ Q.apply(); }} }}",
            "apply": "Q.apply(); R.apply();",
        },
        {"top": f"control Q() {{ {TABLE} }}", "parts": "Q() q;", "apply": "q.apply(); q.apply(); Q.apply();"},
        {"parts": '@id(3) @name("x") action a() { } @id(3) @name("x") table t { actions = { a; } }'},
    ],
)
def test_what_can_be_told_apart_is_taken(p4: SimpleNamespace, parts: dict[str, str]) -> None:
    p4.compile(**parts)


def test_the_number_of_a_key_may_be_written_with_any_base(p4: SimpleNamespace) -> None:
    parts = "table t { key = { m.mark: exact @id(0x2a); m.flag: exact; } actions = { NoAction; } }"
    table: TableInfo = compile_text(p4.source("t.apply();", parts)).p4info.tables[0]
    assert table.keys[0].id == 0x2A


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("m.x", "m.x"),
        ("m.x[3:0]", "m.x[3:0]"),
        ("m.x & 0xF0", "m.x & 0xf0"),
        ("LOW & m.x", "0xf & m.x"),
        ("m.x & m.y", "m.x & m.y"),
        ("8w7", "7"),
    ],
)
def test_a_key_is_called_as_it_is_written(key: str, name: str) -> None:
    source = OBJECTS.replace("m.x: exact;", f"{key}: exact;").replace("bit<8> x;", "bit<8> x; bit<8> y;")
    source = source.replace("struct headers_t", "const bit<8> LOW = 15;\nstruct headers_t")
    assert [item.name for item in compile_text(source).p4info.tables[0].keys] == [name]


def test_a_table_of_size_0_has_the_size_of_one_that_says_none() -> None:
    source = OBJECTS.replace("actions = { NoAction; }", "actions = { NoAction; } size = 0;")
    assert compile_text(source).p4info.tables[0].size == compile_text(OBJECTS).p4info.tables[0].size


def test_objects_that_a_table_makes_have_names_of_their_own() -> None:
    info = compile_text(OBJECTS).p4info
    assert [item.name for item in info.profiles] == ["I.t"]
    assert [item.name for item in info.direct_counters] == ["I.t.counters"]


def test_the_keys_of_a_selector_have_numbers_but_no_names() -> None:
    keys = "m.x: selector; m.x: exact; m.y: selector; m.y: exact;"
    source = OBJECTS.replace("m.x: exact;", keys).replace("bit<8> x;", "bit<8> x; bit<8> y;")
    source = source.replace("action_profile(8)", "action_selector(HashAlgorithm.identity, 8, 8)")
    table = compile_text(source).p4info.tables[0]
    assert [(key.name, key.id) for key in table.keys] == [("m.x", 2), ("m.y", 4)]


OBJECTS = """
#include <core.p4>
#include <v1model.p4>
struct headers_t { }
struct metadata_t { bit<8> x; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    table t {
        key = { m.x: exact; }
        actions = { NoAction; }
        implementation = action_profile(8);
        counters = direct_counter(CounterType.packets);
    }
    apply { t.apply(); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


V1MODEL = """
#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; }}
struct headers_t {{ h_t h; }}
struct m_t {{ bit<8> x; }}
parser P(packet_in p, out headers_t h, inout m_t m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
control V(inout headers_t h, inout m_t m) {{ apply {{ }} }}
control I(inout headers_t h, inout m_t m, inout standard_metadata_t s) {{
    {ingress}
    apply {{ s.egress_spec = 1; {calls} }}
}}
control E(inout headers_t {name}, inout m_t m, inout standard_metadata_t s) {{ {egress} apply {{ {calls} }} }}
control D(packet_out p, in headers_t h) {{ apply {{ p.emit(h); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
ADD = '@name(".add") action add(inout bit<8> v, bit<8> by) { bit<8> old = v; v = old + by; h.h.b = old; }'
CALLS = "add(h.h.a, 2); t.apply();"
TABLE_OF_ADD = "table t { actions = { add(h.h.a); } default_action = add(h.h.a, 16); }"


def test_one_action_in_two_controls_as_translations_of_p4_14_have_it_is_one() -> None:
    """Their bodies are the same, and so is what the names in them mean."""
    part = ADD + TABLE_OF_ADD
    compiled = compile_text(V1MODEL.format(ingress=part, egress=part, calls=CALLS, name="h"))
    assert [action.name for action in compiled.program.actions] == ["add"]
    engine = Engine()
    engine.load(compiled.program)
    assert engine.process(bytes([1, 0]), 0).frame == bytes([1 + 2 * (2 + 16), 1 + 2 + 16 + 2])
    assert [action.name for action in p4info_of(compiled.program).actions] == ["add"]


@pytest.mark.parametrize(
    "other",
    [
        ADD.replace("old + by", "old - by"),
        ADD.replace("by", "to"),
        "bit<8> other; " + ADD.replace("h.h.b", "other"),
        ADD.replace("action add", "action plus"),
    ],
    ids=["body", "parameter", "variable", "name"],
)
def test_others_of_one_name_are_refused(other: str) -> None:
    text = V1MODEL.format(ingress=ADD, egress=other, calls="", name="h")
    with pytest.raises(CompileError, match="two actions are called add"):
        compile_text(text)


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("bit<8> other;", "other = old;"),
        ("register<bit<8>>(1) other;", "other.write(0, old);"),
        ("const bit<8> other = 1;", "h.h.b = other;"),
        ("action other() { h.h.b = 3; }", "other();"),
    ],
    ids=["variable", "register", "constant", "action"],
)
def test_a_name_that_means_something_else_makes_another_action(part: str, body: str) -> None:
    own = part + ADD.replace("h.h.b = old;", body)
    with pytest.raises(CompileError, match="two actions are called add"):
        compile_text(V1MODEL.format(ingress=own, egress=own, calls="", name="h"))
