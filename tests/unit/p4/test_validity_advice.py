# SPDX-License-Identifier: Apache-2.0
"""Whoever uses fields of headers of which none is ever valid is warned.

Source: P4-16 Language Specification 1.2.5, "Operations on headers".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

TYPES = "header work_t { bit<16> r; bit<16> l; }"
USE = "m.mark = headers.work.r;"
WARNING = "fields of header work_t are used, and nothing makes one valid"


def warnings(p4: SimpleNamespace, apply: str, **parts: str) -> list[str]:
    compiled = p4.compile(apply, types=TYPES, members="work_t work;", **parts)
    return [item.message for item in compiled.diagnostics]


@pytest.mark.parametrize(
    "use",
    [
        USE,
        "headers.work.r = 7;",
        "if (headers.work.isValid()) { m.mark = headers.work.r; }",
        "headers.work.setInvalid(); m.mark = headers.work.r;",
    ],
)
def test_fields_of_headers_that_are_never_valid_are_warned_of(p4: SimpleNamespace, use: str) -> None:
    assert warnings(p4, use) == [WARNING]


def test_so_is_a_key(p4: SimpleNamespace) -> None:
    table = "table t { key = { headers.work.r: exact; } actions = { NoAction; } }"
    assert warnings(p4, "t.apply();", parts=table) == [WARNING]


@pytest.mark.parametrize(
    "apply",
    [
        "headers.work.setValid();" + USE,
        "headers.work = { 1, 2 };" + USE,
        "work_t other = { 1, 2 }; m.mark = other.r;",
        "make(headers.work);" + USE,
        "",
    ],
)
def test_who_makes_one_valid_or_uses_none_is_not(p4: SimpleNamespace, apply: str) -> None:
    top = "void make(out work_t work) { work.setValid(); }"
    assert warnings(p4, apply, top=top) == []


def test_what_a_parser_takes_is_valid(p4: SimpleNamespace) -> None:
    states = "state start { packet.extract(headers.work); transition accept; }"
    assert warnings(p4, USE, states=states) == []
    states = "state start { m.mark = packet.lookahead<work_t>().r; transition accept; }"
    assert warnings(p4, USE, states=states) == []
