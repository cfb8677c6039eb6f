# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/ show is run: programs, scripts, snippets; and their tables are held."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from nicemu import firmware
from nicemu.errors import NicemuError
from nicemu.p4 import CompileError, compile_text
from nicemu.run import load_topology
from tests.conformance.pages import (
    BLOCKS,
    PAGES,
    ROOT,
    SNIPPETS,
    Block,
    codes,
    folder_of,
    place,
    rows_of,
    text_of,
)

TEST_NAME = re.compile(r"`(test_\w+)`")


# Programs, scripts and snippets


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "p4"], ids=place)
def test_a_program_on_a_page_compiles_without_a_warning(block: Block) -> None:
    assert not compile_text(block.text, block.name or "page.p4").diagnostics


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.is_script], ids=place)
def test_a_firmware_script_on_a_page_is_loaded(block: Block, tmp_path: Path) -> None:
    assert block.name, "the first line of a script names its file"
    assert firmware.load_firmware(folder_of(block.page, tmp_path) / block.name).names()


@pytest.mark.parametrize("block", [block for block in SNIPPETS if not block.is_live], ids=place)
def test_a_snippet_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder_of(block.page, tmp_path))
    code = compile(block.text, place(block), "exec", dont_inherit=True)
    exec(code, {"__name__": "snippet"})


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=place)
def test_a_topology_on_a_page_is_read(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "page.toml"
    path.write_text(block.text, encoding="utf-8")
    assert load_topology(path).nics


NIC = '[nic.a]\np4 = "p4/kvserve.p4"\nfirmware = "firmware/kv_storage.py"\n'


@pytest.mark.parametrize(
    "text",
    [
        "unheard_of = 1\n" + NIC,
        NIC + "unheard_of = 1\n",
        NIC + "[[nic.a.namespace]]\nunheard_of = 1\n",
        NIC + "[faults]\nunheard_of = 1\n",
    ],
)
def test_every_key_of_a_topology_is_described(text: str, tmp_path: Path) -> None:
    path = tmp_path / "unknown.toml"
    path.write_text(text)
    with pytest.raises(NicemuError, match="unheard_of") as refused:
        load_topology(path)
    known = str(refused.value).split("known are ")[1].split(", ")
    cells = [cell for row in rows_of("docs/topology.md", "Keys") for cell in row]
    described = {code.strip("[]").split(".")[-1] for cell in cells for code in codes(cell)}
    assert set(known) - described <= {"nic"}


# Links and names


@pytest.mark.parametrize("page", [*PAGES, "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_links_lead_to_files_and_headings_that_are_there(page: str) -> None:
    text = text_of(page)
    headings = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings, f"{page}: no heading {target}"
        elif "://" not in target:
            path = ((ROOT / page).parent / target.split("#")[0]).resolve()
            assert path.exists(), f"{page}: {target} is not there"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page: str) -> None:
    named = re.findall(
        r"`((?:nicemu|tests|p4|firmware|host|examples|benchmarks|docs)/[\w/.]+\w)`", text_of(page)
    )
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_tests_that_a_page_names_exist(page: str) -> None:
    files = [*(ROOT / "tests").rglob("test_*.py")]
    tests = {
        name for path in files for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert sorted(set(TEST_NAME.findall(text_of(page))) - tests) == []


# docs/firmware.md


def _methods(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers_static(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("kind", "name"), [(firmware.Nic, "nic"), (firmware.NicCounter, "counter"), (firmware.Mailbox, "mailbox")]
)
def test_everything_that_a_script_can_call_is_described(kind: type, name: str) -> None:
    calls = [codes(row[0])[0].removeprefix("await ") for row in rows_of("docs/firmware.md", "The nic object")]
    described = {call.split(".")[1].split("(")[0] for call in calls if call.startswith(f"{name}.")}
    assert _methods(kind) == described


def test_the_list_of_allowed_imports_is_the_loader_s(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os\n")
    with pytest.raises(NicemuError) as refused:
        firmware.load_firmware(script)
    allowed = str(refused.value).split("it may import ", 1)[1].split(", ")
    section = text_of("docs/firmware.md").split("\n## What may be imported\n", 1)[1].split("\n## ", 1)[0]
    assert sorted(codes(section.split("\n\n", 1)[0])) == sorted(allowed)


# docs/p4.md

ANCHORS = {
    "outside": ("struct headers_t", "{} struct headers_t"),
    "a struct": ("bool ok;", "bool ok; {}"),
    "a parser": ("    state start {", "    {} state start {{"),
    "a state": ("transition accept;", "{} transition accept;"),
    "a transition": ("transition accept;", "transition {}"),
    "a control": ("    apply {\n        if", "    {} apply {{\n        if"),
    "an apply block": ("        if (!t.apply()", "        {} if (!t.apply()"),
    "a deparser": ("packet.emit(headers);", "packet.emit(headers); {}"),
}
"""Where an example may stand in the program of the page."""


def _messages(example: str) -> dict[str, list[str]]:
    """Return what the compiler says of an example at each place; nothing where it takes it."""
    program = next(block.text for block in BLOCKS if block.name == "first.p4")
    told: dict[str, list[str]] = {}
    for where, (before, after) in ANCHORS.items():
        assert program.count(before) == 1
        text = program.replace(before, after.format("\n" + example + "\n"))
        try:
            compile_text(text)
        except CompileError as error:
            told[where] = [item.message for item in error.diagnostics]
        else:
            told[where] = []
    return told


@pytest.mark.parametrize(
    "example",
    [code for row in rows_of("docs/p4.md", "The language: what is taken") for code in codes(row[2])],
)
def test_what_the_page_says_is_taken_compiles(example: str) -> None:
    told = _messages(example)
    assert [] in told.values(), told


@pytest.mark.parametrize("heading", ["v1model", "The language: what is taken"])
def test_what_is_said_of_simple_switch_names_its_sources(heading: str) -> None:
    text = text_of("docs/p4.md").replace("\n### ", "\n## ")
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    table = section.split("| p4c with simple_switch |\n", 1)[1].split("\n\n", 1)[0].splitlines()
    listed = text.split("Sources, read in", 1)[1].split("\n## ", 1)[0]
    named = set(re.findall(r"^- ([\w, -]+?)(?: with a number)?:", listed, re.MULTILINE))
    sources = {name for names in named for name in names.split(", ")}
    for row in table[1:]:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert len(cells) == table[0].count("---"), row
        for statement in filter(None, cells[-1].split("; ")):
            given = re.search(r" \(([^()]+)\)$", statement)
            if given is None:  # the source of several statements stands behind the last
                assert not cells[-1].endswith(statement), row
                continue
            assert {name.split(" #")[0] for name in given[1].split(", ")} <= sources, row


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (codes(example)[0], codes(message)[0])
        for *_, example, message in rows_of("docs/p4.md", "The language: what is refused")
    ],
)
def test_what_the_page_says_is_refused_is_refused_in_these_words(example: str, message: str) -> None:
    told = _messages(example)
    assert message in [text for texts in told.values() for text in texts], told


def test_every_drop_reason_on_the_page_is_counted_somewhere() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "nicemu").rglob("*.py"))
    reasons = [code for row in rows_of("docs/p4.md", "Drop reasons") for code in codes(row[0])]
    unknown = [
        reason
        for reason in reasons
        if f'"{reason}"' not in sources
        and not reason.startswith(("parser.not_a_chunk", "extern.ValueError"))
        and f'"{reason.removeprefix("port.requests.")}"' not in sources
    ]
    assert unknown == []


def test_every_reason_under_which_the_pipeline_counts_is_on_the_page() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "nicemu" / "pipeline").rglob("*.py"))
    reasons = {code for row in rows_of("docs/p4.md", "Drop reasons") for code in codes(row[0])}
    assert set(re.findall(r'"((?:pipeline|parser)\.[a-z_]+)"', sources)) - reasons == set()


def test_the_readme_names_each_folder_once() -> None:
    folders = [row[0] for row in rows_of("README.md", "Where things are")]
    assert len(folders) == len(set(folders))


def test_a_parser_error_of_a_program_is_counted_under_its_own_name() -> None:
    """The rule in the row of `parser.not_a_chunk_request`."""
    from nicemu.pipeline import Engine

    engine = Engine()
    text = (ROOT / "p4" / "kvserve.p4").read_text()
    engine.load(compile_text(text).program)
    verdict: Any = engine.process(bytes(14), 0)
    assert verdict.drop_reason == "parser.not_a_chunk_request"
