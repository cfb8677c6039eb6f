# SPDX-License-Identifier: Apache-2.0
"""P4-16, "Preprocessing": what is wrong with a directive is told at its place."""

from __future__ import annotations

import pytest

from tests.unit.p4.preprocessed import expand


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#if 1\na", "1:2: error: this #if has no #endif"),
        ("#ifdef A\na", "1:2: error: this #ifdef has no #endif"),
        ("#endif", "1:2: error: #endif without #if"),
        ("#else", "#else without #if"),
        ("#if 1\n#else\n#else\n#endif", "3:2: error: #else after #else"),
        ("#if 1 +\n#endif", "#if needs an integer expression"),
        ("#if\n#endif", "#if needs a condition"),
        ("#inclde <a>", "unknown directive #inclde"),
        ("### Routes ###", "1:3: warning: this line is no directive, and is left out"),
        ("# THIS FILE", "1:3: warning: this line is no directive, and is left out"),
        ("  #m.x = 1;", "1:4: warning: this line is no directive, and is left out"),
        ("#error out of cheese", "#error out of cheese"),
        ("#define F(a) a\nF(1, 2)", "2:1: error: macro F takes 1 argument; 2 are given"),
        ("#if 1 / 0\n#endif", "1:7: error: #if needs an integer expression"),
        ("#if 1 && 1 / 0\n#endif", "1:12: error: #if needs an integer expression"),
        ("#if 1 L\n#endif", "#if needs an integer expression"),
        ("#if 09\n#endif", "#if needs an integer expression"),
        ("#warning soon", "1:2: warning: #warning soon"),
        ("#define F(a\n", "the parameters of this macro are not closed"),
        ("#define F(a, a) a", "1:14: error: two parameters of this macro are called a"),
        ("#define F(a b) a", "1:11: error: a parameter of a macro is a name"),
        ("#define F(a,) a", "a parameter of a macro is a name"),
        ("#define F(..., a) a", "1:11: error: a parameter of a macro is a name"),
        ("#define F(a) ## a", "1:14: error: ## joins two tokens"),
        ("#define F(a) a ##", "1:16: error: ## joins two tokens"),
        ("#define F(a, ...) f(a __VA_OPT__)", "1:23: error: __VA_OPT__ needs what stands for it"),
        ("#if __has_include()\n#endif", "1:5: error: __has_include needs (<file>)"),
        ("#if __has_include(<a)\n#endif", "1:5: error: __has_include needs (<file>)"),
        ("#if __has_include(<a>\n#endif", "1:5: error: __has_include needs (<file>)"),
        ("#if 1 && __has_include\n#endif", "1:10: error: __has_include needs (<file>)"),
        ("#define defined 1", "1:9: error: defined cannot be the name of a macro"),
        ("#undef", "1:2: error: #undef needs a name"),
        ("#undef 7", "#undef needs a name"),
        ("#if defined(\n#endif", "1:5: error: defined needs the name of a macro"),
        ("#if defined(A\n#endif", "1:5: error: the name behind defined( is never closed"),
        ("#if defined + 1\n#endif", "1:5: error: defined needs the name of a macro"),
        ("a /* b */ c\n  /* d\ne", "2:3: error: this comment is never closed"),
        ("/*/ a", "1:1: error: this comment is never closed"),
        ("#define F(x) x\n" + "F(" * 500 + ")" * 500, "macros are nested too deeply"),
        (
            "#define A B B\n#define B C C\n#define C D D D D D D D\n#define D " + "x " * 20000 + "\nA",
            "more than 500000",
        ),
    ],
)
def test_a_faulty_directive_is_reported_at_its_place(text: str, message: str) -> None:
    _, messages = expand(text)
    assert message in messages[0]
