# SPDX-License-Identifier: Apache-2.0
"""Sentences of the P4Runtime Specification, "TableEntry" and "Match Format", and of P4-16, "Match-action
units".
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Engine, Exact, Lpm, Match, Optional, Range, TableEntry, Ternary, ir
from nicemu.pipeline.matches import matches
from nicemu.pipeline.tables import Table

EXACT, LPM, TERNARY, RANGE, OPTIONAL = ir.MatchKind
ACTIONS: dict[str, tuple[int, ...]] = {"C.send": (16,), "C.drop": ()}


def made(hand: SimpleNamespace, *keys: tuple[str, ir.MatchKind], **changes: object) -> Table:
    return Table(hand.table(*keys, **changes), ACTIONS, ACTIONS)


def send(port: int, *given: Match, priority: int = 0) -> TableEntry:
    return TableEntry(given, "C.send", (port,), priority)


def port_for(table: Table, *values: int) -> int | None:
    row = table.lookup(values)
    return row.entry.parameters[0] if row else None


def refusal(code: P4RuntimeCode, words: str, call: Callable[..., object], *arguments: object) -> None:
    with pytest.raises(ControlError, match=words) as caught:
        call(*arguments)
    assert caught.value.code is code


def test_an_exact_entry_matches_its_value_alone(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", EXACT))
    table.insert(send(1, Exact(7)))
    assert [port_for(table, 7), port_for(table, 8)] == [1, None]


def test_the_longest_prefix_wins_whatever_the_order_of_insertion(hand: SimpleNamespace) -> None:
    table = made(hand, ("kind", EXACT), ("number", LPM), size=9)
    for entry in (
        send(8, Exact(1), Lpm(0xAB00, 8)),
        send(0, Exact(1), Lpm(0, 0)),
        send(16, Exact(1), Lpm(0xABCD, 16)),
        send(99, Exact(2), Lpm(0xABCD, 16)),
    ):
        table.insert(entry)
    found = [port_for(table, 1, number) for number in (0xABCD, 0xABCE, 0x1234)]
    assert found == [16, 8, 0]
    assert port_for(table, 3, 0xABCD) is None


def test_among_ternary_entries_the_larger_priority_wins(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", TERNARY))
    table.insert(send(1, Ternary(0x1, 0xF), priority=5))
    table.insert(send(2, Ternary(0x0, 0x0), priority=9))
    table.insert(send(3, Ternary(0x21, 0xFF), priority=7))
    assert port_for(table, 0x21) == 2
    table.delete((Ternary(0, 0),), 9)
    assert [port_for(table, 0x21), port_for(table, 0x31)] == [3, 1]


def test_a_range_includes_both_its_ends(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", RANGE))
    table.insert(send(1, Range(10, 20), priority=1))
    assert [port_for(table, number) for number in (9, 10, 20, 21)] == [None, 1, 1, None]


def test_a_deleted_prefix_gives_way_to_the_shorter_one(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", LPM))
    table.insert(send(1, Lpm(0xA000, 4)))
    table.insert(send(2, Lpm(0xAB00, 8)))
    table.delete((Lpm(0xAB00, 8),))
    assert port_for(table, 0xAB12) == 1


def test_modify_replaces_the_action_and_keeps_the_hits(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", EXACT))
    table.insert(send(1, Exact(7)))
    table.lookup((7,))
    table.modify(TableEntry((Exact(7),), "C.drop"))
    assert table.read() == [TableEntry((Exact(7),), "C.drop")]
    assert table.row((Exact(7),)).hits == 1


def test_hits_and_misses_are_counted(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", EXACT))
    table.insert(send(1, Exact(7)))
    for value in (7, 7, 8):
        table.lookup((value,))
    assert (table.hits, table.misses, table.row((Exact(7),)).hits) == (2, 1, 2)


def test_a_duplicate_is_refused_and_the_old_entry_stays(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", EXACT))
    table.insert(send(1, Exact(7)))
    refusal(P4RuntimeCode.ALREADY_EXISTS, "has an entry for 0x7 already", table.insert, send(2, Exact(7)))
    assert port_for(table, 7) == 1


def test_an_optional_key_matches_its_value_or_all_by_priority(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", OPTIONAL))
    table.insert(send(1, Optional(7), priority=5))
    table.insert(send(2, Optional(None), priority=3))
    assert [port_for(table, 7), port_for(table, 8)] == [1, 2]
    table.insert(send(3, Optional(None), priority=9))
    assert port_for(table, 7) == 3


def test_beside_a_ternary_key_prefixes_go_by_priority_too(hand: SimpleNamespace) -> None:
    table = made(hand, ("kind", TERNARY), ("number", LPM))
    table.insert(send(1, Ternary(0, 0), Lpm(0xAB00, 8), priority=5))
    table.insert(send(2, Ternary(0, 0), Lpm(0xABCD, 16), priority=3))
    table.insert(send(3, Ternary(1, 0xF), Lpm(0, 0), priority=1))
    assert [port_for(table, 1, number) for number in (0xABCD, 0xABCE, 0x1234)] == [1, 1, 3]
    assert port_for(table, 2, 0x1234) is None


def test_the_same_ternary_match_may_stand_at_two_priorities(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", TERNARY))
    table.insert(send(1, Ternary(1, 1), priority=1))
    table.insert(send(2, Ternary(1, 1), priority=2))
    assert port_for(table, 3) == 2


def test_a_full_table_refuses_and_a_deletion_makes_room(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", EXACT), size=2)
    table.insert(send(1, Exact(1)))
    table.insert(send(2, Exact(2)))
    refusal(P4RuntimeCode.RESOURCE_EXHAUSTED, "its size is 2 entries", table.insert, send(3, Exact(3)))
    table.delete((Exact(1),))
    table.insert(send(3, Exact(3)))
    assert [port_for(table, value) for value in (1, 2, 3)] == [None, 2, 3]


@pytest.mark.parametrize(
    ("kind", "entry", "code", "words"),
    [
        (
            EXACT,
            send(1, Exact(1 << 16)),
            P4RuntimeCode.OUT_OF_RANGE,
            "number is bit<16>; 0x10000 does not fit",
        ),
        (EXACT, send(1, Exact(-1)), P4RuntimeCode.OUT_OF_RANGE, "does not fit"),
        (EXACT, send(1, Lpm(0, 0)), P4RuntimeCode.INVALID_ARGUMENT, "is exact; the match given is lpm"),
        (EXACT, send(1), P4RuntimeCode.INVALID_ARGUMENT, "0 matches given; it has 1 keys"),
        (
            EXACT,
            send(1, Exact(1), priority=3),
            P4RuntimeCode.INVALID_ARGUMENT,
            "exact and lpm keys take none",
        ),
        (
            EXACT,
            send(1 << 16, Exact(1)),
            P4RuntimeCode.OUT_OF_RANGE,
            "parameter 1 of action C.send is bit<16>",
        ),
        (
            EXACT,
            TableEntry((Exact(1),), "C.send"),
            P4RuntimeCode.INVALID_ARGUMENT,
            "takes 1 parameter; 0 given",
        ),
        (EXACT, TableEntry((Exact(1),), "C.other"), P4RuntimeCode.INVALID_ARGUMENT, "C.send, C.drop"),
        (LPM, send(1, Lpm(0x0101, 8)), P4RuntimeCode.INVALID_ARGUMENT, "behind its prefix of 8"),
        (LPM, send(1, Lpm(0, 17)), P4RuntimeCode.INVALID_ARGUMENT, "prefix length 17 given; 0 to 16"),
        (TERNARY, send(1, Ternary(3, 1), priority=1), P4RuntimeCode.INVALID_ARGUMENT, "outside its mask 0x1"),
        (OPTIONAL, send(1, Optional(1 << 16), priority=1), P4RuntimeCode.OUT_OF_RANGE, "does not fit"),
        (OPTIONAL, send(1, Exact(1), priority=1), P4RuntimeCode.INVALID_ARGUMENT, "the match given is exact"),
        (TERNARY, send(1, Ternary(1, 1)), P4RuntimeCode.INVALID_ARGUMENT, "need one above 0, larger wins"),
        (
            TERNARY,
            send(1, Ternary(1, 1), priority=1 << 64),
            P4RuntimeCode.INVALID_ARGUMENT,
            "a priority of 0x10000000000000000 given; 0xffffffffffffffff is the largest",
        ),
        (RANGE, send(1, Range(5, 4), priority=1), P4RuntimeCode.INVALID_ARGUMENT, "0x5..0x4 is empty"),
    ],
)
def test_an_illegal_entry_is_refused_with_its_code_and_changes_nothing(
    hand: SimpleNamespace, kind: ir.MatchKind, entry: TableEntry, code: P4RuntimeCode, words: str
) -> None:
    table = made(hand, ("number", kind))
    refusal(code, words, table.insert, entry)
    assert table.read() == []


def test_an_entry_that_is_not_there_can_be_neither_modified_nor_deleted(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", EXACT))
    refusal(P4RuntimeCode.NOT_FOUND, "has no entry for 0x1", table.modify, send(1, Exact(1)))
    refusal(P4RuntimeCode.NOT_FOUND, "has no entry for 0x1", table.delete, (Exact(1),))


def test_const_entries_and_a_const_default_action_cannot_be_changed(hand: SimpleNamespace) -> None:
    entry = ir.Entry((ir.KeyMask(5, 0xFFFF),), ir.ActionCall("C.send", (9,)))
    table = made(hand, ("number", EXACT), entries=(entry,), const_entries=True, const_default=True)
    assert port_for(table, 5) == 9
    refusal(P4RuntimeCode.PERMISSION_DENIED, "const in the program", table.insert, send(1, Exact(1)))
    refusal(P4RuntimeCode.PERMISSION_DENIED, "const in the program", table.delete, (Exact(5),))
    refusal(P4RuntimeCode.PERMISSION_DENIED, "default action is const", table.set_default, "C.drop", ())


ENTRY = st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(1, 6))


@given(st.lists(ENTRY, max_size=12), st.integers(0, 15))
def test_a_ternary_table_agrees_with_a_naive_search(entries: list[tuple[int, int, int]], value: int) -> None:
    key = ir.Key("k", ir.Name("k", ir.Bits(4)), TERNARY)
    spec = ir.Table("t", (key,), (ir.ActionRef("a"),), ir.ActionCall("a", (0,)), 64)
    table = Table(spec, {"a": (16,)}, {"a": (16,)})
    naive: dict[tuple[int, int, int], int] = {}
    for number, (wanted, mask, priority) in enumerate(entries, start=1):
        if (wanted & mask, mask, priority) not in naive:
            naive[wanted & mask, mask, priority] = number
            table.insert(TableEntry((Ternary(wanted & mask, mask),), "a", (number,), priority))
    best = max((place[2] for place in naive if value & place[1] == place[0]), default=None)
    row = table.lookup((value,))
    assert (row.entry.priority if row else None) == best


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 8)), max_size=12), st.integers(0, 255))
def test_an_lpm_table_agrees_with_a_naive_search(prefixes: list[tuple[int, int]], value: int) -> None:
    key = ir.Key("k", ir.Name("k", ir.Bits(8)), LPM)
    spec = ir.Table("t", (key,), (ir.ActionRef("a"),), ir.ActionCall("a", (0,)), 64)
    table = Table(spec, {"a": (16,)}, {"a": (16,)})
    naive = {Lpm(number >> (8 - length) << (8 - length), length) for number, length in prefixes}
    for match in naive:
        table.insert(TableEntry((match,), "a", (match.prefix_len,)))
    longest = max((match.prefix_len for match in naive if matches(match, value, 8)), default=None)
    row = table.lookup((value,))
    assert (row.entry.parameters[0] if row else None) == longest


def test_of_several_prefixes_the_first_keys_counts_most(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", LPM), ("kind", LPM), size=9)
    first, second = (Lpm(0xAB00, 8), Lpm(0, 0)), (Lpm(0, 0), Lpm(0b1100, 4))
    both = Lpm(0xAB00, 8), Lpm(0b1000, 1)
    for port, match in enumerate((second, first, both), 1):
        table.insert(send(port, *match))
    assert [port_for(table, 0xAB01, 0b1100), port_for(table, 0xAB01, 0b0100)] == [3, 2]
    assert [port_for(table, 0xAA01, 0b1100), port_for(table, 0xAA01, 0b0100)] == [1, None]
    table.delete(both)
    assert port_for(table, 0xAB01, 0b1100) == 2
    refusal(P4RuntimeCode.ALREADY_EXISTS, "has an entry", table.insert, send(9, *first))
    refusal(P4RuntimeCode.NOT_FOUND, "no entry", table.delete, both)


_PREFIX = st.tuples(st.integers(0, 15), st.integers(0, 4)).map(
    lambda given: Lpm(given[0] >> (4 - given[1]) << (4 - given[1]), given[1])
)


@given(st.sets(st.tuples(_PREFIX, _PREFIX), max_size=12), st.integers(0, 15), st.integers(0, 15))
def test_a_table_of_two_prefixes_agrees_with_a_naive_search(
    entries: set[tuple[Lpm, Lpm]], first: int, second: int
) -> None:
    keys = tuple(ir.Key(name, ir.Name(name, ir.Bits(4)), LPM) for name in "kl")
    spec = ir.Table("t", keys, (ir.ActionRef("a"),), ir.ActionCall("a", (0,)), 64)
    table = Table(spec, {"a": (16,)}, {"a": (16,)})
    for one, other in entries:
        table.insert(TableEntry((one, other), "a", (one.prefix_len << 4 | other.prefix_len,)))
    fitting = [
        one.prefix_len << 4 | other.prefix_len
        for one, other in entries
        if matches(one, first, 4) and matches(other, second, 4)
    ]
    row = table.lookup((first, second))
    assert (row.entry.parameters[0] if row else None) == max(fitting, default=None)


def test_set_default_chooses_what_a_miss_runs(hand: SimpleNamespace) -> None:
    engine: Engine = hand.engine()
    engine.set_default("forward", "send", (3,))
    assert engine.process(bytes(4), 0).port == 3
    refusal(P4RuntimeCode.INVALID_ARGUMENT, "takes 1 parameter", engine.set_default, "forward", "send", ())


def test_what_is_remembered_of_an_entry_comes_back_in_its_place_with_its_counts(
    hand: SimpleNamespace,
) -> None:
    table = made(hand, ("number", TERNARY))
    for port, mask in ((1, 0), (2, 1), (3, 2)):
        table.insert(send(port, Ternary(0, mask), priority=5))
    table.lookup((0,), 60)
    first, absent = (Ternary(0, 0),), (Ternary(4, 4),)
    undos = [table.remember(first, 5), table.remember(absent, 5)]
    table.delete(first, 5)
    table.insert(send(9, *absent, priority=5))
    assert port_for(table, 0) == 2
    for undo in undos:
        undo()
    assert [row.entry.parameters[0] for row in table.rows()] == [1, 2, 3]
    assert (table.row(first, 5).hits, table.row(first, 5).bytes) == (1, 60)
    assert port_for(table, 0) == 1


def test_an_entry_is_idle_once_its_timeout_has_passed_since_it_came_or_was_hit(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", EXACT), idle_timeout=True)
    entry = TableEntry((Exact(7),), "C.drop", idle_timeout_ns=100)
    table.insert(entry, 50)
    assert [table.idle(now_ns) for now_ns in (149, 150, 249)] == [[], [entry], []]
    table.lookup((7,), 60, 200)
    assert [table.idle(now_ns) for now_ns in (250, 299, 300)] == [[], [], [entry]]


def test_an_entry_that_was_put_back_is_idle_by_its_own_packets(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", EXACT), idle_timeout=True)
    entry = TableEntry((Exact(7),), "C.drop", idle_timeout_ns=100)
    table.insert(entry, 0)
    table.remember((Exact(7),))()
    table.lookup((7,), 60, 80)
    assert [table.idle(now_ns) for now_ns in (100, 179, 180)] == [[], [], [entry]]


def test_an_idle_entry_is_told_of_again_each_time_that_its_timeout_has_passed(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", EXACT), idle_timeout=True)
    entry = TableEntry((Exact(7),), "C.drop", idle_timeout_ns=100)
    table.insert(entry, 50)
    told = [now_ns for now_ns in range(0, 600, 10) if table.idle(now_ns)]
    assert told == [150, 250, 350, 450, 550]


def test_a_modified_or_inserted_entry_is_told_of_in_its_turn(hand: SimpleNamespace) -> None:
    table = made(hand, ("number", EXACT), idle_timeout=True)
    slow = TableEntry((Exact(7),), "C.drop", idle_timeout_ns=1_000)
    table.insert(slow, 0)
    assert table.idle(10) == []
    quick = TableEntry((Exact(8),), "C.drop", idle_timeout_ns=20)
    table.insert(quick, 10)
    assert table.idle(30) == [quick]
    table.modify(TableEntry((Exact(8),), "C.drop"))
    table.modify(TableEntry((Exact(7),), "C.drop", idle_timeout_ns=40))
    assert [entry.matches for entry in table.idle(50)] == [(Exact(7),)]
