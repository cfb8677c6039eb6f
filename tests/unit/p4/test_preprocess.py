# SPDX-License-Identifier: Apache-2.0
"""P4-16, "Preprocessing"."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from nicemu.errors import UsageError
from nicemu.p4 import CompileError, compile_text
from nicemu.p4.diagnostics import Reporter
from nicemu.p4.preprocess import Preprocessor
from tests.unit.p4.conftest import source
from tests.unit.p4.preprocessed import expand


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#define A 8\nbit<A> x", "bit < 8 > x"),
        ("#define F(a, b) a + b\nF(1, (2, 3)) F", "1 + ( 2 , 3 ) F"),
        ("#define A B\n#define B 5\nA", "5"),
        ("#define A A + 1\nA", "A + 1"),
        ("#define A 1\n#undef A\nA", "A"),
        ("#define A \\\n 1 + \\\n 2\nA", "1 + 2"),
        ("#define F(x) x x\nF(F(1))", "1 1 1 1"),
        ("#define A 1\nbefore\n#define A 2\nA", "before 2"),
        ("#define F() z\nF()", "z"),
        ("#define F(x) ((x) + 1)\n#define G F\nG(q)", "( ( q ) + 1 )"),
        ("#define F_one(x) x + 1\n#define G(n) F_##n\nG(one)(q) G(one)", "q + 1 F_one"),
        ("#define F(a) a*g\n#define g(a) F(a)\nF(2)(9)", "2 * 9 * g"),
        ("#define I(q) q\n#define x m.x\nI(x) I(I(x)) x", "m . x m . x m . x"),
        ("#define F(rest...) a(rest)\nF(1, 2) F()", "a ( 1 , 2 ) a ( )"),
        ("#define F(x, rest...) x(0, ## rest)\nF(f, 2) F(g)", "f ( 0 , 2 ) g ( 0 )"),
        ('# 1 "p.p4" 1\na\n# 7 "p.p4"\nb', "a b"),
        ('#line 7 "p.p4"\na\n#pragma once\nb', "a b"),
        ("#define F(a, b) a ## b\n#define x 5\nF(x, 1) F(2, 3)", "x1 23"),
        ("#define A x ## y\n#define xy 3\nA", "3"),
        ("#define F(a, b) 8w##a 0x##b\nF(5, ff)", "8w5 0xff"),
        ("#define F(a, b) a ## b\nF(1, +)", "1 +"),
        ("#define F(a) (x) ## a ##_y\nF(z)", "( x ) z_y"),
        ("#define F(a) #a\n#define x 5\nF(x + 1)", '"x + 1"'),
        ('#define F(a) #a\nF("x" y)', '"\\"x\\" y"'),
        ('#define F(a) #a\nF("\\"")', r'"\"\\\"\""'),
        ("#define F(a) #a\nF(x.y) F( x  .y )", '"x.y" "x .y"'),
        ("#define F(a) #a\n#define G(i) F(acl.stage ## i)\nG(1)", '"acl.stage1"'),
        ("#define F(a, b) a ## b\nF(1, +) F(, x) F(x, ) F(, )", "1 + x x"),
        ("#define F(a) x ## a y\nF() F(z)", "x y xz y"),
        ("#define F(a) (b) ## a ## _c; bit<16> ## a ## _d\nF(x)", "( b ) x_c ; bit < 16 > x_d"),
        ("#define F(n) n##w##5\nF(4)", "4w5"),
        ("#define F(a, ...) f(a, ## __VA_ARGS__)\nF(1) F(1, 2, 3)", "f ( 1 ) f ( 1 , 2 , 3 )"),
        ("#define F(a, ...) f(a __VA_OPT__(,) __VA_ARGS__)\nF(1) F(1, 2, 3)", "f ( 1 ) f ( 1 , 2 , 3 )"),
        ("#define E\n#define F(a, b...) a __VA_OPT__(= ( b ))\nF(x, y) F(x, E)", "x = ( y ) x"),
        ("#define F(a, ...) a##__VA_OPT__(_b)##c\nF(x) F(x, 1) __VA_OPT__(y)", "xc x_bc __VA_OPT__ ( y )"),
        ("#define F(a, ...) <a|__VA_ARGS__>\nF()", "< | >"),
        ("#define F(a, ...) a(__VA_ARGS__)\nF(f, 1, 2) F(f)", "f ( 1 , 2 ) f ( )"),
        ("#ifdef __TARGET_BMV2__\n__TARGET_BMV2__\n#endif", "1"),
        ("#undef __TARGET_BMV2__\n__TARGET_BMV2__", "__TARGET_BMV2__"),
        ("\n__LINE__ __FILE__\n#define L __LINE__\nL", '2 "t.p4" 4'),
        ("#define P(a, b) a##b\n#define Q(a, b) P(a, b)\nQ(x, __COUNTER__) Q(y, __COUNTER__)", "x0 y1"),
        ("#define F(a) a a\n#define C __COUNTER__\nF(C) C\n#if C == 2\nC\n#endif\n__COUNTER__", "0 0 1 3 4"),
    ],
)
def test_macros_are_expanded(text: str, expected: str) -> None:
    tokens, messages = expand(text)
    assert (" ".join(tokens), messages) == (expected, [])


@pytest.mark.parametrize(
    ("text", "shifts"),
    [
        ("#define F(a) (a >> 8)\nF(x)", 1),
        ("#define F(a) a >>= 1;\nF(x)", 1),
        ("#define F(a) G(a >> 1)\n#define G(a) a >> 2\nF(x)", 2),
        ("#define F(a) a\nF(x >> 1)", 1),
        ("#define F(t) register<bit<t>>(4)\nF(8)", 1),
        ("#define F(a) a > > b\nF(x)", 0),
        ("#define GT >\nGT GT", 0),
    ],
)
def test_what_touches_in_a_macro_touches_where_it_is_called(text: str, shifts: int) -> None:
    tokens = Preprocessor(Reporter(), []).preprocess(text, "t.p4", None)
    found = [
        left.touches(right) for left, right in pairwise(tokens) if left.text == ">" and right.text[:1] == ">"
    ]
    assert sum(found) == shifts


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("#if 1", True),
        ("#if 0", False),
        ("#if UNKNOWN", False),
        ("#if defined(A) && A >= 2", True),
        ("#if !defined A || A * 2 - 1 == 5", False),
        ("#ifdef A", True),
        ("#ifndef A", False),
        ("#if (1 + 1) == 0x2 && 1 < 2", True),
        ("#if 7 / 2 == 3 && 7 % 2 == 1", True),
        ("#if (1 << 4 | 1) == 17 && 16 >> 2 == 4 && (6 & ~2) == 4 && (6 ^ 2) == 4", True),
        ("#if A > 1 ? 0 : 1", False),
        ("#if -1 < 0", True),
        ("#ifdef __LINE__", True),
        ("#if 010 == 8 && 0 == 00", True),
        ("#if -5 / 2 == -2 && -5 % 2 == -1 && 5 / -2 == -2", True),
        ("#if 0 && 1 / 0", False),
        ("#if 1 || 1 % 0", True),
        ("#if 1 ? 2 : 1 / 0", True),
        ("#if 0 || 0 && (1 / 0 || 1) || A == 2", True),
        ("#if 100L > 2U && 0x1ULL == 1", True),
        ("#define HAS defined(A)\n#if HAS", True),
        ("#define HAS(X) (defined(A) && X)\n#if HAS(defined B)", False),
    ],
)
def test_a_condition_chooses_between_two_parts(condition: str, holds: bool) -> None:
    text = f"#define A 2\n{condition}\nyes\n#else\nno\n#endif\nend"
    assert expand(text) == (["yes" if holds else "no", "end"], [])


def test_of_several_alternatives_the_first_that_holds_is_taken() -> None:
    text = "#if 0\na\n#elif 1\nb\n#if 0\nc\n#else\nd\n#endif\n#elif 1\ne\n#else\nf\n#endif"
    assert expand(text) == (["b", "d"], [])


def test_an_include_is_searched_beside_the_file_and_in_the_given_folders(tmp_path: Path) -> None:
    (tmp_path / "near").mkdir()
    (tmp_path / "far").mkdir()
    (tmp_path / "near" / "a.p4").write_text("a\n")
    (tmp_path / "far" / "b.p4").write_text('#include "c.p4"\nb\n')
    (tmp_path / "far" / "c.p4").write_text("c\n")
    text = '#include "a.p4"\n#include <b.p4>\nend'
    assert expand(text, tmp_path / "far", folder=tmp_path / "near") == (["a", "c", "b", "end"], [])


def test_a_condition_asks_whether_there_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.p4").write_text("")
    text = """
        #define FAR <a.p4>
        #ifdef __has_include
        #if __has_include(<a.p4>) && ! __has_include("b.p4") && __has_include(FAR)
        far
        #elif __has_include("a.p4")
        near
        #endif
        #endif
    """
    assert expand(text, tmp_path) == (["far"], [])
    assert expand(text, folder=tmp_path) == (["near"], [])
    assert expand(text) == ([], [])


def test_a_file_that_says_so_is_included_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "one.p4").write_text("#pragma once\none\n")
    (tmp_path / "sub" / "two.p4").write_text('two\n#include "../one.p4"\n')
    text = '#pragma once\n#include "one.p4"\n#include "sub/two.p4"\n#include "sub/two.p4"\n'
    assert expand(text, folder=tmp_path) == (["one", "two", "two"], [])


def test_a_file_that_is_no_utf_8_is_read_octet_by_octet(tmp_path: Path) -> None:
    (tmp_path / "a.p4").write_bytes(b"// Andr\xe9\r\nword /* \xff */ other\r\n")
    assert expand('#include "a.p4"', folder=tmp_path) == (["word", "other"], [])
    (tmp_path / "b.p4").write_bytes(b"a\0b")
    assert "cannot read b.p4" in expand('#include "b.p4"', folder=tmp_path)[1][0]


def test_lines_may_end_as_on_other_systems() -> None:
    assert expand("#define A 1 + \\\r\n 2\r\nA\r\n") == (["1", "+", "2"], [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("XSTR(pre.x.post)", '"pre.x.post"'),
        ("NAME(abc)", '"pre.abc.post"'),
        ("NAME(abc.d )", '"pre.abc.d.post"'),
        ("XSTR(x[0]) ", '"x[0]"'),
        ("XSTR(a foo[0].foo . foo)", '"a bar[0].bar . bar"'),
        ("XSTR(-E- .E.) XSTR(E a) XSTR(a E)", '"-- .." "a" "a"'),
        ("AROUND(1, 2) AROUND(,)", '"1 . 2. c" ". . c"'),
        ("XSTR(cat(a,b).c) XSTR(x.cat(1,2))", '"ab.c" "x.12"'),
        ("XSTR(N.z) XSTR(a.N)", '"hdr.x.y.z" "a.hdr.x.y"'),
        ("REST(1, 2,3 , 4)", '"2,3 , 4"'),
    ],
)
def test_a_text_has_blanks_where_there_were_some(text: str, expected: str) -> None:
    """As GNU's preprocessor makes them: names of tables are made so. Source: ISO C, "The # operator"."""
    macros = """
        #define STR(x) #x
        #define XSTR(x) STR(x)
        #define NAME(x) XSTR(pre.x.post)
        #define foo bar
        #define E
        #define AROUND(a, b) XSTR(a E.E b.E c)
        #define cat(a, b) a##b
        #define N hdr.N2
        #define N2 x.y
        #define REST(a, ...) #__VA_ARGS__
    """
    tokens, messages = expand(f"{macros}\n{text}")
    assert (" ".join(tokens), messages) == (expected, [])


