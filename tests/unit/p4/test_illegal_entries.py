# SPDX-License-Identifier: Apache-2.0
"""Where entries, their priorities and the default action may stand in a table.

Source: P4-16 Language Specification 1.2.5, "Default action", "Entries", "Entry priorities".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

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
        (
            TABLE % "entries = { 1: NoAction(); priority = 3: 2: NoAction(); }",
            "the first entry has no priority, and others have",
        ),
        (
            "table t { actions = { NoAction; } entries = { _: NoAction(); } }",
            "a table without keys has no entries",
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
