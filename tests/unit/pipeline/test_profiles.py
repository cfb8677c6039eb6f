# SPDX-License-Identifier: Apache-2.0
"""Action profiles and selectors, direct counters and meters, idle timeouts, priorities of entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.p4 import CompileError, compile_text
from nicemu.pipeline import (
    ActionProfile,
    ActionSet,
    Engine,
    Exact,
    Group,
    Member,
    MeterConfig,
    TableEntry,
    Ternary,
    ir,
    program_of_json,
)

SOURCE = """
#include <core.p4>
#include <v1model.p4>
header byte_t {{ bit<8> kind; bit<8> flow; }}
struct headers_t {{ byte_t h; }}
struct metadata_t {{ bit<2> colour; }}
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    state start {{ b.extract(h.h); transition accept; }}
}}
control V(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    {parts}
    action go(bit<9> port) {{ s.egress_spec = port; }}
    action none() {{ }}
    table t {{
        key = {{ h.h.kind: {kind}; {keys} }}
        actions = {{ go; none; }}
        default_action = none;
        {properties}
    }}
    apply {{ t.apply(); {apply} }}
}}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ }} }}
control C(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control D(packet_out b, in headers_t h) {{ apply {{ b.emit(h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def loaded(properties: str, kind: str = "exact", keys: str = "", parts: str = "", apply: str = "") -> Engine:
    text = SOURCE.format(properties=properties, kind=kind, keys=keys, parts=parts, apply=apply)
    engine = Engine()
    engine.load(program_of_json(compile_text(text).program.to_json()))
    return engine


def port(engine: Engine, kind: int, flow: int = 0, now_ns: int = 0) -> int:
    return engine.process(bytes((kind, flow)), 0, now_ns=now_ns).port


def go(number: int) -> ir.ActionCall:
    return ir.ActionCall("I.go", (number,))


def profile_of(engine: Engine, name: str) -> ActionProfile:
    found = engine.objects.states[name]
    assert isinstance(found, ActionProfile)
    return found


SELECTOR = "implementation = action_selector(HashAlgorithm.crc32, 64, 16);"


def test_entries_of_a_profile_share_a_member_and_follow_its_changes() -> None:
    engine = loaded("implementation = action_profile(4);")
    profile = profile_of(engine, "I.t")
    profile.insert_member(7, go(3))
    for kind in (1, 2):
        engine.insert("t", TableEntry((Exact(kind),), "", choice=Member(7)))
    assert [port(engine, kind) for kind in (1, 2, 3)] == [3, 3, 0]
    profile.modify_member(7, go(4))
    assert [port(engine, kind) for kind in (1, 2)] == [4, 4]


def test_a_profile_may_have_a_name_of_its_own() -> None:
    engine = loaded("implementation = ap;", parts="action_profile(4) ap;")
    assert profile_of(engine, "I.ap").size == 4


def test_members_of_a_profile_of_several_tables_have_actions_that_all_of_them_have() -> None:
    parts = "action_profile(4) ap; action mark(bit<8> value) { h.h.flow = value; }"
    other = """implementation = ap; }
               table u { key = { h.h.flow: exact; } actions = { mark; go; } implementation = ap;"""
    text = SOURCE.format(properties=other, kind="exact", keys="", parts=parts, apply="u.apply();")
    compiled = compile_text(text)
    assert "I.ap, and have not the same actions" in "".join(one.render() for one in compiled.diagnostics)
    engine = Engine()
    engine.load(compiled.program)
    profile = profile_of(engine, "I.ap")
    with pytest.raises(ControlError, match=r"has no action I\.mark"):
        profile.insert_member(1, ir.ActionCall("I.mark", (5,)))
    profile.insert_member(2, go(3))
    engine.insert("t", TableEntry((Exact(1),), "", choice=Member(2)))
    engine.insert("u", TableEntry((Exact(0),), "", choice=Member(2)))
    assert port(engine, 1) == 3


def test_a_group_spreads_flows_over_its_members_by_weight_and_keeps_a_flow_where_it_is() -> None:
    engine = loaded(SELECTOR, keys="h.h.flow: selector;")
    profile = profile_of(engine, "I.t")
    for member, number in ((1, 5), (2, 6)):
        profile.insert_member(member, go(number))
    profile.insert_group(1, ((1, 3), (2, 1)))
    engine.insert("t", TableEntry((Exact(1),), "", choice=Group(1)))
    ports = [port(engine, 1, flow) for flow in range(256)]
    assert ports == [port(engine, 1, flow) for flow in range(256)]
    counts = Counter(ports)
    assert set(counts) == {5, 6}
    assert 2 < counts[5] / counts[6] < 4


def test_a_selector_chooses_the_member_at_the_hash_modulo_the_weight() -> None:
    import zlib

    engine = loaded(SELECTOR, keys="h.h.flow: selector;")
    profile = profile_of(engine, "I.t")
    for member in range(3):
        profile.insert_member(member, go(member))
    profile.insert_group(1, ((2, 1), (0, 1), (1, 1)))
    engine.insert("t", TableEntry((Exact(1),), "", choice=Group(1)))
    for flow in range(50):
        assert port(engine, 1, flow) == zlib.crc32(bytes((flow,))) % 3


def test_a_group_without_members_runs_no_action_and_is_a_hit() -> None:
    engine = loaded(SELECTOR, keys="h.h.flow: selector;")
    profile_of(engine, "I.t").insert_group(1, ())
    engine.insert("t", TableEntry((Exact(1),), "", choice=Group(1)))
    assert port(engine, 1) == 0
    assert engine.hits("t", (Exact(1),)) == 1


def test_an_entry_can_bring_a_set_of_actions_of_its_own() -> None:
    engine = loaded(SELECTOR, keys="h.h.flow: selector;")
    engine.insert("t", TableEntry((Exact(1),), "", choice=ActionSet(((go(8), 1),))))
    assert port(engine, 1) == 8


def test_what_is_in_use_stays() -> None:
    engine = loaded(SELECTOR, keys="h.h.flow: selector;")
    profile = profile_of(engine, "I.t")
    profile.insert_member(1, go(1))
    profile.insert_group(1, ((1, 1),))
    engine.insert("t", TableEntry((Exact(1),), "", choice=Group(1)))
    for act in (profile.delete_member, profile.delete_group):
        with pytest.raises(ControlError) as raised:
            act(1)
        assert raised.value.code is P4RuntimeCode.FAILED_PRECONDITION
    engine.modify("t", TableEntry((Exact(1),), "", choice=Member(1)))
    profile.delete_group(1)
    engine.delete("t", (Exact(1),))
    profile.delete_member(1)
    assert (profile.members, profile.groups) == ({}, {})


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (
            lambda p: p.insert_member(1, ir.ActionCall("I.gone")),
            "has no action I.gone; there is I.go, I.none",
        ),
        (lambda p: p.insert_member(1, ir.ActionCall("I.go")), "I.go takes 1 parameter; 0 given"),
        (lambda p: p.insert_member(1, go(512)), "0x200 does not fit bit<9>"),
        (lambda p: p.modify_member(1, go(1)), "has no member 1"),
        (lambda p: p.insert_group(1, ((1, 1),)), "has no member 1"),
        (lambda p: [p.insert_member(n, go(1)) for n in range(65)], "is full: its size is 64 members"),
        (lambda p: [p.insert_member(1, go(1)), p.insert_member(1, go(1))], "has a member 1 already"),
        (lambda p: [p.insert_member(1, go(1)), p.insert_group(1, ((1, 0),))], "weight 0 given"),
        (
            lambda p: [p.insert_member(1, go(1)), p.insert_group(1, ((1, 65),))],
            "would have a size of 65; its size is 64",
        ),
        (lambda p: [p.insert_member(1, go(1)), p.insert_group(1, ((1, 1), (1, 1)))], "names a member twice"),
    ],
)
def test_a_profile_refuses_what_cannot_be_and_says_why(act: object, words: str) -> None:
    profile = profile_of(loaded(SELECTOR, keys="h.h.flow: selector;"), "I.t")
    with pytest.raises(ControlError, match=words):
        act(profile)  # type: ignore[operator]


def test_a_table_takes_actions_or_members_but_not_the_other() -> None:
    direct, shared = loaded(""), loaded("implementation = action_profile(4);")
    with pytest.raises(ControlError, match="its entries need an action"):
        direct.insert("t", TableEntry((Exact(1),), "", choice=Member(1)))
    with pytest.raises(ControlError, match="need a member, group or set of its action profile"):
        shared.insert("t", TableEntry((Exact(1),), "go", (1,)))


def test_an_entry_that_names_no_member_changes_nothing() -> None:
    engine = loaded("implementation = action_profile(4);")
    with pytest.raises(ControlError, match="has no member 9"):
        engine.insert("t", TableEntry((Exact(1),), "", choice=Member(9)))
    assert engine.read("t") == []


def test_every_hit_of_an_entry_counts_in_packets_and_bytes() -> None:
    engine = loaded("counters = seen;", parts="direct_counter(CounterType.packets_and_bytes) seen;")
    engine.insert("t", TableEntry((Exact(1),), "go", (1,)))
    engine.process(b"\1\0", 0)
    engine.process(b"\1\0more", 0)
    engine.process(b"\2\0", 0)
    row = engine.row("t", (Exact(1),))
    assert (row.hits, row.bytes) == (2, 8)


def test_a_direct_meter_marks_each_hit_of_its_entry() -> None:
    engine = loaded(
        "meters = rate;",
        parts="direct_meter<bit<2>>(MeterType.packets) rate;",
        apply="rate.read(m.colour); h.h.flow = (bit<8>) m.colour;",
    )
    engine.insert("t", TableEntry((Exact(1),), "none"))
    engine.row("t", (Exact(1),)).meter.configure(MeterConfig(1, 1, 1, 2), 0)
    assert [engine.process(b"\1\0", 0).frame[1] for _ in range(3)] == [0, 1, 2]


def test_an_entry_is_idle_when_no_packet_has_matched_it_for_its_timeout() -> None:
    engine = loaded("support_timeout = true;")
    engine.insert("t", TableEntry((Exact(1),), "go", (1,), idle_timeout_ns=100))
    assert engine.idle(99) == []
    port(engine, 1, now_ns=50)
    assert engine.idle(149) == []
    ((table, entry),) = engine.idle(150)
    assert (table, entry.matches) == ("I.t", (Exact(1),))


def test_an_idle_timeout_needs_a_table_that_supports_one() -> None:
    with pytest.raises(ControlError, match="does not set support_timeout"):
        loaded("").insert("t", TableEntry((Exact(1),), "go", (1,), idle_timeout_ns=100))


@pytest.mark.parametrize(
    ("properties", "priorities", "first"),
    [
        ("entries = { 1: go(1); 1 &&& 1: go(2); _: go(3); }", [3, 2, 1], 1),
        ("priority_delta = 10; entries = { 1: go(1); 1 &&& 1: go(2); _: go(3); }", [21, 11, 1], 1),
        ("""priority_delta = 10;
           entries = { priority = 5: 1: go(1); priority = 50: 1 &&& 1: go(2); _: go(3);}""", [5, 50, 40], 2),
        ("""largest_priority_wins = false;
            entries = { priority = 5: 1: go(1); priority = 2: 1 &&& 1: go(2); _: go(3); }""", [1, 4, 3], 2),
    ],
)  # fmt: skip
def test_entries_of_the_program_have_the_priorities_of_the_specification(
    properties: str, priorities: list[int], first: int
) -> None:
    engine = loaded(properties, "ternary")
    assert [entry.priority for entry in engine.read("t")] == priorities
    assert [entry.matches for entry in engine.read("t")][2] == (Ternary(0, 0),)
    assert port(engine, 1) == first


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"properties": "implementation = 3;"},
         "implementation must be an object: action_profile or action_selector"),
        ({"properties": "counters = rate;", "parts": "direct_meter<bit<2>>(MeterType.packets) rate;"},
         "counters must be an object: direct_counter"),
        ({"properties": "priority_delta = 0;"}, "priority_delta is 0; above 0 was expected"),
        ({"properties": "implementation = action_profile(4); const entries = { 1: none(); }"},
         "a table with an action profile cannot have entries here"),
    ],
)  # fmt: skip
def test_a_property_that_cannot_be_is_refused(arguments: dict[str, str], words: str) -> None:
    with pytest.raises(CompileError, match=words):
        loaded(**arguments)


