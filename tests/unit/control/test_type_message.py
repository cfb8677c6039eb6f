# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "P4DataTypeSpec"."""

from __future__ import annotations

import pytest

from nicemu.control.messages import messages
from nicemu.control.type_message import fill_type, fill_type_info, layouts_of_message, type_of_message
from nicemu.pipeline import ir

HEADER = ir.HeaderType("h_t", (ir.Field("a", ir.Bits(8)), ir.Field("v", ir.Varbit(32))))
UNION = ir.UnionType("u_t", (ir.Field("h", ir.Named("h_t")),))
STRUCT = ir.StructType("s_t", (ir.Field("h", ir.Named("h_t")), ir.Field("ok", ir.BOOL)))
LAYOUTS: tuple[ir.Layout, ...] = (HEADER, STRUCT, UNION)


@pytest.mark.parametrize(
    "kind",
    [
        ir.Bits(9),
        ir.Bits(9, signed=True),
        ir.Varbit(12),
        ir.BOOL,
        ir.ERROR,
        ir.Named("h_t"),
        ir.Named("u_t"),
        ir.Named("s_t"),
        ir.Stack("h_t", 3),
        ir.Stack("u_t", 2),
    ],
    ids=str,
)
def test_a_type_survives_its_message(kind: ir.Type) -> None:
    spec = messages().P4DataTypeSpec()
    fill_type(spec, kind, LAYOUTS)
    assert type_of_message(spec) == kind


def test_layouts_survive_their_message() -> None:
    info = messages().P4TypeInfo()
    fill_type_info(info, LAYOUTS)
    assert layouts_of_message(info) == LAYOUTS


def test_a_struct_in_a_header_is_flattened() -> None:
    info = messages().P4TypeInfo()
    inner = ir.StructType("i_t", (ir.Field("x", ir.Bits(8)),))
    fill_type_info(info, (ir.HeaderType("o_t", (ir.Field("i", ir.Named("i_t")),)), inner))
    assert [member.name for member in info.headers["o_t"].members] == ["i.x"]


def test_types_that_the_pipeline_has_no_word_for_are_names() -> None:
    spec = messages().P4DataTypeSpec()
    spec.enum.name = "colour"
    assert type_of_message(spec) == ir.Named("colour")
    assert type_of_message(messages().P4DataTypeSpec()) == ir.Named("")
