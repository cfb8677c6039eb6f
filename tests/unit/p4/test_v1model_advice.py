# SPDX-License-Identifier: Apache-2.0
"""What simple_switch does otherwise than a call seems to say is a warning."""

from __future__ import annotations

import pytest

from nicemu.p4 import CompileError, compile_text

PROGRAM = """
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> session; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { INGRESS }
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { EGRESS }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


def advice(ingress: str = "", egress: str = "") -> list[str]:
    """Return the warnings about a program."""
    parts = {"INGRESS": ingress, "EGRESS": egress}
    text = PROGRAM
    for name, part in parts.items():
        text = text.replace(name, part if "apply" in part else f"apply {{ {part} }}")
    return [item.message for item in compile_text(text).diagnostics]


@pytest.mark.parametrize(
    ("ingress", "egress", "told"),
    [
        ("clone(CloneType.E2E, 1);", "", "simple_switch clones by where clone is called, which is ingress"),
        (
            "",
            "action a() { clone_preserving_field_list(CloneType.I2E, 1, 2); } apply { a(); }",
            "simple_switch clones by where clone_preserving_field_list is called, which is egress",
        ),
        ("recirculate_preserving_field_list(1);", "", "recirculate_preserving_field_list is for egress"),
        ("", "resubmit_preserving_field_list(1);", "resubmit_preserving_field_list is for ingress"),
        ('log_msg("{} {}", { h.h.a });', "", "log_msg has 2 places {} for 1 value"),
        ('log_msg("{}", { h.h.a, h.h.b });', "", "log_msg has 1 place {} for 2 values"),
    ],
)
def test_what_comes_otherwise_than_it_seems_is_told(ingress: str, egress: str, told: str) -> None:
    (found,) = advice(ingress, egress)
    assert told in found


def test_what_is_meant_so_is_no_warning() -> None:
    ingress = """clone(CloneType.I2E, 1); resubmit_preserving_field_list(1); log_msg("none");
                 log_msg("{} {}", { h.h.a, h.h.b }); log_msg("{}", h.h.a);"""
    egress = "clone(CloneType.E2E, (bit<32>) m.session); recirculate_preserving_field_list(1);"
    assert advice(ingress, egress) == []


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("drop", "call mark_to_drop"),
        ("clone_spec", "instance_type tells"),
        ("resubmit_flag", "call resubmit_preserving"),
    ],
)
def test_fields_of_older_standard_metadata_have_a_hint(field: str, hint: str) -> None:
    with pytest.raises(CompileError, match=rf"has no field {field}(.|\n)*hint: {hint}"):
        advice(f"s.{field} = 1;")