@pytest.mark.parametrize("properties", ["", "implementation = action_profile(4);"])
def test_a_selector_key_without_a_selector_means_nothing(properties: str) -> None:
    """As in what p4c writes for BMv2."""
    text = SOURCE.format(properties=properties, kind="exact", keys="h.h.flow: selector;", parts="", apply="")
    compiled = compile_text(text)
    (warning,) = compiled.diagnostics
    assert "a selector key means nothing" in warning.render()
    assert [key.name for key in compiled.program.tables[0].keys] == ["h.h.kind"]


def test_a_property_that_nobody_knows_is_said_to_be_ignored() -> None:
    text = SOURCE.format(properties="implementation_hint = 3;", kind="exact", keys="", parts="", apply="")
    (warning,) = compile_text(text).diagnostics
    assert "table property implementation_hint is not known, and ignored" in str(warning)


def test_a_direct_counter_belongs_to_one_table() -> None:
    with pytest.raises(CompileError, match="is the counter or meter of two tables"):
        loaded(
            "counters = seen;",
            parts="""direct_counter(CounterType.packets) seen;
                     table u { key = { h.h.kind: exact; } actions = { NoAction; } counters = seen; }""",
            apply="u.apply();",
        )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("insert", "modify", "delete", "group", "change", "remove", "use", "release", "undo")
        ),
        st.integers(0, 3),
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=3, unique_by=lambda one: one[0]),
    ),
    max_size=40,
)


