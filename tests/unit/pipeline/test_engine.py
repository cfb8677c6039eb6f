# SPDX-License-Identifier: Apache-2.0
"""The engine: loading, swapping, counting, and the control plane's names."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Disposition, Engine, Exact, TableEntry, ir

FRAME = bytes.fromhex("35123480")
ENTRY = TableEntry((Exact(0x1234),), "send", (4,))


def test_without_a_program_every_frame_goes_to_the_host_unchanged() -> None:
    engine = Engine()
    verdict = engine.process(memoryview(FRAME), 3)
    assert (verdict.disposition, verdict.frame, engine.program, engine.tables()) == (
        Disposition.HOST,
        FRAME,
        None,
        [],
    )


def test_tables_cannot_be_filled_before_a_program_is_loaded() -> None:
    with pytest.raises(ControlError, match="no program is loaded") as caught:
        Engine().insert("session", ENTRY)
    assert caught.value.code is P4RuntimeCode.FAILED_PRECONDITION


def test_a_failed_load_leaves_the_old_program_and_its_entries_running(hand: SimpleNamespace) -> None:
    engine: Engine = hand.engine()
    engine.insert("forward", ENTRY)
    old = engine.program
    with pytest.raises(ControlError):
        engine.load(hand.program(ir.ApplyTable("C.lost")))
    assert engine.program is old
    assert engine.process(FRAME, 0).port == 4


def test_a_load_replaces_program_and_entries_at_once(hand: SimpleNamespace) -> None:
    engine: Engine = hand.engine()
    engine.insert("forward", ENTRY)
    engine.load(replace(hand.program(), name="second"))
    assert engine.program is not None
    assert (engine.program.name, engine.read("forward")) == ("second", [])


@pytest.mark.parametrize("name", ["C.forward", "forward"])
def test_a_table_goes_by_its_full_name_or_a_unique_suffix(hand: SimpleNamespace, name: str) -> None:
    engine: Engine = hand.engine()
    engine.insert(name, ENTRY)
    assert engine.read(name) == [ENTRY._replace(action="C.send")]
    engine.process(FRAME, 0)
    assert engine.hits(name, (Exact(0x1234),)) == 1
    engine.modify(name, TableEntry((Exact(0x1234),), "C.drop"))
    engine.delete(name, (Exact(0x1234),))
    assert engine.read(name) == []


@pytest.mark.parametrize(
    ("table", "entry", "words"),
    [
        ("foward", ENTRY, "table foward is unknown; did you mean forward?"),
        ("orward", ENTRY, "table orward is unknown"),
        ("forward", ENTRY._replace(action="sent"), "action sent is unknown; did you mean send?"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(
    hand: SimpleNamespace, table: str, entry: TableEntry, words: str
) -> None:
    with pytest.raises(ControlError, match=words.replace("?", r"\?")) as caught:
        hand.engine().insert(table, entry)
    assert caught.value.code is P4RuntimeCode.NOT_FOUND


def test_tables_tell_what_they_are_and_how_they_were_used(hand: SimpleNamespace) -> None:
    engine: Engine = hand.engine()
    engine.insert("forward", ENTRY)
    for frame in (FRAME, FRAME, bytes(4)):
        engine.process(frame, 0)
    (info,) = engine.tables()
    assert (info.name, info.size, info.entry_count, info.hits, info.misses) == ("C.forward", 4, 1, 2, 1)
    assert [(key.name, key.id, key.width, key.match_kind) for key in info.keys] == [
        ("number", 1, 16, "exact")
    ]
    assert [(item.alias, [(p.name, p.id, p.width) for p in item.params]) for item in info.actions] == [
        ("send", [("port", 1, 16)]),
        ("drop", []),
    ]


def test_drops_are_counted_under_their_reasons(hand: SimpleNamespace) -> None:
    engine: Engine = hand.engine()
    for frame in (b"", FRAME, FRAME[:3], bytes(9217)):
        engine.process(frame, 0)
    assert engine.drops == {"parser.too_short": 2, "pipeline.dropped": 1, "pipeline.oversized": 1}


def test_a_frame_of_9216_bytes_passes_and_one_byte_more_is_dropped(hand: SimpleNamespace) -> None:
    engine: Engine = hand.engine(ir.CallFunction("send_to_host"))
    assert engine.process(bytes(9216), 0).disposition is Disposition.HOST
    assert engine.process(bytes(9217), 0).drop_reason == "pipeline.oversized"


SIZES = st.one_of(st.binary(max_size=80), st.integers(0, 9300).map(bytes))


@given(frame=SIZES, port=st.integers(0, 1 << 20))
def test_no_bytes_make_the_engine_raise(hand_made: SimpleNamespace, frame: bytes, port: int) -> None:
    verdict = hand_made.engine().process(frame, port, trace=True)
    assert (verdict.disposition is Disposition.DROP) == (verdict.drop_reason != "")


def test_an_engine_takes_another_s_program_with_all_that_it_holds(hand: SimpleNamespace) -> None:
    engine, staged = hand.engine(), hand.engine()
    staged.insert("forward", TableEntry((Exact(7),), "send", (3,)))
    engine.adopt(staged)
    assert engine.read("forward") == [TableEntry((Exact(7),), "C.send", (3,))]


def test_time_goes_forward_with_frames_and_ticks(hand: SimpleNamespace) -> None:
    engine = hand.engine()
    engine.process(b"", 0, now_ns=5)
    engine.tick(3)
    assert engine.now_ns == 5
    engine.tick(9)
    engine.insert("forward", TableEntry((Exact(7),), "send", (3,)))
    assert engine.row("forward", (Exact(7),)).last_hit_ns == 9
