# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from nicemu.control.p4info_difference import difference
from nicemu.control.schema import Schema, parameter_of
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import P4Info, Program, p4info_of


@pytest.fixture
def p4info(routing: Program) -> P4Info:
    return p4info_of(routing)


def test_names_are_found_whole_or_by_a_suffix_that_only_one_has(schema: Schema) -> None:
    table = schema.table("route")
    assert table is schema.table("R.route")
    assert table.key("dst") is table.key("ip.dst") is table.key("hdr.ip.dst")
    assert parameter_of(table.action("send"), "port").width == 9
    with pytest.raises(ControlError, match=r"has no table 'oute'; it has R\.acl, R\.always") as refused:
        schema.table("oute")
    assert refused.value.code is P4RuntimeCode.NOT_FOUND


def test_an_ambiguous_suffix_is_refused_with_the_candidates(p4info: P4Info) -> None:
    tables = (replace(p4info.tables[0], name="A.t", id=1), replace(p4info.tables[0], name="B.t", id=2))
    with pytest.raises(ControlError, match=r"several tables 't': A\.t, B\.t; write more"):
        Schema(replace(p4info, tables=tables)).table("t")


def test_only_tables_with_ternary_or_range_keys_have_priorities(schema: Schema) -> None:
    assert [table.name for table in schema.tables if table.has_priority] == ["R.acl"]


def test_unknown_ids_are_answered_with_those_that_exist(schema: Schema) -> None:
    with pytest.raises(ControlError, match=r"no table of id 5; the program has R\.acl \("):
        schema.table_of_id(5)


def test_equal_descriptions_do_not_differ(p4info: P4Info) -> None:
    assert difference(p4info, p4info) is None


def test_sizes_aliases_and_names_of_keys_may_differ(p4info: P4Info) -> None:
    route = next(table for table in p4info.tables if table.name == "R.route")
    other = replace(route, size=5, alias="r", keys=(replace(route.keys[0], name="dst"),))
    given = replace(p4info, tables=tuple(other if table is route else table for table in p4info.tables))
    assert difference(given, p4info) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "R.path"}, "table R.path is in p4info only"),
        ({"id": 7}, "table R.route has id 7 in p4info and "),
        (
            {"keys": ()},
            "table R.route has keys (id, bits, kind) [] in p4info and [(1, 32, 'lpm')] in the program",
        ),
        ({"actions": ()}, "table R.route has actions [] in p4info and ['R.drop', 'R.send'] in the program"),
    ],
)
def test_a_table_that_means_something_else_is_named(
    p4info: P4Info, changes: dict[str, object], sentence: str
) -> None:
    tables = tuple(
        replace(table, **changes) if table.name == "R.route" else table  # type: ignore[arg-type]
        for table in p4info.tables
    )
    assert str(difference(replace(p4info, tables=tables), p4info)).startswith(sentence)


def test_an_action_that_means_something_else_is_named(p4info: P4Info) -> None:
    actions = tuple(replace(action, params=()) for action in p4info.actions)
    sentence = difference(replace(p4info, actions=actions), p4info)
    assert sentence == "action R.send has parameters (id, bits) [] in p4info and [(1, 9)] in the program"
    assert difference(replace(p4info, actions=()), p4info) == "action R.drop is in the program only"
