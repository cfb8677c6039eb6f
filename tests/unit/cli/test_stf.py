# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from nicemu.hot import JIT
from tests.unit.stf.conftest import SWITCH

Cli = Callable[..., Result]
PROGRAM = SWITCH.format(ingress="s.egress_spec = 1;", parts="", egress="")


SELECTED = """
    action_selector(HashAlgorithm.crc16, 8, 8) choice;
    table t {
        key = { h.h.a: exact; h.h.b: selector; }
        actions = { send; NoAction; }
        implementation = choice;
    }
"""
CHOSEN = {
    "action_profiles": [
        {
            "profile": "choice",
            "members": [{"member": 1, "action": {"name": "send", "parameters": {"port": 4}}}],
            "groups": [{"group": 1, "members": [{"member": 1}]}],
        }
    ],
    "tables": [{"table": "t", "entries": [{"keys": {"a": 1}, "group": 1}]}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a test that passes, one that fails, and one whose program is refused."""
    (tmp_path / "sub").mkdir()
    for name, program, script in (
        ("good", PROGRAM, "packet 0 0102\nexpect 1 0102\n"),
        ("sub/bad", PROGRAM, "packet 0 0102\nexpect 1 0103\n"),
        ("sub/worse", PROGRAM.replace("h.h.a", "h.h.z"), "wait\n"),
    ):
        (tmp_path / f"{name}.p4").write_text(program)
        (tmp_path / f"{name}.stf").write_text(script)
    return tmp_path


def timeless(text: str) -> list[str]:
    """Return the lines, their times left out."""
    return re.sub(r"[0-9.]+ ms", "… ms", text).splitlines()


def test_a_test_that_passes_is_one_line_and_status_0(nicemu: Cli, folder: Path) -> None:
    result = nicemu("stf", str(folder / "good.p4"), str(folder / "good.stf"))
    assert result.exit_code == 0
    assert timeless(result.stdout) == ["passed good.stf, 1 packet in, 1 out, … ms"]


def test_a_script_beside_its_program_need_not_be_named(nicemu: Cli, folder: Path) -> None:
    assert nicemu("stf", str(folder / "good.p4")).exit_code == 0


def test_a_program_without_a_script_is_told_before_anything_runs(nicemu: Cli, folder: Path) -> None:
    (folder / "good.stf").unlink()
    result = nicemu("stf", str(folder / "good.p4"))
    assert result.exit_code == 2
    assert f"there is no {folder / 'good.stf'}; name the script" in result.stderr


def test_a_test_that_fails_shows_where_and_what_and_the_status_is_1(nicemu: Cli, folder: Path) -> None:
    result = nicemu("stf", str(folder / "sub" / "bad.p4"))
    assert result.exit_code == 1
    assert timeless(result.stdout) == [
        "failed bad.stf, 1 packet in, 1 out, … ms",
        "  bad.stf:2:1: error: packet 1 of port 1, of line 1, differs",
        "      expect 1 0103",
        "      ^~~~~~",
        "      byte 0     expected  01 03",
        "                 seen      01 02",
        "                               ^",
        "      h.b: expected 0x03, seen 0x02",
    ]


def test_a_file_of_tables_comes_before_the_script(nicemu: Cli, tmp_path: Path) -> None:
    program = SWITCH.format(ingress="t.apply();", egress="", parts=SELECTED)
    (tmp_path / "chosen.p4").write_text(program)
    (tmp_path / "chosen.stf").write_text("packet 0 0102\nexpect 4 0102\n")
    tables = tmp_path / "tables.json"
    tables.write_text(json.dumps(CHOSEN))
    words = ("stf", str(tmp_path / "chosen.p4"), "--tables", str(tables))
    assert nicemu(*words).exit_code == 0
    assert nicemu("stf", str(tmp_path / "chosen.p4")).exit_code == 1
    tables.write_text(json.dumps({"tables": [{"table": "u", "entries": []}]}))
    refused = nicemu(*words)
    assert refused.exit_code == 1
    place = "  tables.json:1:1: error: $.tables[0].table: the program: table u is unknown"
    assert place in refused.stdout
    in_folder = nicemu("stf", str(tmp_path), "--tables", str(tables))
    assert (in_folder.exit_code, "--tables goes with a program" in in_folder.stderr) == (2, True)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_folder_is_a_line_a_test_and_the_sums(nicemu: Cli, folder: Path, jobs: str) -> None:
    result = nicemu("stf", str(folder), "--jobs", jobs)
    assert result.exit_code == 1
    lines = [line for line in timeless(result.stdout) if not line.startswith("  ")]
    assert lines == [
        "[1/3] passed good.stf, 1 packet in, 1 out, … ms",
        "[2/3] failed sub/bad.stf, 1 packet in, 1 out, … ms",
        "[3/3] refused sub/worse.stf, … ms",
        "3 tests: 1 passed, 1 failed, 1 refused by the compiler; … ms a test",
    ]
    assert "worse.p4:9:" in result.stdout


def test_a_folder_says_how_much_it_leaves_out(nicemu: Cli, folder: Path) -> None:
    (folder / "good.stf").write_text("nothing\nnor this\nnor that\n")
    told = nicemu("stf", str(folder)).stdout
    assert "  and 2 more, which are told where the test is run alone" in told
    alone = nicemu("stf", str(folder / "good.p4")).stdout
    assert (alone.count("error:"), "more" in alone) == (3, False)


def test_json_says_the_same(nicemu: Cli, folder: Path) -> None:
    result = nicemu("stf", str(folder), "--json")
    assert (result.exit_code, result.stderr) == (1, "")
    good, bad, worse = json.loads(result.stdout)
    assert (good["status"], good["packets_in"], good["packets_out"], good["failures"]) == ("passed", 1, 1, [])
    assert (bad["status"], bad["failures"][0]["line"]) == ("failed", 2)
    assert bad["failures"][0]["detail"].endswith("h.b: expected 0x03, seen 0x02")
    assert (worse["status"], worse["messages"][0]["file"]) == ("refused", "worse.p4")


def test_a_trace_tells_what_became_of_each_packet(nicemu: Cli, folder: Path) -> None:
    lines = nicemu("stf", str(folder / "good.p4"), "--trace").stdout.splitlines()
    assert lines[1:4] == ["  line 1: ", "    ingress, port 0, 2 bytes", "    parser P"]
    assert lines[-1] == "    out: port 1, 01 02"


def test_an_interrupt_ends_the_run_without_a_traceback(
    nicemu: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(job: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nicemu.cli.stf._run", interrupted)
    result = nicemu("stf", str(folder))
    assert result.exit_code == 130
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
def test_a_kernel_gives_the_same_outcome(nicemu: Cli, folder: Path) -> None:
    result = nicemu("stf", str(folder), "--engine", "kernel", "--json")
    assert result.exit_code == 1
    outcomes = json.loads(result.stdout)
    assert [item["status"] for item in outcomes] == ["passed", "failed", "refused"]
    assert [item["interpreted_because"] for item in outcomes] == ["", "", ""]


def test_a_folder_takes_no_script_and_has_to_hold_a_test(nicemu: Cli, folder: Path) -> None:
    assert nicemu("stf", str(folder), str(folder / "good.stf")).exit_code == 2
    empty = folder / "empty"
    empty.mkdir()
    result = nicemu("stf", str(empty))
    assert result.exit_code == 1
    assert "no test in" in result.stderr


EXTERN = "extern bit<8> more(in bit<8> v);\nheader"
DOES = "from nicemu.pipeline import extern\n@extern('bit<8> more(in bit<8> v)')\ndef more(v): return v + 1\n"


def test_externs_of_a_program_are_done_by_python_files(nicemu: Cli, tmp_path: Path) -> None:
    ingress = "s.egress_spec = 1; h.h.a = more(h.h.a);"
    text = SWITCH.format(ingress=ingress, parts="", egress="").replace("header", EXTERN, 1)
    (tmp_path / "own.p4").write_text(text)
    (tmp_path / "own.stf").write_text("packet 0 0102\nexpect 1 0202\n")
    (tmp_path / "more.py").write_text(DOES)
    given = ("stf", str(tmp_path), "--externs", str(tmp_path / "more.py"))
    assert nicemu(*given).exit_code == 0
    assert nicemu(*given, "--jobs", "2").exit_code == 0
    (tmp_path / "says.py").write_text(DOES.replace("return", "print('seen'); return"))
    told = nicemu("stf", str(tmp_path), "--externs", str(tmp_path / "says.py"), "--json")
    assert ("seen" in told.stderr, [test["status"] for test in json.loads(told.stdout)]) == (True, ["passed"])
    alone = nicemu("stf", str(tmp_path))
    assert (alone.exit_code, "dropped (extern.missing)" in alone.stdout) == (1, True)
    assert "nothing does what extern more does: packets that call it are dropped (--externs" in alone.stdout
    if JIT:
        assert "more is an extern of its own" in nicemu(*given, "--engine", "kernel").stdout
