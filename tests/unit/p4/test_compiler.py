# SPDX-License-Identifier: Apache-2.0
"""Whatever text arrives, the compiler answers with a program or a CompileError, and never with anything
else.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import CompileError, compile_program, compile_text
from nicemu.pipeline import Engine, program_of_json
from nicemu.programs import programs_root

FOLDER = programs_root() / "p4"
WORDS = {
    path.name: re.findall(r"\w+|\s+|[^\w\s]", path.read_text())
    for path in (FOLDER / "kvmatch.p4", FOLDER / "kvserve.p4", FOLDER / "include" / "nicemu.p4")
}
STRANGE = [
    "",
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    ";",
    ":",
    "0",
    "1 << 4000",
    "8w256",
    "-1",
    "header",
    "if",
    "&&&",
    "..",
    "\n#if 1\n",
]


def compile_and_run(text: str) -> None:
    with contextlib.suppress(CompileError):
        compiled = compile_text(text)
        engine = Engine()
        engine.load(program_of_json(compiled.program.to_json()))
        engine.process(bytes(64), 0)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(WORDS)), data=st.data())
def test_no_damage_to_a_shipped_program_is_more_than_a_compile_error(name: str, data: st.DataObject) -> None:
    words = list(WORDS[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(words) - 1))
        match data.draw(st.sampled_from(["drop", "repeat", "strange", "exchange"])):
            case "drop":
                words[place : place + data.draw(st.integers(1, 20))] = [" "]
            case "repeat":
                words[place:place] = words[place : place + 30]
            case "strange":
                words.insert(place, data.draw(st.sampled_from(STRANGE)))
            case _:
                words[place] = data.draw(st.sampled_from(words))
    compile_and_run("".join(words))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_no_text_at_all_is_more_than_a_compile_error(text: str) -> None:
    compile_and_run(text)


@pytest.mark.parametrize(
    "opening",
    [
        "(",
        "{",
        "[",
        "-",
        "!",
        "(bit<8>)",
        "if (true) ",
        "if (true) {",
        "f(",
        "<",
        "a ? ",
        "verify(",
        "x<bit<(",
    ],
)
def test_nesting_without_end_is_a_compile_error(opening: str) -> None:
    for before in ("const bit<8> x = ", "control C() { apply { ", "control C() { apply { x = "):
        with pytest.raises(CompileError):
            compile_text(before + opening * 5000)


@pytest.mark.parametrize(
    ("around", "end"), [("if (mm.b) { } else " * 106, ""), ("if (mm.b == mm.b) { " * 53, "}" * 53)]
)
def test_the_deepest_program_that_parses_also_reaches_the_nic(around: str, end: str) -> None:
    top = "#include <core.p4>\n#include <nicemu.p4>\nstruct h {} struct m { bool b; }\n"
    blocks = """parser P(packet_in p, out h hh, inout m mm, inout nic_metadata_t n) {
            state start { transition accept; } }
        control D(packet_out p, in h hh, in m mm, in nic_metadata_t n) { apply { } }
        control C(inout h hh, inout m mm, inout nic_metadata_t n) { apply { %s } }
        SmartNic(P(), C(), D()) main;"""
    chain = "mm.b = " + " == ".join(["mm.b"] * 89) + ";"
    compiled = compile_text(top + blocks % (around + chain + end))
    assert program_of_json(compiled.program.to_json()) == compiled.program
    for engine in (Engine(), CompiledEngine(optimised=False)) if JIT else (Engine(),):
        engine.load(compiled.program)
        engine.process(b"", 0)


def test_a_program_is_called_after_its_file_and_includes_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "types.p4").write_text("struct headers_t { } struct m_t { }\n")
    source = (FOLDER / "kvmatch.p4").read_text()
    (tmp_path / "mine.p4").write_text('#include "types.p4"\n' + source.replace("headers_t", "other_t"))
    assert compile_program(tmp_path / "mine.p4").program.name == "mine"


def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give the path of a P4 program"):
        compile_program(tmp_path / "none.p4")
    (tmp_path / "binary.p4").write_bytes(b"\xff\n\xfe\x00")
    with pytest.raises(UsageError, match=r"cannot read .*: line 2 has a byte that is 0"):
        compile_program(tmp_path / "binary.p4")


@pytest.mark.parametrize("fault", [AssertionError("no type"), KeyError("x"), StopIteration(), TypeError("t")])
@pytest.mark.parametrize("where", ["lower", "verify"])
def test_a_fault_of_the_compiler_s_own_is_told_as_one_at_a_place(
    monkeypatch: pytest.MonkeyPatch, p4: SimpleNamespace, fault: Exception, where: str
) -> None:
    def fail(*given: object) -> None:
        raise fault

    monkeypatch.setattr(f"nicemu.p4.compiler.{where}", fail)
    with pytest.raises(CompileError, match=r"test\.p4:\d+:\d+: error: nicemu's compiler failed here") as told:
        compile_text(p4.source(), "test.p4")
    assert type(fault).__name__ in str(told.value)
    assert told.value.__cause__ is fault


def test_a_fault_while_a_declaration_is_checked_is_told_there(
    monkeypatch: pytest.MonkeyPatch, p4: SimpleNamespace
) -> None:
    def fail(*given: object) -> None:
        raise AttributeError("kind")

    monkeypatch.setattr("nicemu.p4.check.Checker.states", fail)
    text = p4.source()
    with pytest.raises(CompileError) as told:
        compile_text(text, "test.p4")
    (only,) = told.value.diagnostics
    assert text.splitlines()[only.line - 1].startswith("parser P(")
