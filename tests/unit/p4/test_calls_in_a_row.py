# SPDX-License-Identifier: Apache-2.0
"""How many actions, tables, functions and controls may call one another: a limit, told where it is passed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.pipeline import ir

TOO_MANY = f"error: not supported by nicemu yet: more than {ir.MAX_CALLS} calls in a row"
FUNCTIONS = "bit<16> f1(in bit<16> x) { return x; }\n" + "".join(
    f"bit<16> f{place}(in bit<16> x) {{ return f{place - 1}(x); }}\n" for place in range(2, ir.MAX_CALLS + 2)
)
CONTROLS = "control C1(inout bit<16> x) { apply { x = 1; } }\n" + "".join(
    f"control C{place}(inout bit<16> x) {{ C{place - 1}() c; apply {{ c.apply(x); }} }}\n"
    for place in range(2, ir.MAX_CALLS + 2)
)


@pytest.mark.parametrize(
    ("top", "parts", "apply", "besides"),
    [
        (FUNCTIONS, "", "m.mark = f{}(1);", 0),
        (FUNCTIONS, "action a() {{ m.mark = f{}(1); }}", "a();", 1),
        (
            FUNCTIONS,
            "action a() {{ m.mark = f{}(1); }} table t {{ actions = {{ a; }} default_action = a; }}",
            "t.apply();",
            2,
        ),
        (CONTROLS, "C{}() c;", "c.apply(m.mark);", 0),
    ],
)
def test_one_call_too_many_is_shown_where_it_is(
    p4: SimpleNamespace, top: str, parts: str, apply: str, besides: int
) -> None:
    most = ir.MAX_CALLS - besides
    p4.compile(apply.format(most), top=top, parts=parts.format(most))
    told = p4.refusal(apply.format(most + 1), top=top, parts=parts.format(most + 1))
    assert f"{TOO_MANY}\n    {apply.format(most + 1)}\n" in told
    assert told.endswith("\n1 error")


def test_a_function_that_nothing_calls_may_not_call_too_many_either(p4: SimpleNamespace) -> None:
    last = ir.MAX_CALLS + 1
    told = p4.refusal(top=f"{FUNCTIONS}bit<16> more(in bit<16> x) {{ return f{last}(x); }}")
    assert f"{TOO_MANY}\n    bit<16> more(in bit<16> x) {{ return f{last}(x); }}\n" in told
