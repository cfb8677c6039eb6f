# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from nicemu.errors import ControlError, NicemuError, P4RuntimeCode
from nicemu.nic import NicConfig
from nicemu.p4 import compile_program
from nicemu.programs import find_program
from nicemu.run import Simulation, read_program
from nicemu.run.program_file import program_of
from tests.unit.bmv2.router_json import ROUTER_P4, router_json


def test_a_file_may_hold_p4_or_what_p4c_made_of_it(tmp_path: Path) -> None:
    (tmp_path / "text.p4").write_text(ROUTER_P4)
    (tmp_path / "made.json").write_text(json.dumps(router_json()))
    (tmp_path / "made").write_text(json.dumps(router_json()))
    text, made, unnamed = (read_program(tmp_path / name) for name in ("text.p4", "made.json", "made"))
    assert made.p4info.tables == unnamed.p4info.tables == text.p4info.tables
    assert made.diagnostics == ()


def test_a_nic_runs_either(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    path.write_text(json.dumps(router_json()))
    simulation = Simulation([NicConfig("a", "127.0.1.1", memory_bytes=1 << 20)])
    simulation.load_program("a", path)
    program = simulation.nics["a"].pipeline.program
    assert program is not None
    assert (program.name, program.architecture) == ("made", "v1model")


def test_a_controller_may_bring_either() -> None:
    text = json.dumps(router_json())
    program = program_of(text.encode())
    assert [table.name for table in program.tables] == ["I.route", "I.acl", "I.known"]
    assert program_of(program.to_json().encode()) == program
    with pytest.raises(ControlError, match="yet: primitive frob") as refused:
        program_of(text.replace('"mark_to_drop"', '"frob"').encode())
    assert refused.value.code is P4RuntimeCode.INVALID_ARGUMENT
    for broken in (b'{"__meta__"', b'"__meta__"', b"\xff"):
        with pytest.raises(ControlError):
            program_of(broken)


def test_what_the_compiler_printed_is_a_program(tmp_path: Path) -> None:
    compiled = compile_program(find_program("p4/kvmatch.p4"))
    (tmp_path / "made.json").write_text(compiled.program.to_json(indent=2))
    read = read_program(tmp_path / "made.json")
    assert (read.program, read.p4info) == (compiled.program, compiled.p4info)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"architecture": "psa"}', "other.json: program IR: "),
        ('{"pipelines": []}', "has no __meta__"),
        ("[1]", "object that p4c-bm2-ss writes was expected"),
    ],
)
def test_what_is_neither_ir_nor_bmv2_json_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(NicemuError, match=told):
        read_program(tmp_path / "other.json")
