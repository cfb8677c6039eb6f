# SPDX-License-Identifier: Apache-2.0
"""Where entries, their priorities and the default action may stand in a table.

Source: P4-16 Language Specification 1.2.5, "Default action", "Entries", "Entry priorities".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

SAME = "entries = { priority = 4: 1 &&& 3: NoAction(); priority = %d: 5 &&& 3: NoAction(); }"
TABLE = "table t { key = { m.mark: ternary; } actions = { NoAction; } %s }"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            TABLE % "const entries = { priority = 3: 1: NoAction(); }",
            "const entries have no priorities: they match in the order in which they stand",
        ),
        (
            TABLE % "const entries = { 1: NoAction(); priority = 3: 2: NoAction(); }",
            "const entries have no priorities: they match in the order in which they stand",
        ),
        (TABLE % "const entries = { @hidden 1: NoAction(); }", "expected an entry, found '@'\n"),
        (TABLE % (SAME % 4), "there is an entry for these keys already, in line 13"),
        (
            TABLE % "entries = { 1: NoAction(); priority = 3: 2: NoAction(); }",
            "the first entry has no priority, and others have",
        ),
        (
            TABLE % "entries = { priority = 1: 1: NoAction(); 2: NoAction(); }",
            "this entry comes by a priority of 0; 1 to 2147483647 was expected",
        ),
        (
            TABLE % "priority_delta = 9; entries = { priority = 8: 1: NoAction(); 2: NoAction(); }",
            "this entry comes by a priority of -1; 1 to 2147483647 was expected",
        ),
        (
            TABLE % ("entries = { 1: NoAction() @priority(2147483648); }"),
            "@priority takes a number from 1 to 2147483647",
        ),
        (
            TABLE % f"const entries = {{ 1: NoAction() @priority({'9' * 5000}); }}",
            "@priority takes a number from 1 to 2147483647",
        ),
        (
            TABLE % "priority_delta = 2147483647; entries = { 1: NoAction(); 2: NoAction(); }",
            "this entry comes by a priority of 2147483648; 1 to 2147483647 was expected",
        ),
        (
            "table t { actions = { NoAction; } entries = { _: NoAction(); } }",
            "a table without keys has no entries",
        ),
        (TABLE % 'const entries = { 1: NoAction() @priority("x"); }', "@priority needs a number"),
        (
            "table t { key = { m.mark: exact; } actions = { @tableonly @defaultonly NoAction; } }",
            "action NoAction is @tableonly and @defaultonly: nothing may have it",
        ),
        (
            "table t { default_action = NoAction(); actions = { NoAction; } }",
            "default_action stands before actions",
        ),
    ],
)
def test_an_illegal_table_is_refused_at_its_place(p4: SimpleNamespace, table: str, message: str) -> None:
    assert f": error: {message}" in p4.refusal(parts=table)


@pytest.mark.parametrize(
    "table",
    [
        TABLE % "entries = { priority = 3: 1: NoAction(); 2: NoAction(); priority = 7: 3: NoAction(); }",
        TABLE % "entries = { const priority = 3: 1: NoAction(); const 2: NoAction(); }",
        TABLE % "const entries = { const 1: NoAction(); 2: NoAction(); }",
        "table t { actions = { NoAction; } entries = { } }",
    ],
)
def test_a_legal_table_is_taken(p4: SimpleNamespace, table: str) -> None:
    p4.compile(parts=table)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_entries_may_stand_before_key_and_actions(p4: SimpleNamespace, order: tuple[int, ...]) -> None:
    properties = (
        "key = { headers.tag.kind: exact; }",
        "actions = { a; NoAction; }",
        "const entries = { 7: a(9); }",
    )
    table = f"table t {{ {' '.join(properties[place] for place in order)} }}"
    parts = f"action a(bit<16> n) {{ headers.tag.number = n; }} {table}"
    assert p4.run(bytes([7, 0, 0, 0]), "t.apply();", parts=parts).frame[1:3] == bytes([0, 9])


EQUAL = "entries = { priority = 4: 1: NoAction(); priority = 4: 2: NoAction(); }"
RISING = "entries = { priority = 4: 1: NoAction(); priority = 5: 2: NoAction(); }"
FALLING = (
    "largest_priority_wins = false; entries = { priority = 5: 1: NoAction(); priority = 4: 2: NoAction(); }"
)


@pytest.mark.parametrize(
    ("entries", "warnings"),
    [
        (EQUAL, ["a second entry has priority 4; P4 does not say which of them wins"]),
        (f'@noWarn("duplicate_priorities") {EQUAL}', []),
        (RISING, ["this entry has priority 5 and wins over the one before, of 4"]),
        (FALLING, ["this entry has priority 4 and wins over the one before, of 5"]),
        (f'@noWarn("entries_out_of_priority_order") {RISING}', []),
        (f"largest_priority_wins = false; {RISING}", []),
        (SAME % 3, ["there is an entry for these keys already, in line 13: one of them never matches"]),
        ("entries = { 1: NoAction(); 2: NoAction(); }", []),
        ("const entries = { 1: NoAction(); 2: NoAction(); }", []),
    ],
)
def test_equal_priorities_and_others_than_the_order_s_are_told(
    p4: SimpleNamespace, entries: str, warnings: list[str]
) -> None:
    found = p4.compile(parts=TABLE % entries, apply="t.apply();").diagnostics
    assert [item.message for item in found] == warnings


@pytest.mark.parametrize(
    ("kind", "entries", "warning"),
    [
        (
            "exact",
            "priority = 2: 1: a(1); 2: a(2);",
            "a priority beside exact and lpm keys, where it is ignored",
        ),
        (
            "lpm",
            "priority = 2: 1: a(1); 2: a(2);",
            "a priority beside exact and lpm keys, where it is ignored",
        ),
        ("range", "1: a(1); 9 .. 8: a(9); 2: a(2);", "this range is empty: nothing matches it"),
    ],
)
def test_what_says_nothing_in_an_entry_is_told_and_the_others_are_kept(
    p4: SimpleNamespace, kind: str, entries: str, warning: str
) -> None:
    parts = (
        f"action a(bit<8> n) {{ }} table t {{ key = {{ m.mark: {kind}; }} actions = {{ a; NoAction; }} "
        f"entries = {{ {entries} }} }}"
    )
    compiled = p4.compile(parts=parts, apply="t.apply();")
    assert [item.message for item in compiled.diagnostics] == [warning]
    (table,) = compiled.program.tables
    assert [entry.call.parameters for entry in table.entries] == [(1,), (2,)]


@pytest.mark.parametrize(
    ("given", "taken"),
    [("a()", (7, 9)), ("a(1)", (1, 9)), ("a(1, 2)", (1, 2)), ("a(y = 3)", (7, 3)), ("a", (7, 9))],
)
def test_action_data_has_default_values(p4: SimpleNamespace, given: str, taken: tuple[int, int]) -> None:
    parts = (
        "action a(bit<8> x = 7, bit<8> y = 9) { } table t { key = { m.mark: exact; } actions = { a; } "
        f"default_action = {given}; entries = {{ 1: {given}; }} }}"
    )
    (table,) = p4.compile(parts=parts, apply="t.apply();").program.tables
    assert table.default_action.parameters == table.entries[0].call.parameters == taken


@pytest.mark.parametrize(("first", "second"), [("5 .. 5", "5"), ("_", "0 .. 0xffff"), ("3 .. 4", "3 .. 4")])
def test_ranges_are_the_same_however_they_are_written(p4: SimpleNamespace, first: str, second: str) -> None:
    entries = f"entries = {{ priority = 9: {first}: NoAction(); priority = %d: {second}: NoAction(); }}"
    table = f"table t {{ key = {{ m.mark: range; }} actions = {{ NoAction; }} {entries} }}"
    assert "there is an entry for these keys already" in p4.refusal(parts=table % 9, apply="t.apply();")
    (told,) = p4.compile(parts=table % 8, apply="t.apply();").diagnostics
    assert told.message.endswith("in line 13: one of them never matches")


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("exact", "0x500", "1280"),
        ("lpm", "0x500 &&& 0xff00", "0x501 &&& 0xff00"),
        ("lpm", "_", "3 &&& 0"),
    ],
)
def test_two_entries_for_the_same_keys_are_refused(
    p4: SimpleNamespace, kind: str, first: str, second: str
) -> None:
    """p4c #5248. Nothing can say by a priority which of them wins."""
    table = f"key = {{ m.mark: {kind}; }} const entries = {{ {first}: a(1); {second}: a(2); }}"
    parts = f"action a(bit<16> n) {{ headers.tag.number = n; }} table t {{ actions = {{ a; }} {table} }}"
    assert "error: there is an entry for these keys already" in p4.refusal(parts=parts, apply="t.apply();")