def test_an_argument_that_is_not_used_is_not_expanded() -> None:
    """Source: ISO C, "Argument substitution"."""
    assert expand("#define ONE(x) x\n#define IGNORE(x) 3\nIGNORE(ONE(1, 2))") == (["3"], [])


def test_arguments_of_the_rest_may_be_empty() -> None:
    assert expand("#define F(...) [__VA_ARGS__]\nF(, x) F(,) F()")[0] == [*"[,x]", *"[,]", *"[]"]


def test_blanks_may_stand_between_a_backslash_and_the_end_of_its_line() -> None:
    """As for GNU's preprocessor, which p4c uses."""
    assert expand("#define A 1 + \\ \t\n 2\nA /* b \\ \n c */ d") == (["1", "+", "2", "d"], [])


def test_a_missing_include_names_where_it_was_sought(tmp_path: Path) -> None:
    _, (message,) = expand("#include <core.p4>", tmp_path)
    assert "t.p4:1:10: error: cannot read core.p4" in message
    assert f"looked in {tmp_path}" in message


def test_a_file_that_includes_itself_twice_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "loop.p4").write_text('#include "loop.p4"\n#include "loop.p4"\n')
    _, messages = expand("#include <loop.p4>", tmp_path)
    assert len(messages) == 1


@pytest.mark.parametrize(
    "text",
    [
        "#define A \\\n1 + /* a\n b*/ 2\nA",
        "#define A \\\n1 \\\n + /* a\n\n b*/ \\\n2\nA",
        "#define A 1 + /* a\n b*/ 2\nA",
        "#define A 1 /* a\n b*/\n#undef A\n#define A \\\n 1 + /*\n*/2\nA",
    ],
)
def test_a_comment_in_a_later_line_of_a_directive_joins_the_next(text: str) -> None:
    assert expand(text) == (["1", "+", "2"], [])


