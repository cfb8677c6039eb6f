# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import llvmlite.binding as llvm
import pytest
from click.testing import Result
from google.protobuf import json_format, text_format

from nicemu.control.messages import messages
from nicemu.errors import NicemuError
from nicemu.pipeline import program_of_json
from nicemu.programs import programs_root
from tests.unit.bmv2.router_json import router_json
from tests.unit.p4.conftest import source

if TYPE_CHECKING:
    from tests.unit.cli.conftest import World

Cli = Callable[..., Result]
BROKEN = "#include <core.p4>\ncontrol C() {\n    apply { x = 1; y = 2; }\n}\n"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.p4"
    path.write_text(BROKEN)
    return path


def test_diagnostics_are_data_for_editors(nicemu: Cli, broken: Path, tmp_path: Path) -> None:
    result = nicemu("compile", str(broken), "--json")
    first, *_ = json.loads(result.stdout)["diagnostics"]
    assert result.exit_code == 1
    assert first == {
        "severity": "error",
        "file": "broken.p4",
        "path": str(broken),
        "line": 3,
        "column": 13,
        "length": 1,
        "message": "unknown name x",
        "hint": "there is NoAction, error, packet_in, packet_out, static_assert, verify",
    }
    warned = tmp_path / "warned.p4"
    warned.write_text(source(top="control X(inout headers_t h) { apply { } }"))
    told = json.loads(nicemu("compile", str(warned), "--json").stdout)["diagnostics"]
    assert [(item["severity"], item["message"]) for item in told] == [("warning", "control X is not used")]


def test_editors_are_told_where_an_included_file_lies(nicemu: Cli, tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "part.p4").write_text("control C() { apply { x = 1; } }")
    (tmp_path / "whole.p4").write_text('#include "part.p4"\n')
    words = ("compile", str(tmp_path / "whole.p4"), "-I", str(tmp_path / "inc"), "--json")
    told = json.loads(nicemu(*words).stdout)["diagnostics"]
    assert (told[0]["file"], told[0]["path"]) == ("part.p4", str(tmp_path / "inc" / "part.p4"))


@pytest.mark.parametrize("name", ["nowhere.p4", "n" * 300])
def test_a_file_that_is_nowhere_has_no_path(nicemu: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / "whole.p4").write_text(f'#line 7 "{name}"\ncontrol C() {{ apply {{ x = 1; }} }}\n')
    told = json.loads(nicemu("compile", str(tmp_path / "whole.p4"), "--json").stdout)["diagnostics"]
    assert (told[0]["file"], told[0]["path"]) == (name, None)


def test_every_diagnostic_is_printed_with_its_place_and_the_status_is_1(nicemu: Cli, broken: Path) -> None:
    result = nicemu("compile", str(broken))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "broken.p4:3:13: error:" in result.stderr
    assert "broken.p4:3:20: error:" in result.stderr
    assert "    apply { x = 1; y = 2; }" in result.stderr


def test_a_program_that_does_not_compile_reaches_no_nic(world: World, nicemu: Cli, broken: Path) -> None:
    world.nics = []
    result = nicemu("load", str(broken))
    assert result.exit_code == 1
    assert "broken.p4:3:13: error:" in result.stderr
    assert "no NIC" not in result.stderr


