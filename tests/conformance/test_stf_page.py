# SPDX-License-Identifier: Apache-2.0
"""docs/stf.md: its commands are those of the parser, its test and the examples pass."""

from __future__ import annotations

import re

import pytest

from nicemu.p4 import compile_text
from nicemu.pipeline import read_externs
from nicemu.stf import ScriptError, Status, find_tests, parse_script, run_script, run_test
from tests.conformance.pages import BLOCKS, ROOT, codes, rows_of

PAGE = "docs/stf.md"
EXAMPLES = [(codes(form), codes(example)) for form, example, _ in rows_of(PAGE, "Commands")]


@pytest.mark.parametrize("example", [example for _, examples in EXAMPLES for example in examples])
def test_every_command_on_the_page_is_read(example: str) -> None:
    assert len(parse_script(example)) == 1


def test_every_command_that_is_read_is_on_the_page() -> None:
    with pytest.raises(ScriptError) as refused:
        parse_script("nonsense")
    known = refused.value.diagnostics[0].hint.removeprefix("there is ").split(", ")
    assert {form.split()[0] for forms, _ in EXAMPLES for form in forms} == set(known)


def test_the_test_on_the_page_passes() -> None:
    (script,) = [block.text for block in BLOCKS if block.page == PAGE and "= $two" in block.text]
    (snippet,) = [block.text for block in BLOCKS if block.page == PAGE and block.language == "python"]
    found = re.search(r"PROGRAM = '''(.*?)'''", snippet, re.DOTALL)
    assert found is not None
    report = run_script(compile_text(found[1]).program, parse_script(script))
    assert [failure.render() for failure in report.failures] == []


def test_the_example_with_externs_passes() -> None:
    folder = ROOT / "examples" / "externs"
    ((program, script),) = find_tests(folder)
    assert run_test(program, script, externs=read_externs([folder / "sketch.py"])).status is Status.PASSED


def test_the_examples_pass() -> None:
    for program, script in find_tests(ROOT / "examples" / "stf"):
        assert run_test(program, script).status is Status.PASSED