def test_macros_that_leave_nothing_are_counted_too() -> None:
    text = "#define A0\n" + "".join(f"#define A{at + 1} A{at} A{at}\n" for at in range(40))
    _, messages = expand(text + "A40")
    assert "more than 500000" in messages[0]


def test_tokens_that_are_too_many_are_told_at_the_first_of_them() -> None:
    _, messages = expand("a\n" * 500_002)
    assert messages[0].startswith("t.p4:500001:1: error: ")


def test_a_file_that_includes_itself_is_reported(tmp_path: Path) -> None:
    (tmp_path / "loop.p4").write_text('#include "loop.p4"\n')
    _, messages = expand("#include <loop.p4>", tmp_path)
    assert "includes are nested deeper than 16" in messages[0]


@pytest.mark.parametrize("text", ["// /*\na", '"/*" a', "/* /* */ a", "/**/ a"])
def test_what_looks_like_an_open_comment_is_none(text: str) -> None:
    tokens, messages = expand(text)
    assert (tokens[-1], messages) == ("a", [])


@pytest.mark.parametrize(
    "many", ['"\\' * 20_000, "#" + "/*" * 20_000, '"\\\n' * 20_000, '"a' * 20_001 + "\n"]
)
def test_more_beginnings_of_strings_and_comments_than_can_be_looked_at_are_refused(many: str) -> None:
    tokens, (message,) = expand("a\n" + many)
    assert tokens == []
    assert message.startswith("t.p4:2:1: error: too many strings and comments begin in lines as long as this")


