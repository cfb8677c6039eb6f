# SPDX-License-Identifier: Apache-2.0
"""A test is two files; what can be wrong with them is the test's outcome, or said at once."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from nicemu.errors import UsageError
from nicemu.pipeline import extern
from nicemu.stf import Status, find_tests, run_test
from tests.unit.bmv2.router_json import router_json
from tests.unit.stf.conftest import SWITCH

PROGRAM = SWITCH.format(ingress="", parts="", egress="")


def files(
    folder: Path, program: str = PROGRAM, script: str = "packet 0 0102\nexpect 0 0102$"
) -> tuple[Path, Path]:
    paths = (folder / "one.p4", folder / "one.stf")
    for path, text in zip(paths, (program, script), strict=True):
        path.write_text(text)
    return paths


def test_a_program_and_a_script_are_a_test(tmp_path: Path) -> None:
    outcome = run_test(*files(tmp_path))
    assert outcome.status is Status.PASSED
    assert outcome.report is not None
    assert outcome.report.packets_in == 1


def test_a_script_that_fails_fails_the_test(tmp_path: Path) -> None:
    assert run_test(*files(tmp_path, script="expect 0")).status is Status.FAILED


def test_a_script_that_cannot_be_read_fails_the_test(tmp_path: Path) -> None:
    outcome = run_test(*files(tmp_path, script="nonsense"))
    assert outcome.status is Status.FAILED
    assert [str(message.location) for message in outcome.messages] == ["one.stf:1:1"]


def test_a_program_that_does_not_compile_is_refused(tmp_path: Path) -> None:
    outcome = run_test(*files(tmp_path, PROGRAM.replace("h.h.a", "h.h.c")))
    assert outcome.status is Status.REFUSED
    assert outcome.messages[0].file == "one.p4"


def test_a_fault_of_nicemu_s_own_is_told_as_the_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*arguments: object) -> None:
        raise ZeroDivisionError("one too few")

    monkeypatch.setattr("nicemu.stf.one_test.run_script", faulty)
    outcome = run_test(*files(tmp_path))
    assert outcome.status is Status.BROKEN
    assert outcome.messages[0].message == "nicemu is broken here: ZeroDivisionError: one too few"
    assert outcome.messages[0].hint.endswith("in faulty")


def test_an_extern_that_python_has_otherwise_fails_its_test(tmp_path: Path) -> None:
    @extern("bit<8> more(in bit<16> v)")
    def more(v: int) -> int:
        return v + 1

    declares = PROGRAM.replace("header pair_t", "extern bit<8> more(in bit<8> v);\nheader pair_t", 1)
    outcome = run_test(
        *files(tmp_path, declares.replace("apply {", "apply { h.h.a = more(1);", 1)), externs=[more]
    )
    assert outcome.status is Status.FAILED
    assert outcome.messages[0].message.startswith(
        "extern more: the program declares bit<8> more(in bit<8>); in Python"
    )


def test_a_program_may_be_bmv2_json(tmp_path: Path) -> None:
    program, script = tmp_path / "router.json", tmp_path / "router.stf"
    program.write_text(json.dumps(router_json()))
    script.write_text("packet 0 0102\nexpect 0 0102$")
    assert find_tests(tmp_path) == [(program, script)]
    assert run_test(program, script).status is Status.PASSED
    program.write_text("{}")
    outcome = run_test(program, script)
    assert outcome.status is Status.REFUSED
    assert "has no __meta__" in outcome.messages[0].message
    (tmp_path / "router.p4").write_text(PROGRAM)
    assert find_tests(tmp_path) == [(tmp_path / "router.p4", script)]


def test_includes_are_found_in_the_folders_that_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "more.p4").write_text("const bit<8> MORE = 1;\n")
    paths = files(tmp_path, PROGRAM.replace("header pair_t", '#include "more.p4"\nheader pair_t'))
    assert run_test(*paths).status is Status.REFUSED
    assert run_test(*paths, include_paths=[folder]).status is Status.PASSED


def test_a_test_may_define_macros(tmp_path: Path) -> None:
    paths = files(tmp_path, PROGRAM.replace("bit<8> a;", "bit<WIDTH> a;", 1))
    assert run_test(*paths).status is Status.REFUSED
    assert run_test(*paths, defines={"WIDTH": "8"}).status is Status.PASSED


def test_a_file_that_cannot_be_read_fails_its_own_test_and_no_other(tmp_path: Path) -> None:
    program, script = files(tmp_path)
    without_script = run_test(program, tmp_path / "two.stf")
    without_program = run_test(tmp_path / "two.p4", script)
    assert without_script.status is without_program.status is Status.FAILED
    assert "give the path of an STF script" in without_script.messages[0].message
    assert "give the path of a P4 program" in without_program.messages[0].message


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"# caf\xe9\n"])
def test_a_script_may_begin_with_a_byte_order_mark_and_be_no_utf_8(tmp_path: Path, before: bytes) -> None:
    program, script = files(tmp_path)
    script.write_bytes(before + script.read_bytes())
    assert run_test(program, script).status is Status.PASSED


def test_the_tests_of_a_folder_are_the_programs_with_a_script_beside_them(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("b.p4", "b.stf", "a.p4", "a.stf", "alone.p4", "other.stf", "deep/er/c.p4", "deep/er/c.stf"):
        (tmp_path / name).touch()
    assert [program.name for program, _ in find_tests(tmp_path)] == ["a.p4", "b.p4", "c.p4"]
    with pytest.raises(UsageError, match="no test in"):
        find_tests(tmp_path / "deep" / "er" / "c.p4")


def test_an_outcome_travels_between_processes(tmp_path: Path) -> None:
    outcome = run_test(*files(tmp_path, script="packet 0 0102\nexpect 0 03"))
    again = pickle.loads(pickle.dumps(outcome))
    assert outcome.report is not None
    assert [one.render() for one in again.report.failures] == [
        one.render() for one in outcome.report.failures
    ]
