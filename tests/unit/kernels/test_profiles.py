# SPDX-License-Identifier: Apache-2.0
"""Action profiles and selectors in kernels: the same member is chosen, and changes of it are seen at once."""

from __future__ import annotations

import pytest

from nicemu.hot import JIT
from nicemu.pipeline import (
    ActionProfile,
    ActionSet,
    Choice,
    Engine,
    Exact,
    Group,
    Member,
    MeterConfig,
    TableEntry,
    ir,
)

from .v1_programs import Engines, agree, loaded

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

ACTION = "h.h.long = h.h.long + 1;"
RAN = """switch (t.apply().action_run) {
             go: { h.h.sum = 1; } NoAction: { h.h.sum = 2; } default: { h.h.sum = 3; }
         }
         if (t.apply().hit) { h.h.kind = h.h.kind + 16; }"""


def go(port: int) -> ir.ActionCall:
    return ir.ActionCall("I.go", (port,))


def entry(value: int, choice: Choice) -> TableEntry:
    return TableEntry((Exact(value),), "", choice=choice)


def pool(engine: Engine) -> ActionProfile:
    return engine.objects.profile("pool")


def with_selector(algorithm: str, **pieces: str) -> Engines:
    engines = loaded(
        parts=f"action_selector(HashAlgorithm.{algorithm}, 16, 32w16) pool; {pieces.pop('parts', '')}",
        properties=f"implementation = pool; {pieces.pop('properties', '')}",
        keys="h.h.long: selector; h.h.kind: selector; m.signed: selector;",
        ingress=RAN,
        action=ACTION + pieces.pop("action", ""),
        **pieces,
    )
    for engine in engines:
        for member in range(5):
            pool(engine).insert_member(member, go(member))
        pool(engine).insert_member(9, ir.ActionCall("NoAction"))
        pool(engine).insert_group(1, ((3, 2), (0, 1), (9, 3)))
        pool(engine).insert_group(2, ())
    return engines