def test_many_strings_in_a_line_are_taken() -> None:
    tokens, messages = expand('"a" ' * 3_000 + "\n" + '// "\n' * 20_000)
    assert (len(tokens), messages) == (3_000, [])
    tokens, messages = expand('@name("a") ' * 20_000)
    assert (len(tokens), messages) == (100_000, [])


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ('a "one\n  two // three\n" b', ["a", '"one\n  two // three\n"', "b"]),
        ('"x" "y\n" /* " */ "z\nz"', ['"x"', '"y\n"', '"z\nz"']),
        ('"it\'s\n so" c', ['"it\'s\n so"', "c"]),
        ('"a \\" b\n c" // "\nd', ['"a \\" b\n c"', "d"]),
        ('"\n" "\n"', ['"\n"', '"\n"']),
    ],
)
def test_a_string_goes_on_to_its_closing_quote_whatever_lies_between(text: str, tokens: list[str]) -> None:
    assert expand(text) == (tokens, [])


def test_directives_and_macros_hold_inside_a_string_of_several_lines() -> None:
    text = '#define A 0x8\n@r("A:\n#ifdef A\n  x == A; // A\n#else\n  y;\n#endif\n ") A'
    assert expand(text) == (["@", "r", "(", '"A:\n\n  x == 0x8; // A\n\n "', ")", "0x8"], [])


