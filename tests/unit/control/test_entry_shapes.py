# SPDX-License-Identifier: Apache-2.0
"""What is read straight out of an encoded update is what the update means; all else has no shape."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nicemu.control import entry_shapes
from nicemu.control.changes import Change
from nicemu.control.entities import change_of
from nicemu.control.entry_changes import DeleteEntry, InsertEntry, ModifyEntry
from nicemu.control.entry_shapes import EntryShapes
from nicemu.control.messages import Message, messages
from nicemu.control.schema import Schema
from nicemu.errors import ControlError
from nicemu.pipeline import Engine, Program, p4info_of

Fields: TypeAlias = dict[str, Any]
INSERT, MODIFY, DELETE = 1, 2, 3
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def schema(routing: Program) -> Schema:
    return Schema(p4info_of(routing))


@pytest.fixture
def shapes(schema: Schema) -> EntryShapes:
    return EntryShapes(schema)


def update_of(schema: Schema, table: str, match: list[Fields], port: bytes, **others: Any) -> Message:  # noqa: ANN401
    """Return an update whose entry sends to a port; matches without a field id are of the keys in order."""
    found = schema.table(table)
    action = found.action("send")
    update = messages().Update(type=others.pop("type", INSERT))
    fields = [{"field_id": key.id} | given for key, given in zip(found.keys, match, strict=False)]
    params = [{"param_id": action.params[0].id, "value": port}]
    entry = {"table_id": found.id, "match": fields, **others}
    update.entity.table_entry.CopyFrom(messages().TableEntry(**entry))
    update.entity.table_entry.action.action.CopyFrom(
        messages().TableEntry(action={"action": {"action_id": action.id, "params": params}}).action.action
    )
    return update


def exact(schema: Schema, mac: bytes, proto: bytes, port: bytes, **others: Any) -> Message:  # noqa: ANN401
    return update_of(
        schema, "session", [{"exact": {"value": mac}}, {"exact": {"value": proto}}], port, **others
    )


def lpm(schema: Schema, value: bytes, prefix_len: int, port: bytes = b"\1") -> Message:
    return update_of(schema, "route", [{"lpm": {"value": value, "prefix_len": prefix_len}}], port)


def understood(update: Message, schema: Schema) -> object:
    """Return what the table takes of an update, or the code of its refusal."""
    try:
        return change_of(update, schema)
    except ControlError as error:
        return error.code


def learn(shapes: EntryShapes, schema: Schema, update: Message) -> None:
    shapes.learn(update, update.SerializeToString(), change_of(update, schema))


def found(shapes: EntryShapes, update: Message) -> Change | None:
    data = update.SerializeToString()
    shape = shapes.shape_of(data)
    return shape.changes([data])[0] if shape is not None else None


def test_the_first_of_a_shape_teaches_the_others(schema: Schema, shapes: EntryShapes) -> None:
    first, other = exact(schema, b"\1" * 6, b"\6", b"\3"), exact(schema, b"\2" * 6, b"\x11", b"\4")
    assert found(shapes, first) is None
    learn(shapes, schema, first)
    change = found(shapes, other)
    assert change is not None
    assert change == change_of(other, schema)


@pytest.mark.parametrize(("update_type", "kind"), [(MODIFY, ModifyEntry), (DELETE, DeleteEntry)])
def test_modifications_and_deletions_have_shapes_of_their_own(
    schema: Schema, shapes: EntryShapes, update_type: int, kind: type
) -> None:
    def made(mac: bytes) -> Message:
        update = exact(schema, mac, b"\6", b"\3", type=update_type)
        if update_type == DELETE:
            update.entity.table_entry.ClearField("action")
        return update

    learn(shapes, schema, exact(schema, b"\1" * 6, b"\6", b"\3"))
    assert found(shapes, made(b"\2" * 6)) is None
    learn(shapes, schema, made(b"\2" * 6))
    change = found(shapes, made(b"\3" * 6))
    assert isinstance(change, kind)
    assert change == change_of(made(b"\3" * 6), schema)


def test_a_run_of_one_shape_ends_where_another_begins(schema: Schema, shapes: EntryShapes) -> None:
    updates = [exact(schema, bytes([number]) * 6, b"\6", b"\3") for number in range(1, 5)]
    others = [
        exact(schema, b"\7" * 6, b"\6", b"\3", type=MODIFY),
        exact(schema, b"\7" * 5, b"\6", b"\3"),
        exact(schema, b"\7" * 6, b"\6", b"\3", priority=1),
    ]
    learn(shapes, schema, updates[0])
    encoded = [update.SerializeToString() for update in updates]
    shape = shapes.shape_of(encoded[0])
    assert shape is not None
    expected = [change_of(update, schema) for update in updates]
    assert shape.changes(encoded) == expected
    entries = [change.entry for change in expected if isinstance(change, InsertEntry)]
    assert shape.entries(encoded) == entries
    assert len(entries) == len(updates)
    for other in others:
        assert shape.end_of_run([*encoded, other.SerializeToString(), *encoded], 1) == 4


@SETTINGS
@given(
    updates=st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=7),
            st.binary(min_size=1, max_size=2),
            st.binary(min_size=1, max_size=3),
            st.sampled_from(
                [
                    {},
                    {},
                    {"priority": 1},
                    {"metadata": b"m"},
                    {"type": MODIFY},
                    {"type": MODIFY},
                    {"type": DELETE},
                ]
            ),
        ),
        max_size=12,
    )
)
def test_what_has_a_shape_is_what_it_would_be_without(
    schema: Schema, routing: Program, updates: list[tuple[bytes, bytes, bytes, Fields]]
) -> None:
    shapes, engine = EntryShapes(schema), Engine()
    engine.load(routing)
    for mac, proto, port, others in updates:
        update = exact(schema, mac, proto, port, **others)
        if update.type == DELETE:
            update.entity.table_entry.ClearField("action")
        expected, change = understood(update, schema), found(shapes, update)
        if change is not None:
            assert change == expected
        if isinstance(change, InsertEntry | ModifyEntry):
            engine.table(change.table).rules.check(change.entry)
        if isinstance(expected, InsertEntry | ModifyEntry | DeleteEntry):
            shapes.learn(update, update.SerializeToString(), expected)


@SETTINGS
@given(
    prefixes=st.lists(st.tuples(st.binary(min_size=1, max_size=4), st.integers(1, 32)), max_size=12),
)
def test_a_prefix_with_bits_behind_its_length_has_no_shape(
    schema: Schema, routing: Program, prefixes: list[tuple[bytes, int]]
) -> None:
    shapes, engine = EntryShapes(schema), Engine()
    engine.load(routing)
    for value, prefix_len in prefixes:
        update = lpm(schema, value, prefix_len)
        change = found(shapes, update)
        if change is not None:
            assert isinstance(change, InsertEntry)
            engine.table(change.table).rules.check(change.entry)
        learn(shapes, schema, update)


def test_a_value_wider_than_its_field_has_no_shape(schema: Schema, shapes: EntryShapes) -> None:
    learn(shapes, schema, exact(schema, b"\1" * 6, b"\6", b"\0\3"))
    assert found(shapes, exact(schema, b"\1" * 6, b"\6", b"\1\xff")) is not None
    assert found(shapes, exact(schema, b"\1" * 6, b"\6", b"\2\0")) is None


@pytest.mark.parametrize(
    "others",
    [
        {"priority": 3},
        {"metadata": b"x"},
        {"controller_metadata": 4},
        {"counter_data": {"packet_count": 1}},
        {"type": DELETE},
    ],
    ids=["illegal priority", "metadata", "controller metadata", "counter", "deletion that has an action"],
)
def test_more_than_matches_and_an_action_is_no_shape(
    schema: Schema, shapes: EntryShapes, others: Fields
) -> None:
    update = exact(schema, b"\1" * 6, b"\6", b"\3", **others)
    learn(shapes, schema, update)
    assert found(shapes, update) is None


@pytest.mark.parametrize("prefix_len", [-1, 0, 33, 40, 1 << 20])
def test_a_prefix_that_no_key_has_is_no_shape(
    schema: Schema, shapes: EntryShapes, routing: Program, prefix_len: int
) -> None:
    update = lpm(schema, b"\x0a\0\0\1", prefix_len)
    try:
        change = change_of(update, schema)
    except ControlError:
        return
    shapes.learn(update, update.SerializeToString(), change)
    assert found(shapes, update) is None


def test_matches_in_another_order_than_the_keys_have_no_shape(schema: Schema, shapes: EntryShapes) -> None:
    update = exact(schema, b"\1" * 6, b"\6", b"\3")
    fields = list(update.entity.table_entry.match)[::-1]
    del update.entity.table_entry.match[:]
    update.entity.table_entry.match.extend(fields)
    learn(shapes, schema, update)
    assert found(shapes, update) is None


def test_shapes_are_bounded(schema: Schema, shapes: EntryShapes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_shapes, "MAX_SHAPES", 3)
    prefixes = [lpm(schema, b"\x80\0\0\0", length) for length in range(1, 9)]
    for update in prefixes:
        learn(shapes, schema, update)
    assert [found(shapes, update) is not None for update in prefixes] == [True] * 3 + [False] * 5
