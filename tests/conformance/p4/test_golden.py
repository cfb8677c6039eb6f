# SPDX-License-Identifier: Apache-2.0
"""Source to IR, source to P4Info, source to diagnostics: as they were when somebody last looked at them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nicemu.control import p4info_text
from nicemu.p4 import CompileError, compile_program
from nicemu.pipeline import Engine, program_of_json
from nicemu.programs import find_program

HERE = Path(__file__).parent
ACCEPTED = {path.stem: path for path in sorted((HERE / "programs").glob("*.p4"))}
ACCEPTED.update({name: find_program(f"p4/{name}.p4") for name in ("kvmatch", "kvserve")})
REFUSED = sorted((HERE / "refused").glob("*.p4"))
Compare = Callable[[str, str], None]


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_program_compiles_to_its_golden_ir(name: str, matches_golden: Compare) -> None:
    program = compile_program(ACCEPTED[name]).program
    matches_golden(f"{name}.ir.json", program.to_json(indent=1) + "\n")
    Engine().load(program_of_json(program.to_json()))


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_program_has_its_golden_p4info(name: str, matches_golden: Compare) -> None:
    matches_golden(f"{name}.p4info.txtpb", p4info_text(compile_program(ACCEPTED[name]).p4info))


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_a_faulty_program_gets_its_golden_diagnostics(path: Path, matches_golden: Compare) -> None:
    with pytest.raises(CompileError) as caught:
        compile_program(path)
    text = str(caught.value).replace(str(find_program("p4/kvmatch.p4").parent), "p4").replace(str(HERE), ".")
    matches_golden(f"{path.stem}.txt", text + "\n")