def test_a_string_of_several_lines_stands_where_it_begins() -> None:
    reporter = Reporter()
    tokens = Preprocessor(reporter).preprocess('a\n  b "c\n d" e', "t.p4", None)
    places = [(token.text, token.location.line, token.location.column) for token in tokens[:-1]]
    assert places == [("a", 1, 1), ("b", 2, 3), ('"c\n d"', 2, 5), ("e", 3, 5)]


def test_a_string_that_is_never_closed_is_reported_where_it_begins() -> None:
    _, (message,) = expand('a\n b "c\n#if 0\n "\n#endif\n')
    assert message.startswith("t.p4:2:4: error: this string is never closed")


def test_a_byte_order_mark_is_no_part_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "b.p4").write_text("\ufeffb")
    assert expand("\ufeff#include <b.p4>\na", tmp_path) == (["b", "a"], [])


def test_tokens_of_an_expansion_stand_where_the_macro_is_used() -> None:
    reporter = Reporter()
    tokens = Preprocessor(reporter).preprocess("#define A 1 + 2\n\n   A", "t.p4", None)
    assert {(token.location.line, token.location.column) for token in tokens[:-1]} == {(3, 4)}


def test_what_stands_behind_joined_lines_keeps_its_place() -> None:
    text = '#define A 1 /* one\n two */ + 2\nx\\\ny "a\\\nb" A\n  @'
    reporter = Reporter()
    tokens = Preprocessor(reporter).preprocess(text, "t.p4", None)
    assert [token.text for token in tokens] == ["xy", '"ab"', "1", "+", "2", "@", ""]
    assert [(token.location.line, token.location.column) for token in tokens[-2:]] == [(6, 3), (6, 4)]


def test_an_architecture_that_is_not_there_is_named() -> None:
    reporter = Reporter()
    Preprocessor(reporter).preprocess("#include <psa.p4>", "t.p4", None)
    (message,) = (item.render() for item in reporter.diagnostics)
    assert "cannot read psa.p4" in message
    assert "nicemu has no psa yet; write for nicemu.p4" in message


MARKED = source("m.mark = MARK;")


@pytest.mark.parametrize(
    ("defines", "value"),
    [
        ({"MARK": "7"}, "7"),
        ({"MARK": "TWICE(4)", "TWICE(x)": "2 * x"}, "8"),
        ({"MARK": "1 + \\\t 2"}, None),
        ({"MARK": ""}, None),
    ],
)
def test_macros_that_are_given_are_those_of_lines_before_the_first(
    defines: dict[str, str], value: str | None
) -> None:
    if value is None:
        with pytest.raises(CompileError, match=r"error: "):
            compile_text(MARKED, defines=defines)
        return
    given = compile_text(MARKED, defines=defines).program
    assert given == compile_text(MARKED.replace("MARK", value)).program
    lines = "".join(f"#define {name} {text}\n" for name, text in defines.items())
    assert given == compile_text(lines + MARKED).program


