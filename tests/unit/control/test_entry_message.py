# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nicemu.control.entry_message import call_of_message, entry_message, matches_of_message
from nicemu.control.messages import messages
from nicemu.control.schema import Schema
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Exact, Lpm, Optional, Program, Range, TableEntry, Ternary, ir, p4info_of

INVALID = P4RuntimeCode.INVALID_ARGUMENT
DROP = "R.drop"


@st.composite
def acl_entries(draw: st.DrawFn) -> TableEntry:
    mask = draw(st.integers(0, (1 << 32) - 1))
    low, high = sorted((draw(st.integers(0, 65535)), draw(st.integers(0, 65535))))
    match = Ternary(draw(st.integers(0, (1 << 32) - 1)) & mask, mask)
    return TableEntry((match, Range(low, high)), DROP, (), draw(st.integers(1, (1 << 31) - 1)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acl_entries())
def test_an_entry_survives_the_wire(schema: Schema, entry: TableEntry) -> None:
    table = schema.table("R.acl")
    message = messages().TableEntry.FromString(entry_message(entry, table).SerializeToString())
    assert matches_of_message(message, table) == entry.matches
    assert call_of_message(message.action, table, default=False) == (
        entry.action,
        entry.parameters,
        None,
    )
    assert message.priority == entry.priority


@pytest.mark.parametrize(
    ("table", "matches", "fields"),
    [
        ("R.route", (Lpm(0, 0),), 0),
        ("R.route", (Lpm(0, 1),), 1),
        ("R.acl", (Ternary(0, 0), Range(0, 65535)), 0),
        ("R.acl", (Ternary(0, 1), Range(0, 65535)), 1),
        ("R.session", (Exact(0), Exact(0)), 2),
    ],
)
def test_a_match_that_accepts_everything_is_left_out(
    schema: Schema, table: str, matches: tuple[Exact | Lpm | Ternary | Range, ...], fields: int
) -> None:
    found = schema.table(table)
    message = entry_message(
        TableEntry(matches, found.actions[0].name, (1,) * len(found.actions[0].params)), found
    )
    assert len(message.match) == fields
    assert matches_of_message(message, found) == matches


@pytest.mark.parametrize(("value", "fields"), [(0, 1), (7, 1), (None, 0)])
def test_an_optional_match_is_a_field_with_a_value_or_none(
    routing: Program, value: int | None, fields: int
) -> None:
    (session,) = (table for table in routing.tables if table.name == "R.session")
    keys = (replace(session.keys[0], match_kind=ir.MatchKind.OPTIONAL), session.keys[1])
    table = Schema(p4info_of(replace(routing, tables=(replace(session, keys=keys),)))).table("R.session")
    entry = TableEntry((Optional(value), Exact(1)), DROP, (), 5)
    message = entry_message(entry, table)
    assert [field.WhichOneof("field_match_type") for field in message.match] == ["optional"] * fields + [
        "exact"
    ]
    assert matches_of_message(message, table) == entry.matches


def test_fields_may_come_in_any_order_and_with_leading_zeros(schema: Schema) -> None:
    table = schema.table("R.session")
    message = messages().TableEntry(table_id=table.id)
    message.match.add(field_id=2).exact.value = b"\0\0\6"
    message.match.add(field_id=1).exact.value = b"\1"
    assert matches_of_message(message, table) == (Exact(1), Exact(6))


@pytest.mark.parametrize(
    ("table", "fields", "code", "sentence"),
    [
        ("R.route", [{"field_id": 9, "exact": {"value": b"1"}}], INVALID, "1 (hdr.ip.dst)"),
        ("R.route", [{"field_id": 1, "exact": {"value": b"1"}}], INVALID, "is lpm; exact match was given"),
        ("R.route", [{"field_id": 1}], INVALID, "is lpm; no match was given"),
        ("R.route", [{"field_id": 1, "lpm": {"value": b"\0"}}], INVALID, "leave the field out"),
        ("R.route", [{"field_id": 1, "lpm": {"prefix_len": 8}}], P4RuntimeCode.OUT_OF_RANGE, "is empty"),
        (
            "R.route",
            [{"field_id": 1, "lpm": {"value": b"12345", "prefix_len": 8}}],
            P4RuntimeCode.OUT_OF_RANGE,
            "bit<32>",
        ),
        (
            "R.session",
            [{"field_id": 1, "exact": {"value": b"1"}}],
            INVALID,
            "hdr.ip.proto is exact: it needs",
        ),
        ("R.session", [{"field_id": 1, "exact": {"value": b"1"}}] * 2, INVALID, "is given twice"),
        (
            "R.acl",
            [{"field_id": 1, "ternary": {"value": b"\0", "mask": b"\0"}}],
            INVALID,
            "leave the field out",
        ),
        (
            "R.acl",
            [{"field_id": 2, "range": {"low": b"\0", "high": b"\xff\xff"}}],
            INVALID,
            "leave the field out",
        ),
    ],
)
def test_an_illegal_match_is_refused(
    schema: Schema, table: str, fields: list[dict[str, object]], code: P4RuntimeCode, sentence: str
) -> None:
    with pytest.raises(ControlError) as refused:
        matches_of_message(messages().TableEntry(match=fields), schema.table(table))
    assert refused.value.code is code
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("action", "code", "sentence"),
    [
        ({}, INVALID, "the entry has no action"),
        ({"action_profile_member_id": 1}, INVALID, "action_profile_member_id given"),
        ({"action": {"action_id": 5}}, INVALID, "no action of id 5; it has R.send ("),
        ({"action": {"action_id": "send"}}, INVALID, "no value for parameter port"),
        ({"action": {"action_id": "send", "params": [{"param_id": 2, "value": b"1"}]}}, INVALID, "1 (port)"),
        (
            {"action": {"action_id": "send", "params": [{"param_id": 1, "value": b"1"}] * 2}},
            INVALID,
            "given twice",
        ),
        (
            {"action": {"action_id": "send", "params": [{"param_id": 1, "value": b"\2\0"}]}},
            P4RuntimeCode.OUT_OF_RANGE,
            "port is bit<9>; 0x200 does not fit",
        ),
    ],
)
def test_an_illegal_action_is_refused(
    schema: Schema, action: dict[str, dict[str, object]], code: P4RuntimeCode, sentence: str
) -> None:
    table = schema.table("R.route")
    if action.get("action", {}).get("action_id") == "send":
        action = {"action": action["action"] | {"action_id": table.action("send").id}}
    with pytest.raises(ControlError) as refused:
        call_of_message(messages().TableEntry(action=action).action, table, default=False)
    assert refused.value.code is code
    assert sentence in str(refused.value)


@pytest.mark.parametrize(("action", "default"), [("drop", False), ("send", True)])
def test_an_action_stays_in_its_scope(schema: Schema, action: str, default: bool) -> None:
    table = schema.table("R.session")
    message = messages().TableEntry()
    message.action.action.action_id = table.action(action).id
    with pytest.raises(ControlError, match="may") as refused:
        call_of_message(message.action, table, default=default)
    assert refused.value.code is P4RuntimeCode.PERMISSION_DENIED
