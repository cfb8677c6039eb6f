# SPDX-License-Identifier: Apache-2.0
"""Tables that P4-16 does not allow are refused, each at its place.

Source: P4-16 Language Specification 1.2.5, "Match-action units".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

ILLEGAL: list[tuple[dict[str, str], str]] = [
    (
        {
            "parts": 'table t { key = { "a" - 1: range; } actions = { NoAction; } '
            'entries = { "a" .. "b": NoAction(); } }',
        },
        "- does not apply to string and int",
    ),
    (
        {"members": "tag_t[2] st;", "apply": "headers.st.size = 1;"},
        "this stores into size of a stack, which is read-only",
    ),
    ({"parts": "action a() {}", "apply": "a = 1;"}, "a is no value"),
    ({"parts": "table t { actions = { NoAction; } }", "apply": "t = 1;"}, "t is no value"),
    ({"members": "tag_t[0] st;"}, "an array of 0; 1 to 1024 elements were expected"),
    ({"members": "tag_t[-1] st;"}, "an array of -1; 1 to 1024 elements were expected"),
    ({"apply": "bit<8> n = 3; tag_t[n] st;"}, "the size of an array must be known at compile time"),
    (
        {"parts": "table t { key = { m.mark: exact; } key = { m.flag: exact; } actions = { NoAction; } }"},
        "table t has two properties key",
    ),
    (
        {"parts": "table t { actions = { NoAction; } actions = { NoAction; } }"},
        "table t has two properties actions",
    ),
    (
        {
            "parts": "table t { actions = { NoAction; } default_action = NoAction(); "
            "default_action = NoAction(); }"
        },
        "table t has two properties default_action",
    ),
    ({"parts": "table t { actions = { NoAction; } size = 3; size = 4; }"}, "table t has two properties size"),
    (
        {
            "parts": "table t { key = { m.mark: exact; } actions = { NoAction; } entries = { 1: "
            "NoAction(); } entries = { 2: NoAction(); } }"
        },
        "table t has two properties entries",
    ),
    (
        {"parts": "table t { key = { m.mark: exact; m.mark: exact; } actions = { NoAction; } }"},
        "two keys are called m.mark",
    ),
    ({"parts": "action a() {} action a() {}"}, "a is declared twice in the same scope"),
    (
        {"parts": "table t { actions = { NoAction; } priority_delta = 3; priority_delta = 4; }"},
        "table t has two properties priority_delta",
    ),
    ({"parts": "table t { key = { m.mark: exact; } }"}, "table t has no actions"),
    (
        {"parts": "action a() {} table t { actions = { NoAction; } default_action = a(); }"},
        "a is not among the actions of table t",
    ),
    (
        {"parts": "action a(bit<8> x) {} table t { actions = { a; } default_action = a(); }"},
        "action a takes 1 argument; 0 are given",
    ),
    (
        {"parts": "action a(bit<16> x) {} table t { actions = { a; } default_action = a(m.mark); }"},
        "action data must be known at compile time",
    ),
    (
        {"parts": "action a(bit<16> x) {} table t { actions = { a; } default_action = a(1,2); }"},
        "action a takes 1 argument; 2 are given",
    ),
    (
        {
            "parts": "action a(in bit<16> y, bit<16> x) {} table t { actions = { a(m.mark); } "
            "default_action = a(headers.tag.number, 2); }"
        },
        "this is not what the list of actions gives a",
    ),
    (
        {"parts": "action a() {} table t { actions = { @tableonly a; } default_action = a; }"},
        "a is @tableonly, and cannot be the default action",
    ),
    (
        {
            "parts": "action a() {} table t { key = { m.mark: exact; } actions = { @defaultonly "
            "a; } const entries = { 1: a(); } }"
        },
        "a is @defaultonly, and cannot be an entry",
    ),
    (
        {
            "parts": "table t { key = { m.mark: exact; m.flag: exact; } actions = { NoAction; } "
            "const entries = { 1: NoAction(); } }"
        },
        "1 keyset for 2 keys",
    ),
    (
        {
            "parts": "table t { key = { m.mark: exact; } actions = { NoAction; } const entries = "
            "{ true: NoAction(); } }"
        },
        "a keyset is bool; bit<16> was expected",
    ),
    (
        {
            "parts": "table t { key = { m.mark: exact; } actions = { NoAction; } const entries = "
            "{ 1 &&& 3: NoAction(); } }"
        },
        "a mask cannot stand in a key of match kind exact",
    ),
    (
        {
            "parts": "table t { key = { m.mark: lpm; } actions = { NoAction; } const entries = { "
            "1 .. 3: NoAction(); } }"
        },
        "a range cannot stand in a key of match kind lpm",
    ),
    (
        {
            "parts": "action a() {} table t { key = { m.mark: exact; } actions = { NoAction; } "
            "const entries = { 1: a(); } }"
        },
        "a is not among the actions of table t",
    ),
    (
        {
            "parts": "action a(bit<8> x) {} table t { key = { m.mark: exact; } actions = { a; } "
            "const entries = { 1: a(); } }"
        },
        "action a takes 1 argument; 0 are given",
    ),
    (
        {"parts": "table t { actions = { NoAction; } const entries = { 1: NoAction(); } }"},
        "a table without keys has no entries",
    ),
    (
        {
            "parts": "table t { key = { m.mark: exact; } actions = { NoAction; } const entries = "
            "{ headers.tag.number: NoAction(); } }"
        },
        "a keyset must be known at compile time",
    ),
    ({"parts": "table t { key = { m.mark: foo; } actions = { NoAction; } }"}, "unknown match kind foo"),
    (
        {"parts": "action a() { } table t { defalt_action = a; actions = { a; } }"},
        "unknown table property defalt_action",
    ),
    (
        {"parts": "table t { actions = { NoAction; } meters = {#}; }"},
        "meters must be an object: direct_meter",
    ),
    (
        {
            "parts": "table t { key = { m.mark: exact; } actions = { NoAction; } "
            "implementation = lost.make(1); }"
        },
        "unknown name lost",
    ),
    (
        {
            "parts": "table t { key = { m.mark: exact; } actions = { NoAction; } "
            "counters = headers.tag.isValid(); }"
        },
        "counters must be an object: direct_counter",
    ),
    (
        {"parts": "table t { key = { headers.tag: exact; } actions = { NoAction; } }"},
        "a key is header tag_t; a number was expected",
    ),
    (
        {"parts": 'table t { key = { 5: exact @name("x"); } actions = { NoAction; } }'},
        "a key is a number without a width",
    ),
    ({"parts": "table t { key = { m.mark + 1: exact; } actions = { NoAction; } }"}, "this key needs a name"),
    (
        {
            "types": "header v_t { varbit<8> v; }",
            "members": "v_t v;",
            "parts": "table t { key = { headers.v.v: exact; } actions = { NoAction; } }",
        },
        "a key is varbit<8>; a number was expected",
    ),
    (
        {"parts": 'table t { key = { "abc": exact @name("x"); } actions = { NoAction; } }'},
        "a key is string; a number was expected",
    ),
    (
        {"parts": "table t { actions = { NoAction; } size = m.mark; }"},
        "the size of a table must be known at compile time",
    ),
    (
        {"parts": "table t { actions = { NoAction; } size = true; }"},
        "the size of a table is bool; a number was expected",
    ),
    (
        {"parts": 'table t { size = error.NoError ? nothing() : "text"; actions = { NoAction; } }'},
        "unknown action or function nothing",
    ),
    ({"parts": "table t { actions = { NoAction; } size = -3; }"}, "a size of -3; 0 to 16777216 was expected"),
    (
        {"parts": "action a(in bit<8> x, bit<8> y) {} table t { actions = { a; } }"},
        "action a takes 1 argument; 0 are given",
    ),
    ({"parts": "action a(bit<8> y) {} table t { actions = { a(1); } }"}, "a takes 0 arguments here"),
    ({"parts": "table t { actions = { nothing; } }"}, "unknown action nothing"),
    ({"top": "bit<8> f() { return 1; }", "parts": "table t { actions = { f; } }"}, "f is no action"),
    (
        {"parts": "table t { actions = { NoAction; } }", "apply": "t.apply(1);"},
        "apply() of a table takes no arguments",
    ),
    (
        {"parts": "table t { actions = { NoAction; } }", "apply": "t.apply().apply();"},
        "the result of apply() has no method apply",
    ),
    ({"parts": "table t { actions = { NoAction; } }", "apply": "t();"}, "t cannot be called"),
    ({"parts": "table t { actions = { NoAction; } }", "apply": "t.foo();"}, "a table has no method foo"),
    (
        {"parts": "table t { actions = { NoAction; } }", "apply": "t.apply().hit = true;"},
        "this stores into something that is no variable",
    ),
    ({"parts": "table t { actions = { NoAction; } }", "apply": "m.flag = t;"}, "t is no value"),
    (
        {"parts": "table t { actions = { NoAction; } }", "apply": "m.flag = t.apply();"},
        "the value is the result of apply(); bool was expected",
    ),
    (
        {
            "states": "state start { t.apply(); transition accept; }",
            "top": "table t { actions = { NoAction; } }",
        },
        "expected a declaration, found 'table'",
    ),
    (
        {"parts": "table t { actions = { NoAction; } } action a() { t.apply(); }"},
        "a table cannot be applied in an action",
    ),
    ({"parts": "action a() { t.apply(); } table t { actions = { a; } }"}, "unknown name t"),
    (
        {"parts": "table t { actions = { NoAction; } } bool hit = t.apply().hit;"},
        "a table cannot be applied in a declaration",
    ),
    (
        {
            "parts": "table t { actions = { NoAction; } } action a(in bool hit) { } "
            "table u { actions = { a(t.apply().hit); } }",
        },
        "a table cannot be applied in an argument of a table's action",
    ),
    (
        {
            "parts": "table t { actions = { NoAction; } }",
            "apply": "m.flag = t.apply().action_run == NoAction;",
        },
        "NoAction is no value",
    ),
    (
        {"parts": "table t { actions = { NoAction; } }", "apply": "bit<8> x = t.apply().action_run;"},
        "the value of x is action_run; bit<8> was expected",
    ),
    (
        {
            "parts": "table t { actions = { NoAction; } }",
            "apply": "switch (t.apply().action_run) { default: {} default: {} }",
        },
        "switch has two default cases",
    ),
    (
        {"parts": "table t { actions = { NoAction; } }", "apply": "switch (t.apply()) { NoAction: {} }"},
        "the subject of switch is the result of apply(); a number was expected",
    ),
    (
        {"parts": "table t { actions = { NoAction; } }", "apply": "switch (t.apply().hit) { NoAction: {} }"},
        "the subject of switch is bool; bit<N>, int<N>, an enum or error was expected",
    ),
    ({"states": "state start { transition select() { _: accept; } }"}, "expected an expression, found ')'"),
    (
        {"states": "action a() {} state start { transition accept; }"},
        "expected a declaration in parser P, found 'action'",
    ),
    ({"states": "state start { NoAction(); transition accept; }"}, "an action cannot be called in a parser"),
    (
        {"top": "control Q() { apply {} }", "states": "Q() q; state start { q.apply(); transition accept; }"},
        "control Q cannot stand in a parser",
    ),
    (
        {
            "top": "parser Q() { state start { transition accept; } }",
            "parts": "Q() q;",
            "apply": "q.apply();",
        },
        "parser Q cannot stand in a control",
    ),
    (
        {"states": "table t { actions = { NoAction; } } state start { transition accept; }"},
        "expected a declaration in parser P, found 'table'",
    ),
    ({"parts": "action a() { a(); }"}, "unknown action or function a"),
    ({"parts": "action a() {} table a { actions = { NoAction; } }"}, "a is declared twice in the same scope"),
    (
        {"parts": "table a { actions = { NoAction; } } table a { actions = { NoAction; } }"},
        "a is declared twice in the same scope",
    ),
    ({"apply": "TriggerCounter() t;"}, "an object cannot be declared inside a body"),
    ({"parts": "action a() { TriggerCounter() t; }"}, "an object cannot be declared inside a body"),
    (
        {"top": "control Q() { apply {} }", "parts": "Q() q; action a() { q.apply(); }"},
        "a control cannot be applied in an action",
    ),
    (
        {"top": "control Q() { apply {} }", "parts": "action a() { Q.apply(); }"},
        "a control cannot be applied in an action",
    ),
    (
        {"top": "control Q() { apply {} }", "apply": "Q() q; q.apply();"},
        "an object cannot be declared inside a body",
    ),
    (
        {"top": "control Q() { apply {} }", "parts": "action a() { Q() q; }"},
        "an object cannot be declared inside a body",
    ),
    ({"top": "control Q(inout bit<8> x) { }"}, "control Q has no apply block"),
    ({"top": "control Q(inout bit<8> x) { apply {} apply {} }"}, "control Q has two apply blocks"),
    ({"top": "control Q(inout bit<8> x) { apply {} action a() {} }"}, "a declaration behind the apply block"),
    (
        {"top": "control Q(inout bit<8> x) { apply { apply { } } }"},
        "expected '}' to close the apply block of Q, found 'apply'",
    ),
    ({"apply": "headers.tag = { ..., 1 };"}, "expected '}' to close '{', found '1'"),
    ({"top": "table t { actions = { NoAction; } }"}, "expected a declaration, found 'table'"),
    ({"top": "void f() { t.apply(); }"}, "unknown name t"),
    ({"top": "action a() {} void f() { a(); }"}, "an action cannot be called in a function"),
    ({"top": "void f(out bit<8> x = 1) { x = 1; }"}, "out parameter x has a default value"),
    ({"top": "void f(in bit<8> x = y) { }"}, "unknown name y"),
    ({"top": "void f(in bit<8> x = true) { }"}, "the default value of x is bool; bit<8> was expected"),
    ({"parts": "action a() { return 1; }"}, "nothing here returns a value"),
    ({"parts": "action a(bit<8> x) {}", "apply": "a();"}, "action a takes 1 argument; 0 are given"),
    ({"parts": "action a(bit<8> x) {}", "apply": "a(m.mark);"}, "argument x is bit<16>; bit<8> was expected"),
    ({"parts": "action a() {}", "apply": "m.mark = a();"}, "the value is void; bit<16> was expected"),
    (
        {"parts": "action a(tag_t x) {} table t { actions = { a; } }"},
        "not supported by nicemu yet: action a has header tag_t as action data; a table holds numbers",
    ),
    ({"parts": "action a(tag_t x, in bit<8> y) {}"}, "a parameter with a direction follows action data"),
    ({"parts": "action a(TriggerCounter x) {}"}, "a parameter of an action cannot be extern TriggerCounter"),
    (
        {"parts": "action a(inout TriggerCounter x) {}"},
        "a parameter of an action cannot be extern TriggerCounter",
    ),
    (
        {"top": "control Q() { action z() {} apply {} }", "parts": "table t { actions = { z; } }"},
        "unknown action z",
    ),
    ({"apply": "bit<8> table;"}, "expected the name of the variable, found 'table'"),
    (
        {"parts": "action a(out bit<8> x) { x = 1; } table t { actions = { a(3); } }"},
        "action a writes to something that is no variable",
    ),
    (
        {
            "top": "const bit<8> K = 3;",
            "parts": "action a(inout bit<8> x) { x = 1; } table t { actions = { a(K); } }",
        },
        "action a writes to K, which is read-only (a constant)",
    ),
    ({"parts": "action a(bit<8> x) {} table t { key = { x: exact; } actions = { a; } }"}, "unknown name x"),
    (
        {"top": "control Q() { apply {} }", "parts": "Q() q;", "apply": "m.flag = q.apply();"},
        "the value is void; bool was expected",
    ),
    (
        {"parts": "table t { actions = { NoAction; } } action a() { if (t.apply().hit) { } }"},
        "a table cannot be applied in an action",
    ),
    (
        {
            "parts": "table u { actions = { NoAction; } }",
            "states": "state start { transition select(u.apply().hit) { _: accept; } }",
        },
        "unknown name u",
    ),
    (
        {"parts": "table t { actions = { NoAction; } }", "apply": "if (t.apply().action_run) { }"},
        "the condition of if is action_run; bool was expected",
    ),
    (
        {"parts": "table t { actions = { NoAction; } }", "apply": "m.flag = t.apply().foo;"},
        "the result of apply() has no foo",
    ),
    ({"parts": "table t<T> { actions = { NoAction; } }"}, "expected '{' to open table t, found '<'"),
    ({"parts": "table t;"}, "expected '{' to open table t, found ';'"),
    ({"parts": "table t { foo { } }"}, "expected '=' after foo"),
    (
        {
            "parts": 'table t { key = { m.mark: exact @name("k"); headers.tag.number: exact '
            '@name("k"); } actions = { NoAction; } }'
        },
        "two keys are called k",
    ),
    (
        {"parts": "table t { const key = { m.mark: exact; } actions = { NoAction; } }"},
        "const cannot stand before key",
    ),
    ({"parts": "table t { const actions = { NoAction; } }"}, "const cannot stand before actions"),
    *(
        (
            {
                "parts": "action a(in bit<16> x, bit<16> n) { }"
                f"table t {{ key = {{ m.mark: exact; }} actions = {{ a(m.mark); }} {rest} }}"
            },
            "the arguments that the list of actions gives a are missing",
        )
        for rest in ("default_action = a(5);", "entries = { 1: a(5); }")
    ),
    (
        {
            "parts": "table t { key = { m.mark: exact; } actions = { NoAction; } const entries = "
            "{ _: NoAction(); } }"
        },
        "not supported by nicemu yet: '_' in an exact key of 16 bits, an entry for each of its values",
    ),
    (
        {
            "parts": "table t { key = { m.mark: ternary; } actions = { NoAction; } entries = { "
            "priority = -1: 1: NoAction(); } }"
        },
        "a priority of -1; 1 to 2147483647 was expected",
    ),
    (
        {
            "parts": "table t { key = { m.mark: ternary; } actions = { NoAction; } entries = { "
            "priority = m.mark: 1: NoAction(); } }"
        },
        "a priority must be known at compile time",
    ),
    (
        {"parts": "table t { key = { m.mark: ternary; } actions = { NoAction; } const entries = { 1; } }"},
        "expected ':' between the keysets and the action, found ';'",
    ),
    (
        {
            "parts": "table t { key = { m.mark: ternary; } actions = { NoAction; } const entries "
            "= { (1, 2): NoAction(); } }"
        },
        "2 keysets for 1 key",
    ),
    (
        {
            "parts": "table t { key = { m.mark: lpm; } actions = { NoAction; } const entries = { "
            "1 &&& 0x5: NoAction(); } }"
        },
        "a mask in a key of match kind lpm has ones, and behind them zeros",
    ),
    (
        {"parts": "table t { key = { m.mark: lpm; } actions = { NoAction; } entries = 5; }"},
        "expected '{' to open the entries, found '5'",
    ),
    (
        {
            "parts": "table t { key = { headers.tag.small: ternary; } actions = { NoAction; } "
            "const entries = { true &&& 3: NoAction(); } }"
        },
        "a keyset is bool; int<8> was expected",
    ),
    (
        {
            "parts": "table t { key = { m.mark: ternary; } actions = { NoAction; } "
            "largest_priority_wins = 3; }"
        },
        "largest_priority_wins is int; bool was expected",
    ),
    (
        {"parts": "table t { key = { m.mark: ternary; } actions = { NoAction; } priority_delta = -3; }"},
        "priority_delta is -3; above 0 was expected",
    ),
    ({"apply": "m.mark = default;"}, "expected an expression, found 'default'"),
    ({"parts": "action a() {} bit<8> a;"}, "a is declared twice in the same scope"),
    ({"parts": "bit<8> t; table t { actions = { NoAction; } }"}, "t is declared twice in the same scope"),
    (
        {"top": "control Q(in TriggerCounter c) { apply { } }"},
        "extern TriggerCounter as a parameter has no direction",
    ),
    ({"top": "control Q(table t) { apply { } }"}, "expected the name of a type, found 'table'"),
    (
        {
            "top": "parser Q(packet_in p) { state start { transition accept; } }",
            "states": "Q() q; state start { q.apply(packet, packet); transition accept; }",
        },
        "parser q takes 1 argument; 2 are given",
    ),
]


@pytest.mark.parametrize(("parts", "message"), ILLEGAL)
def test_an_illegal_program_is_refused_at_its_place(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    told = p4.refusal(**parts)
    assert f": error: {message}" in told
    assert "what this program asks of the engine" not in told