@given(STEPS)
def test_what_is_held_and_how_much_room_is_left_is_known_after_any_changes(
    steps: list[tuple[str, int, list[tuple[int, int]]]],
) -> None:
    profile = ActionProfile("p", 6, algorithm=0, actions={"a": ()})
    call = ir.ActionCall("a")
    used: Counter[Member | Group] = Counter()
    for step, number, members in steps:
        groups, held = dict(profile.groups), tuple(members)
        in_groups = {member for group in groups.values() for member, _ in group}
        known = all(member in profile.members for member, _ in held)
        others = sum(weight for key, group in groups.items() if key != number for _, weight in group)
        fits = known and others + sum(weight for _, weight in held) <= 6
        choice = Member(number) if len(members) % 2 else Group(number)
        there = number in (profile.members if isinstance(choice, Member) else groups)
        ways: dict[str, tuple[bool, Callable[[], None]]] = {
            "insert": (number not in profile.members, partial(profile.insert_member, number, call)),
            "modify": (number in profile.members, partial(profile.modify_member, number, call)),
            "delete": (
                number in profile.members and number not in in_groups and not used[Member(number)],
                partial(profile.delete_member, number),
            ),
            "group": (number not in groups and fits, partial(profile.insert_group, number, held)),
            "change": (number in groups and fits, partial(profile.modify_group, number, held)),
            "remove": (number in groups and not used[Group(number)], partial(profile.delete_group, number)),
            "use": (there, partial(profile.use, choice)),
            "release": (used[choice] > 0, partial(profile.release, choice)),
            "undo": (known, partial(profile.put_back_group, number, held, 0)),
        }
        may, act = ways[step]
        if step in ("release", "undo") and not may:
            continue
        if may:
            act()
            used[choice] += {"use": 1, "release": -1}.get(step, 0)
        else:
            with pytest.raises(ControlError):
                act()


@pytest.mark.parametrize("kind", ["direct_counter", "direct_meter"])
def test_what_an_array_counts_in_is_one_of_the_ways_that_there_are(kind: str) -> None:
    carried = "<bit<2>>" if kind == "direct_meter" else ""
    parts = f"{kind}{carried}({kind.removeprefix('direct_').capitalize()}Type.bytes) c;"
    text = SOURCE.format(properties="", kind="exact", keys="", parts=parts, apply="")
    program = compile_text(text).program
    (held,) = program.externs
    wrong = replace(program, externs=(replace(held, arguments=(9,)),))
    with pytest.raises(ControlError, match="counts in unit 9"):
        Engine().load(wrong)