def test_an_entry_runs_the_action_of_its_member() -> None:
    engines = loaded(
        parts="action_profile(16) pool;", properties="implementation = pool;", ingress=RAN, action=ACTION
    )
    for engine in engines:
        for member in range(4):
            pool(engine).insert_member(member, go(member))
            engine.insert("t", entry(member, Member(member // 2)))
    agree(engines)
    for engine in engines:
        pool(engine).modify_member(0, ir.ActionCall("NoAction"))
        engine.modify("t", entry(2, Member(3)))
        engine.delete("t", (Exact(3),))
        pool(engine).delete_member(2)
        engine.set_default("t", "go", (77,))
    agree(engines, 2)


@pytest.mark.parametrize("algorithm", ["crc32", "crc16", "identity", "random"])
def test_a_group_chooses_the_interpreters_member(algorithm: str) -> None:
    engines = with_selector(algorithm)
    for engine in engines:
        engine.insert("t", entry(1, Group(1)))
        engine.insert("t", entry(2, Group(2)))
        engine.insert("t", entry(3, Member(4)))
    agree(engines, packets=80)
    for engine in engines:
        pool(engine).modify_group(1, ((1, 1), (2, 1), (3, 1), (4, 1)))
        pool(engine).modify_group(2, ((3, 7),))
        pool(engine).modify_member(2, go(22))
    agree(engines, 2, packets=80)
    for engine in engines:
        pool(engine).modify_group(1, ())
        engine.delete("t", (Exact(2),))
        pool(engine).delete_group(2)
    agree(engines, 3, packets=80)


def test_an_entry_may_bring_its_actions_with_their_weights() -> None:
    engines = with_selector("crc16")
    actions = ((go(1), 3), (ir.ActionCall("NoAction"), 1), (go(2), 2))
    for engine in engines:
        engine.insert("t", entry(1, ActionSet(actions)))
        engine.insert("t", entry(2, ActionSet(actions)))
        engine.insert("t", entry(3, ActionSet(actions[:1])))
    agree(engines, packets=80)
    for engine in engines:
        engine.modify("t", entry(1, ActionSet(actions[1:])))
        engine.delete("t", (Exact(2),))
    agree(engines, 2, packets=80)


def test_an_entry_of_a_profile_may_have_a_meter() -> None:
    engines = with_selector(
        "crc32",
        parts="direct_meter<bit<8>>(MeterType.packets) limit;",
        properties="meters = limit;",
        action="limit.read(m.x);",
        egress="h.h.value = m.x;",
    )
    for engine in engines:
        for value in range(4):
            engine.insert("t", entry(value, Group(1 + value % 2)))
            row = engine.row("t", (Exact(value),))
            row.meter.configure(MeterConfig(2.0, 3, 5.0, 4), 0)
    agree(engines, packets=80, step_ns=50_000_000)


def test_members_that_a_write_has_taken_back_are_forgotten() -> None:
    engines = with_selector("crc16")
    for engine in engines:
        held = pool(engine)
        engine.insert("t", entry(1, Group(1)))
        engine.insert("t", entry(2, Member(4)))
        before, group = held.members[4], held.groups[1]
        held.members.pop(4)  # as the control plane does it, and puts it back
        held.put_back_group(1, None, 0)
        held.members[4] = before
        held.put_back_group(1, group, 0)
        held.members[3] = go(33)
    agree(engines, packets=80)


def test_a_profile_comes_with_another_engines_program() -> None:
    plain, fast = with_selector("crc16")
    other = Engine(seed=7)
    assert fast.program is not None
    other.load(fast.program)
    for engine in (plain, other):
        if engine is other:
            pool(other).insert_member(0, go(5))
            pool(other).insert_member(3, go(6))
            pool(other).insert_member(9, ir.ActionCall("NoAction"))
            pool(other).insert_group(1, ((3, 2), (0, 1), (9, 3)))
        else:
            pool(plain).modify_member(0, go(5))
            pool(plain).modify_member(3, go(6))
        engine.insert("t", entry(1, Group(1)))
    fast.adopt(other)
    agree((plain, fast))


BUMPED = 'bump(h.h.kind): selector @name("a"); h.h.kind: exact; '
LAST = '(other.apply().hit ? 8w1 : 8w2): selector @name("b");'


@pytest.mark.parametrize("last", [LAST, LAST.replace("8w1 : 8w2", "bump(h.h.value) : bump(h.h.value)")])
def test_the_keys_of_a_selector_are_evaluated_with_the_others_in_their_order_whatever_is_found(
    last: str,
) -> None:
    """P4-16, "Match-action units": the keys are evaluated where the table is applied."""
    entries = "const entries = { 1: NoAction(); }"
    engines = loaded(
        types="bit<8> bump(inout bit<8> n) { n = n + 1; return n; }",
        parts="action_selector(HashAlgorithm.crc16, 16, 16) pool;"
        f"table other {{ key = {{ h.h.kind: exact; }} actions = {{ NoAction; }} {entries} }}",
        keys=BUMPED + last,
        properties="implementation = pool;",
        ingress="if (t.apply().hit) { h.h.sum = 7; }",
        action=ACTION,
    )
    for engine in engines:
        for member in range(5):
            pool(engine).insert_member(member, go(member))
        pool(engine).insert_group(1, ((3, 2), (0, 1), (2, 3)))
        for value in range(4):
            engine.insert("t", TableEntry((Exact(value), Exact(1)), "", choice=Group(1)))
            engine.insert("t", TableEntry((Exact(value), Exact(4)), "", choice=Member(4)))
        for frame, is_hit in ((bytes([0, 3]), True), (bytes([3, 3]), True), (bytes([0, 4]), False)):
            found = engine.process(frame + bytes(10), 1).frame
            assert found is not None
            assert found[:2] == bytes([frame[0] + 1, frame[1] + (last != LAST)])
            assert found[2:4] == bytes([0, 7] if is_hit else 2)
    agree(engines, packets=80)


def test_the_key_of_a_selector_has_its_effect_where_there_is_no_other_key() -> None:
    engines = loaded(
        types="bit<8> bump(inout bit<8> n) { n = n + 1; return n; }",
        parts="action_selector(HashAlgorithm.crc16, 16, 16) pool;"
        'table u { key = { bump(h.h.kind): selector @name("a"); } actions = { NoAction; }'
        "implementation = pool; }",
        ingress="u.apply();",
    )
    for engine in engines:
        frame = engine.process(bytes([3, 3]) + bytes(10), 1).frame
        assert frame is not None
        assert frame[0] == 4
    agree(engines)