def test_a_fault_in_a_macro_that_is_given_has_its_place_there() -> None:
    with pytest.raises(CompileError, match=r"<command line>:2:15: error: this comment is never closed"):
        compile_text(MARKED, defines={"MARK": "1", "OTHER": "/* x"})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("1A", "1", "macro '1A': a name was expected"),
        ("A B", "1", "macro 'A B': a name was expected"),
        ("", "1", "macro '': a name was expected"),
        ("A", "1\n#include <nowhere>", "macro A: a text of one line was expected"),
        ("A", "1 \\", "macro A: a text of one line was expected"),
    ],
)
def test_a_macro_that_is_given_has_a_name_and_one_line(name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compile_text(MARKED, defines={name: text})


def test_a_string_may_be_open_behind_a_comment_of_several_lines_in_a_directive() -> None:
    text = '#define A 2 /* two\n\n#define B 1 */\nconst bit<8> K = A; "{\n'
    with pytest.raises(CompileError) as caught:
        compile_text(text)
    places = {(item.location.line, item.location.column, item.message) for item in caught.value.diagnostics}
    assert (4, 21, "this string is never closed") in places


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('#line 7 "a.p4"\n!', "a.p4:7:1"),
        ('# 7 "a.p4" 1 3\n\n !', "a.p4:8:2"),
        ('#line 7 "a.p4"\nx\n#line 20\n!', "a.p4:20:1"),
        ("x\n#line 20\n!", "t.p4:20:1"),
        ('#define PLACE 7 "a.p4"\n#line PLACE\n!', "a.p4:7:1"),
        ('#if 0\n#line 7 "a.p4"\n#endif\n!', "t.p4:4:1"),
        ('!\n#line 7 "a.p4"\n', "t.p4:1:1"),
        ('#line 7 \\\n "a.p4"\n!', "a.p4:7:1"),
        ('#line 7 /* of\nthem */ "a.p4"\n!', "a.p4:7:1"),
    ],
)
def test_line_directives_say_where_the_lines_behind_them_come_from(text: str, place: str) -> None:
    tokens = Preprocessor(Reporter()).preprocess(text, "t.p4", None)
    (wrong,) = [token for token in tokens if token.text == "!"]
    assert str(wrong.location) == place


def test_a_message_names_the_place_of_a_line_directive_and_shows_the_line_that_was_read() -> None:
    with pytest.raises(CompileError) as caught:
        compile_text('#include <core.p4>\n#line 70 "part.p4"\n\nconst bit<8> wrong = true;\n')
    first = caught.value.diagnostics[0]
    assert (first.file, first.line, first.source_line) == ("part.p4", 71, "const bit<8> wrong = true;")


def test_line_and_file_are_those_of_the_last_line_directive() -> None:
    assert expand('#line 7 "a.p4"\n\n__LINE__ __FILE__')[0] == ["8", '"a.p4"']


@pytest.mark.parametrize("text", ["#line", "#line x", '#line "a.p4"', "#line 7 a.p4", f"#line {'7' * 9999}"])
def test_a_line_directive_takes_a_number_and_a_file(text: str) -> None:
    (message,) = expand(text)[1]
    assert "#line takes the number of a line, and maybe a file" in message


def test_each_inclusion_of_a_file_stands_for_the_places_that_it_names(tmp_path: Path) -> None:
    part = '#ifndef F\n#define F\n#line 100 "first.p4"\n! first\n#else\n! second\n#endif\n'
    (tmp_path / "part.p4").write_text(part)
    text = '#include "part.p4"\n#include "part.p4"\n'
    for _ in range(2):
        tokens = Preprocessor(Reporter()).preprocess(text, "t.p4", tmp_path)
        places = [str(token.location) for token in tokens if token.text == "!"]
        assert places == ["first.p4:100:1", "part.p4:6:1"]


def test_a_file_that_includes_itself_keeps_its_own_places(tmp_path: Path) -> None:
    lines = ["#ifndef F", "#define F", '#line 50 "outer.p4"', '#include "self.p4"', "! outer"]
    lines += ["#else", '#line 70 "inner.p4"', "! inner", "#endif"]
    (tmp_path / "self.p4").write_text("\n".join(lines) + "\n")
    tokens = Preprocessor(Reporter()).preprocess('#include "self.p4"\n', "t.p4", tmp_path)
    assert [str(token.location) for token in tokens if token.text == "!"] == [
        "inner.p4:70:1",
        "outer.p4:51:1",
    ]
