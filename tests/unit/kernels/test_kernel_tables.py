# SPDX-License-Identifier: Apache-2.0
"""A kernel's table holds what the engine's table holds, whatever a controller does and takes back."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.kernels.kernel_tables import KernelTable
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, Exact, Lpm, Match, Program, Table, TableEntry, Ternary

SOURCE = """
#include <core.p4>
#include <nicemu.p4>
header tag_t {{ bit<4> kind; bit<68> wide; }}
struct headers_t {{ tag_t tag; }}
struct m_t {{ bit<8> unused; }}
parser P(packet_in packet, out headers_t h, inout m_t m, inout nic_metadata_t nic) {{
    state start {{ packet.extract(h.tag); transition accept; }}
}}
control C(inout headers_t h, inout m_t m, inout nic_metadata_t nic) {{
    action go(bit<16> port, bit<68> wide) {{ h.tag.wide = wide; send_to_port(port); }}
    action stop() {{ drop_packet(); }}
    table t {{ key = {{ {keys} }} actions = {{ go; stop; }} default_action = stop(); size = 12; }}
    apply {{ t.apply(); }}
}}
control D(packet_out p, in headers_t h, in m_t m, in nic_metadata_t nic) {{ apply {{ p.emit(h); }} }}
SmartNic(P(), C(), D()) main;
"""
KINDS = ["exact", "lpm", "ternary"]
NUMBERS = st.integers(0, 15)
WIDE = 1 << 67 | 5


class Pair:
    """A table of a program, and its twin."""

    def __init__(self, program: Program) -> None:
        self.engine = Engine()
        self.engine.load(program)
        self.table: Table = self.engine.table("t")
        self.twin = KernelTable(program, self.table.spec, compiled=False)
        self.twin.set_default(self.table.default)
        self.table.follower = self.twin

    def close(self) -> None:
        self.twin.close()

    def in_twin(self, value: int) -> tuple[int, tuple[int, ...]] | None:
        assert self.twin.table is not None
        number = self.twin.table.find(value)
        if number is None:
            return None
        entry = self.twin.table.entry(number)
        return entry.action, entry.parameters

    def in_table(self, value: int) -> tuple[int, tuple[int, ...]] | None:
        row = self.table.lookup((value,))
        if row is None:
            return None
        action = ["C.go", "C.stop"].index(row.entry.action)
        port, wide = row.entry.parameters or (0, 0)
        data = port | wide << 16
        return action, (data & (1 << 64) - 1, data >> 64)

    def check(self) -> None:
        assert [self.in_twin(value) for value in range(16)] == [self.in_table(value) for value in range(16)]


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return {kind: compile_text(SOURCE.format(keys=f"h.tag.kind: {kind};")).program for kind in KINDS}


def match_of(kind: str, number: int, bits: int) -> Match:
    if kind == "exact":
        return Exact(number)
    ones = 15 ^ 15 >> bits
    return Lpm(number & ones, bits) if kind == "lpm" else Ternary(number & ones, ones)


def entry_of(kind: str, number: int, bits: int, port: int) -> TableEntry:
    priority = 1 + number % 3 if kind == "ternary" else 0
    return TableEntry((match_of(kind, number, bits),), "C.go", (port, WIDE), priority)


def attempt(work: Callable[[], object]) -> None:
    try:
        work()
    except ControlError as error:
        assert error.code in (  # noqa: PT017 - most are not refused
            P4RuntimeCode.ALREADY_EXISTS,
            P4RuntimeCode.NOT_FOUND,
            P4RuntimeCode.RESOURCE_EXHAUSTED,
        )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_twin_finds_what_its_table_finds(
    programs: dict[str, Program], kind: str, data: st.DataObject
) -> None:
    pair = Pair(programs[kind])
    table = pair.table
    undos: list[Callable[[], None]] = []
    entries = st.builds(entry_of, st.just(kind), NUMBERS, st.integers(0, 4), st.integers(0, 99))
    for _ in range(data.draw(st.integers(1, 6))):
        some = data.draw(st.lists(entries, min_size=1, max_size=8))
        match data.draw(st.sampled_from(["insert", "insert many", "modify", "delete", "take back"])):
            case "insert many":
                table.insert_many(some)
                undos.clear()
            case "take back":
                for undo in reversed(undos):
                    undo()
                undos.clear()
                table.settle()
            case name:
                for entry in some:
                    undo = table.remember(entry.matches, entry.priority)
                    works: dict[str, Callable[[], object]] = {
                        "insert": lambda entry=entry: table.insert(entry),  # type: ignore[misc]
                        "modify": lambda entry=entry: table.modify(entry),  # type: ignore[misc]
                        "delete": lambda entry=entry: table.delete(entry.matches, entry.priority),  # type: ignore[misc]
                    }
                    attempt(works[name])
                    undos.append(undo)
        pair.check()
    pair.close()


@pytest.mark.parametrize("kind", KINDS)
def test_each_entry_of_many_is_taken_or_refused_by_itself(programs: dict[str, Program], kind: str) -> None:
    pair = Pair(programs[kind])
    some = [entry_of(kind, number, 4, number) for number in (1, 2, 1, 3, *range(16))]
    wrong = [TableEntry(some[0].matches, "C.go", (1 << 16, 0), some[0].priority)]
    outcomes = pair.table.insert_many([*wrong, *some], now_ns=5)
    codes = [error.code.name if error else None for error in outcomes]
    full = "RESOURCE_EXHAUSTED"
    there = "ALREADY_EXISTS"
    assert codes[:5] == ["OUT_OF_RANGE", None, None, there, None]
    assert codes[5:] == [None, there, there, there, *[None] * 8, *[full] * 4]
    assert [row.last_hit_ns for row in pair.table.rows()] == [5] * 12
    pair.check()
    pair.close()


def test_a_default_action_that_is_taken_back_is_the_kernel_s_again(programs: dict[str, Program]) -> None:
    pair = Pair(programs["exact"])
    put_back = pair.table.remember_default()
    pair.table.set_default("C.go", (4, WIDE))
    settled: list[int] = []
    pair.twin.settle = lambda twin: settled.append(twin.default)
    put_back()
    head = ctypes.c_uint64.from_address(settled[-1]).value
    assert head >> 32 == 1, "C.stop"
    pair.close()


def test_a_default_action_changes_in_its_place_as_entries_do(programs: dict[str, Program]) -> None:
    """Who has read its head before sees another one afterwards, even if the action is the same again."""
    pair = Pair(programs["exact"])
    heads = []
    for action, parameters in (("C.go", (4, WIDE)), ("C.stop", ()), ("C.go", (4, WIDE)), ("C.go", (5, WIDE))):
        pair.table.set_default(action, parameters)
        heads.append((pair.twin.default, ctypes.c_uint64.from_address(pair.twin.default).value))
    assert len({address for address, _ in heads}) == 1
    assert len({head for _, head in heads}) == 4
    assert not any(head & 1 for _, head in heads), "an odd one is of a change under way"
    pair.close()


def test_many_entries_that_are_put_back_are_taken_by_the_twin_together(programs: dict[str, Program]) -> None:
    pair = Pair(programs["ternary"])
    some = [entry_of("ternary", number, 4, number) for number in range(12)]
    pair.table.insert_many(some)
    undos = [pair.table.remember(entry.matches, entry.priority) for entry in some]
    for entry in some:
        pair.table.delete(entry.matches, entry.priority)
    refills: list[int] = []
    refill = pair.twin.refill
    pair.twin.refill = lambda rows: (refills.append(len(rows)), refill(rows))[1]  # type: ignore[method-assign,func-returns-value]
    for undo in reversed(undos):
        undo()
    pair.table.settle()
    assert refills == [12]
    pair.check()
    pair.close()


def test_keys_of_several_fields_lie_in_the_twin_in_their_order() -> None:
    keys = "h.tag.kind: exact; h.tag.wide: exact;"
    pair = Pair(compile_text(SOURCE.format(keys=keys)).program)
    entries = [TableEntry((Exact(kind), Exact(WIDE + kind)), "C.go", (kind, WIDE)) for kind in range(4)]
    assert pair.table.insert_many(entries) == [None] * 4
    found = [pair.in_twin(kind << 68 | WIDE + kind) for kind in range(4)]
    data = [kind | WIDE << 16 for kind in range(4)]
    assert found == [(0, (number & (1 << 64) - 1, number >> 64)) for number in data]
    assert pair.in_twin(1 << 68 | WIDE) is None
    pair.close()


def test_what_is_counted_while_counts_are_gathered_is_not_lost(programs: dict[str, Program]) -> None:
    """A kernel adds to what stands in a record, in another thread: so nobody else writes there."""
    pair = Pair(programs["exact"])
    entry = TableEntry((Exact(3),), "C.go", (1, 2))
    for _ in range(2):  # the second time in a record that was used before
        row = pair.table.insert(entry)
        number = pair.twin._records[row.number]
        assert pair.twin.table is not None
        for packets, length_bytes in ((3, 300), (3, 300), (5, 520)):
            pair.twin.table.set_counters(number, packets, length_bytes)
            pair.twin.gather(row)
            assert (row.hits, row.bytes) == (packets, length_bytes)
        pair.table.delete(entry.matches)
        assert row.hits == 5
    pair.close()


_DATA = (9, 60, 1, 130, 64, 7, 65, 48)
"""Bits of the parameters of an action: some lie in two words, some in three."""


def test_action_data_of_many_entries_lie_where_those_of_one_do() -> None:
    source = SOURCE.format(keys="h.tag.kind: exact;")
    parameters = ", ".join(f"bit<{width}> p{number}" for number, width in enumerate(_DATA))
    text = source.replace("bit<16> port, bit<68> wide", parameters)
    text = text.replace("wide = wide; send_to_port(port)", "kind = 0")
    pair = Pair(compile_text(text).program)
    chance = random.Random(3)
    entries = [
        TableEntry((Exact(number),), "C.go", tuple(chance.getrandbits(width) for width in _DATA))
        for number in range(5)
    ]
    assert pair.table.insert_many(entries) == [None] * 5
    together = [pair.in_twin(number) for number in range(5)]
    for entry in entries:
        pair.table.delete(entry.matches)
        pair.table.insert(entry)
    assert together == [pair.in_twin(number) for number in range(5)]
    assert together[0] is not None
    action, words = together[0]
    data = sum(value << sum(_DATA[:place]) for place, value in enumerate(entries[0].parameters))
    assert (action, sum(word << 64 * place for place, word in enumerate(words))) == (0, data)
    pair.close()