def test_a_shipped_program_is_found_by_its_name(
    nicemu: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert nicemu("compile", "p4/kvmatch.p4").stdout == "kvmatch: 1 table, 2 actions\n"


def test_the_emitted_ir_is_the_program(nicemu: Cli) -> None:
    program = program_of_json(nicemu("compile", "p4/kvmatch.p4", "--emit", "ir").stdout)
    assert [table.name for table in program.tables] == ["KvMatch.session"]


def test_bmv2_json_is_a_program_too(nicemu: Cli, tmp_path: Path) -> None:
    path = tmp_path / "router.json"
    path.write_text(json.dumps(router_json()))
    assert nicemu("compile", str(path)).stdout == "router: 3 tables, 5 actions\n"
    told = json.loads(nicemu("compile", str(path), "--emit", "p4info", "--json").stdout)
    assert [table["preamble"]["name"] for table in told["tables"]] == ["I.acl", "I.known", "I.route"]
    program = program_of_json(nicemu("compile", str(path), "--emit", "ir").stdout)
    assert program.architecture == "v1model"
    path.write_text('{"__meta__": {"version": [2, 23]}}')
    result = nicemu("compile", str(path))
    assert (result.exit_code, result.stderr) == (1, "Error: router.json has no parsers\n")
    (told,) = json.loads(nicemu("compile", str(path), "--json").stdout)["diagnostics"]
    assert (told["path"], told["message"]) == (str(path), "router.json has no parsers")
    result = nicemu("compile", str(path), "-D", "SIZE=4")
    assert "router.json is compiled already: SIZE cannot be defined in it" in result.stderr


def test_the_emitted_p4info_is_the_message_of_that_name(nicemu: Cli) -> None:
    text = nicemu("compile", "p4/kvmatch.p4", "--emit", "p4info").stdout
    assert "# proto-message: p4.config.v1.P4Info\n" in text
    message = text_format.Parse(text, messages().P4Info())
    assert [table.preamble.name for table in message.tables] == ["KvMatch.session"]
    as_json = nicemu("compile", "p4/kvmatch.p4", "--emit", "p4info", "--json").stdout
    assert json_format.Parse(as_json, messages().P4Info()) == message


def test_what_a_program_has_is_told_as_json_too(nicemu: Cli) -> None:
    told = json.loads(nicemu("compile", "p4/kvmatch.p4", "--json").stdout)
    assert told == {"program": "kvmatch", "tables": 1, "actions": 2, "diagnostics": []}
    refused = nicemu("compile", "p4/kvmatch.p4", "--emit", "dot", "--json")
    assert (refused.exit_code, "dot is no JSON" in refused.stderr) == (2, True)


def test_the_emitted_kernel_is_llvm_ir_with_the_program_s_states_and_actions(nicemu: Cli) -> None:
    text = nicemu("compile", "p4/kvmatch.p4", "--emit", "kernel").stdout
    llvm.parse_assembly(text).verify()
    assert 'define i64 @"run"(' in text
    program = program_of_json(nicemu("compile", "p4/kvmatch.p4", "--emit", "ir").stdout)
    for state in program.parser.states:
        assert f"state.{state.name}" in text


def test_a_program_without_a_kernel_says_why(nicemu: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nicemu.kernels.statements.MAX_STATEMENTS", 1)
    result = nicemu("compile", "p4/kvmatch.p4", "--emit", "kernel")
    assert result.exit_code == 1
    assert "kvmatch has no kernel, it is interpreted: it would have more than 1 statements" in result.stderr


def test_macros_are_defined_as_for_a_c_compiler(nicemu: Cli, tmp_path: Path) -> None:
    path = tmp_path / "marked.p4"
    path.write_text(source("m.mark = MARK + WIDE;"))
    assert nicemu("compile", str(path)).exit_code == 1
    assert nicemu("compile", str(path), "-D", "MARK", "-DWIDE=2").exit_code == 0
    wrong = nicemu("compile", str(path), "-D", "2=MARK")
    assert (wrong.exit_code, wrong.stderr) == (1, "Error: macro '2': a name was expected, as WITH_INT\n")


def test_the_emitted_graph_has_parser_and_controls(nicemu: Cli) -> None:
    told = nicemu("compile", "p4/kvmatch.p4", "--emit", "dot").stdout
    assert told.startswith('digraph "kvmatch" {\n')
    assert 'label="control KvMatch"' in told


def test_flash_sends_the_whole_path_and_lists_the_handlers(world: World, nicemu: Cli) -> None:
    result = nicemu("flash", "firmware/kv_storage.py", "--nic", "compute0")
    path = programs_root() / "firmware" / "kv_storage.py"
    assert world.asked == [("compute0", "flash", {"path": str(path)}), ("compute0", "describe", {})]
    assert result.stdout == "compute0 runs kv_storage.py: kv_fetch\n"
    assert result.stderr == ""


def test_flash_tells_the_externs_that_the_firmware_lacks(world: World, nicemu: Cli) -> None:
    world.answers["describe"] |= {"missing_externs": ["Probe"]}
    told = nicemu("flash", "firmware/kv_storage.py", "--nic", "compute0").stderr
    assert told.startswith("nothing does what extern Probe does: packets that call it are dropped")
    assert "nothing does what Probe does" in nicemu("status").stdout


def test_firmware_that_the_nic_refuses_is_an_error_of_the_user(world: World, nicemu: Cli) -> None:
    world.answers["flash"] = NicemuError("kv_storage.py: asyncio may not be imported")
    result = nicemu("flash", "firmware/kv_storage.py")
    assert (result.exit_code, result.stderr) == (1, "Error: kv_storage.py: asyncio may not be imported\n")


def test_a_file_that_is_nowhere_is_named_with_the_places(world: World, nicemu: Cli) -> None:
    result = nicemu("flash", "firmware/nowhere.py")
    assert result.exit_code == 1
    assert "no file firmware/nowhere.py here" in result.stderr


@pytest.mark.parametrize(
    ("count", "rest"), [(100, []), (101, ["and 1 more warning"]), (250, ["and 150 more warnings"])]
)
def test_of_very_many_warnings_the_first_are_shown_and_the_rest_counted(
    nicemu: Cli, tmp_path: Path, count: int, rest: list[str]
) -> None:
    source = (programs_root() / "p4" / "kvmatch.p4").read_text()
    unused = "\n".join(f"control Unused{number}() {{ apply {{ }} }}" for number in range(count))
    place = tmp_path / "many.p4"
    place.write_text(source.replace("control ", f"{unused}\ncontrol ", 1))
    told = nicemu("compile", str(place)).stderr
    assert told.count("is not used") == 100
    assert told.splitlines()[100 * 3 :] == rest
