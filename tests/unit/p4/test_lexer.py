# SPDX-License-Identifier: Apache-2.0
"""P4-16, "Lexical constructs"."""

from __future__ import annotations

import pytest

from nicemu.p4.diagnostics import SourceFile
from nicemu.p4.lexer import tokens_of, without_comments


def texts(line: str) -> list[str]:
    return [token.text for token in tokens_of(line, SourceFile("t", [line]), 1)]


def test_a_closing_angle_is_always_a_token_of_its_own() -> None:
    assert texts("a<bit<8>> >> b") == ["a", "<", "bit", "<", "8", ">", ">", ">", ">", "b"]


@pytest.mark.parametrize(
    "number", ["0", "32w255", "8w0xFF", "4s0b1010", "0x_dead_beef", "2w0o3", "8w0d19", "1_000", "0D19"]
)
def test_a_number_with_width_and_base_is_one_token(number: str) -> None:
    (token,) = tokens_of(number, SourceFile("t", [number]), 1)
    assert (token.kind, token.text) == ("number", number)


def test_the_longest_operator_wins() -> None:
    assert texts("a|+|=b|+|c&&&d&&e&f<<=g..h") == [
        "a", "|+|=", "b", "|+|", "c", "&&&", "d", "&&", "e", "&", "f", "<<=", "g", "..", "h",
    ]  # fmt: skip


def test_keywords_are_no_names_and_a_column_counts_from_one() -> None:
    state, name = tokens_of("  state parse_ipv4", SourceFile("t", [""]), 7)
    assert (state.kind, name.kind) == ("keyword", "name")
    assert (state.location.column, name.location.column, name.location.line) == (3, 9, 7)


def test_comments_are_blanked_and_everything_else_keeps_its_place() -> None:
    text = 'a /* b\nc */ d // e\n"// no" f /* open'
    blanked = without_comments(text)
    assert [len(line) for line in blanked.splitlines()] == [len(line) for line in text.splitlines()]
    assert blanked.split() == ["a", "d", '"//', 'no"', "f"]


def test_blanks_make_no_token_however_many_there_are() -> None:
    blanks = " " * 200_000
    assert texts(f"{blanks}a{blanks}b{blanks}") == ["a", "b"]


def test_an_unknown_character_is_a_token_too() -> None:
    assert [token.kind for token in tokens_of("a ' §", SourceFile("t", [""]), 1)] == [
        "name",
        "unknown",
        "unknown",
    ]
