# SPDX-License-Identifier: Apache-2.0
"""Parts of constants that are not there are refused, wherever they stand, and each is told once.

Source: P4-16 Language Specification 1.2.5, "Constants", "Operations on tuples expressions".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.p4 import CompileError

CONSTANTS = """
const tag_t TAG = { 1, 2, 3 };
const tuple<bit<8>, bit<8>> PAIR = { 1, 2 };
const tag_t[2] TAGS = { { 1, 2, 3 }, { 4, 5, 6 } };
const bit<8>[2] ROW = { 1, 2 };
const string AT = "x";
"""


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("TAG.nosuch", "header tag_t has no field nosuch"),
        ("PAIR[2]", "a constant from 0 to 1 was expected here"),
        ('PAIR["x"]', "a constant from 0 to 1 was expected here"),
        ("PAIR[AT]", "a constant from 0 to 1 was expected here"),
        ("PAIR[exact]", "a constant from 0 to 1 was expected here"),
        ("PAIR[true]", "a constant from 0 to 1 was expected here"),
        ("PAIR.f0", "has no field f0"),
        ("TAGS[2].kind", "tag_t[2] has no element 2"),
        ('TAGS["x"].kind', "the index is string; a number was expected"),
        ("TAGS.last.kind", "last of a stack stands only in parsers"),
        ("TAGS.nosuch", "tag_t[2] has no nosuch"),
        ("ROW[2]", "bit<8>[2] has no element 2"),
        ('ROW["x"]', "the index is string; a number was expected"),
        ("ROW.size", "bit<8>[2] has no field size"),
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        "m.mark = (bit<16>) %s;",
        "if (%s == 1) { }",
        "m.mark = m.flag ? (bit<16>) %s : 1;",
        "switch (m.mark) { (bit<16>) %s: { } }",
        "const bit<8> K = %s;",
    ],
)
def test_a_part_that_is_not_there_is_refused_at_its_place(
    p4: SimpleNamespace, place: str, part: str, words: str
) -> None:
    told = p4.refusal(place % part, top=CONSTANTS)
    assert words in told
    assert told.endswith("1 error")


@pytest.mark.parametrize("part", ["TAGS.next", "TAGS.last"])
def test_nothing_is_extracted_into_a_constant(p4: SimpleNamespace, part: str) -> None:
    states = f"state start {{ m.mark = {part}.number; transition accept; }}"
    assert "nothing is extracted into a constant" in p4.refusal(top=CONSTANTS, states=states)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("digest(1, exact);", "digest takes no match_kind"),
        ("digest(1, FEW);", "digest takes no list<bit<8>>"),
        ("digest<list<bit<8>>>(1, { 1, 2 });", "digest takes no list<bit<8>>"),
        ('log_msg("x", exact);', "log_msg takes no match_kind"),
        ("hash(m.x, HashAlgorithm.crc16, 8w0, exact, 8w9);", "hash takes no match_kind"),
    ],
)
def test_externs_take_no_values_that_are_known_at_compile_time_alone(
    p4: SimpleNamespace, call: str, message: str
) -> None:
    text = f"""#include <core.p4>
#include <v1model.p4>
const list<bit<8>> FEW = (list<bit<8>>) {{ 1, 2 }};
struct headers_t {{ }}
struct metadata_t {{ bit<8> x; }}
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    state start {{ transition accept; }}
}}
control V(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ {call} }} }}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out b, in headers_t h) {{ apply {{ }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
    with pytest.raises(CompileError, match=message):
        p4.compile_text(text)


@pytest.mark.parametrize(
    "number",
    ["bit<(Plain.B)> x;", "m.mark = m.mark[Plain.B:0];", "tag_t[Plain.B] x;", "m.mark[Plain.B:Plain.A] = 1;"],
)
def test_a_member_of_an_enum_without_numbers_is_no_number(p4: SimpleNamespace, number: str) -> None:
    assert "is enum Plain; a number was expected" in p4.refusal(number, top="enum Plain { A, B }")
