# SPDX-License-Identifier: Apache-2.0
"""The compiler takes any text: a small, always equal share of what `tests.reliability.fuzz_p4` tries."""

from __future__ import annotations

import pytest

from nicemu.p4 import compiler
from tests.reliability.broken_programs import BrokenPrograms
from tests.reliability.fuzz_p4 import P4Fuzzer, fuzz_p4


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_text_the_compiler_makes_a_program_of_it_or_says_what_is_wrong(seed: int) -> None:
    fuzzer = fuzz_p4(seed, 120)
    assert fuzzer.failures == []
    assert fuzzer.outcomes["refused"] > 30
    assert fuzzer.outcomes["compiled"] > 5
    assert len(fuzzer.messages) > 15


def test_equal_seeds_make_equal_programs() -> None:
    first, second, other = BrokenPrograms(7), BrokenPrograms(7), BrokenPrograms(8)
    texts = [first.next() for _ in range(20)]
    assert texts == [second.next() for _ in range(20)]
    assert texts != [other.next() for _ in range(20)]


def test_the_fuzzer_sees_any_other_error_than_the_compilers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a fault of the compiler")

    monkeypatch.setattr(compiler, "Parser", fail)
    fuzzer = P4Fuzzer(1)
    monkeypatch.setattr(fuzzer.programs, "next", lambda: "header H { bit<8> b; }")
    fuzzer.case()
    ((report, text),) = fuzzer.failures
    assert "KeyError: 'a fault of the compiler'" in report
    assert text == "header H { bit<8> b; }"
