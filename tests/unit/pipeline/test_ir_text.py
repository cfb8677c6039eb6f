# SPDX-License-Identifier: Apache-2.0
"""Expressions of the IR as people write them."""

from __future__ import annotations

import pytest

from nicemu.pipeline import ir
from nicemu.pipeline.ir_text import expression_text


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (2, ir.ERROR, "error.NoMatch"),
        (len(ir.CORE_ERRORS), ir.ERROR, str(len(ir.CORE_ERRORS))),
        (1, ir.BOOL, "true"),
        (10, ir.Bits(8), "0xa"),
    ],
)
def test_a_constant_is_written_as_its_type_has_it(value: int, kind: ir.Type, text: str) -> None:
    assert expression_text(ir.Constant(value, kind)) == text
