# SPDX-License-Identifier: Apache-2.0
"""What arguments lose, and what hints do not lose.

Source: P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

TOP = "void f(inout bit<16> part, inout metadata_t whole, in bit<16> read) { part = 7; }"
LOST = "this is stored, and then a later argument, of which it is a part: what it got is lost"


def warnings(p4: SimpleNamespace, apply: str, top: str = TOP) -> list[str]:
    return [item.message for item in p4.compile(apply, top=top).diagnostics]


@pytest.mark.parametrize("call", ["f(m.mark, m, 1);", "f(part = m.mark, whole = m, read = 1);"])
def test_what_a_part_got_before_its_whole_is_stored_is_lost_and_warned_of(
    p4: SimpleNamespace, call: str
) -> None:
    assert warnings(p4, call) == [LOST]


def test_so_are_bits_of_a_number(p4: SimpleNamespace) -> None:
    top = "void g(out bit<4> low, inout bit<16> all) { low = 1; }"
    assert warnings(p4, "g(m.mark[3:0], m.mark);", top) == [LOST]


@pytest.mark.parametrize(
    "call",
    [
        "f(headers.tag.number, m, m.mark);",
        "f(whole = m, part = m.mark, read = 1);",
        "bit<16> other = m.mark; f(other, m, m.mark);",
    ],
)
def test_what_is_stored_last_or_read_alone_is_not(p4: SimpleNamespace, call: str) -> None:
    assert warnings(p4, call) == []


def test_the_width_of_a_number_that_is_shifted_is_that_of_the_result(p4: SimpleNamespace) -> None:
    told = p4.refusal("m.mark = m.mark | (1 << headers.tag.kind);")
    assert "hint: give it the width that the result is to have, such as 32w1, or 64w1" in told


def test_a_varbit_that_is_too_wide_is_one_fault(p4: SimpleNamespace) -> None:
    types = "header tlv_t { bit<8> k; varbit<70000> v; }"
    states = "state start { packet.extract(headers.tlv, 8); transition accept; }"
    told = p4.refusal(types=types, members="tlv_t tlv;", states=states)
    assert "not supported by nicemu yet: varbit<70000>, of more than 65535 bits" in told
    assert told.endswith("1 error")
