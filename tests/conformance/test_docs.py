# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/ show is run: programs, scripts, snippets, commands; and their tables are held."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nicemu import firmware
from nicemu.errors import NicemuError
from nicemu.p4 import CompileError, compile_text
from nicemu.run import Instance, load_topology

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/triggers.md",
    "docs/firmware.md",
    "docs/p4.md",
    "docs/topology.md",
    "docs/libfabric.md",
    "docs/races.md",
    "docs/testing.md",
)
TOPOLOGY = "examples/two_storage_nodes.toml"
TIMEOUT_S = 300.0
GONE_S = 20.0
ACTIVATE = ". .venv/bin/activate"
TEST_NAME = re.compile(r"`(test_\w+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page; `line` is that of its first line."""

    page: str
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """The file that the block is: its first line names it in a comment. "" if it does not."""
        match = re.match(r"(?:#|//) (\w+\.(?:py|p4))\n", self.text)
        return match[1] if match else ""

    @property
    def is_script(self) -> bool:
        """Whether the block is a firmware script."""
        return self.language == "python" and "from nicemu.firmware import" in self.text

    @property
    def is_test(self) -> bool:
        """Whether the block is a test file; test_testing_page.py runs those."""
        return re.search(r"^def test_", self.text, re.MULTILINE) is not None

    @property
    def is_live(self) -> bool:
        """Whether the block needs NICs that are up."""
        return re.search(r"^from nicemu\.host import .*\bopen_nic\b", self.text, re.MULTILINE) is not None


def text_of(page: str) -> str:
    """Return a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    found: list[Block] = []
    language, first, lines = "", 0, list[str]()
    for number, line in enumerate(text_of(page).splitlines(keepends=True), start=1):
        if not line.startswith("```"):
            lines.append(line)
        elif first:
            found.append(Block(page, first, language, "".join(lines)))
            first = 0
        else:
            language, first, lines = line[3:].strip(), number + 1, []
    assert not first, f"{page}: the block at line {first} has no end"
    return found


def rows_of(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    section = text_of(page).split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    table = re.search(r"^\|.*\n\|[-|]+\|\n((?:\|.*\n)+)", section, re.MULTILINE)
    assert table is not None, f"{page}: no table below {heading}"
    return [
        [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        for row in table[1].splitlines()
    ]


def codes(cell: str) -> list[str]:
    """Return what stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def folder_of(page: str, folder: Path) -> Path:
    """Put the files of a page into `folder`, as its reader has them."""
    folder.mkdir(parents=True, exist_ok=True)
    for block in blocks_of(page):
        if block.name:
            (folder / block.name).write_text(block.text, encoding="utf-8")
    return folder


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended does not, though nobody may have waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def place(block: Block) -> str:
    """Return where a block begins."""
    return f"{block.page}:{block.line}"


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
SNIPPETS = [
    block for block in BLOCKS if block.language == "python" and not (block.is_script or block.is_test)
]


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


# What needs NICs that are up


def _environment(folder: Path) -> dict[str, str]:
    """Folders of its own for what runs, and a `nicemu` on the path that is the one under test."""
    for name in ("bin", "run", "data"):
        (folder / name).mkdir()
    command = folder / "bin" / "nicemu"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nicemu "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "XDG_DATA_HOME": str(folder / "data"),
    }


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands as a reader does, in a folder of their own."""

    environment: dict[str, str]

    def run(self, command: list[str], cwd: Path) -> str:
        """Run to the end, which must be a success; return what it printed."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def left_behind(self) -> list[Path]:
        """What still lies in the runtime root, but for lock files."""
        root = Path(self.environment["XDG_RUNTIME_DIR"]) / "nicemu"
        return [path for path in root.glob("*") if path.suffix != ".lock"]


@pytest.fixture
def shell() -> Iterator[Shell]:
    """A shell in which nothing is up."""
    with tempfile.TemporaryDirectory(prefix="nicemu-docs-") as folder:
        shell = Shell(_environment(Path(folder)))
        yield shell
        if shell.left_behind():
            shell.run(["nicemu", "down"], Path(folder))


@pytest.fixture(scope="module")
def live() -> Iterator[Shell]:
    """A shell in which the NICs of the shipped topology are up, `compute0` once."""
    with tempfile.TemporaryDirectory(prefix="nicemu-docs-") as folder:
        shell = Shell(_environment(Path(folder)))
        with pytest.MonkeyPatch.context() as patch:
            for name in ("XDG_RUNTIME_DIR", "XDG_DATA_HOME"):
                patch.setenv(name, shell.environment[name])
            instance = Instance.start(TOPOLOGY, name=f"test-{os.getpid()}-docs")
        with instance:
            yield shell
        assert not shell.left_behind()


@pytest.mark.process
@pytest.mark.parametrize("block", [block for block in SNIPPETS if block.is_live], ids=place)
def test_a_snippet_runs_against_live_nics(block: Block, live: Shell, tmp_path: Path) -> None:
    live.run([sys.executable, "-W", "error", "-c", block.text], folder_of(block.page, tmp_path))


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "sh"], ids=place)
def test_the_commands_of_a_page_run(block: Block, live: Shell, tmp_path: Path) -> None:
    live.run(["bash", "-euxc", block.text], folder_of(block.page, tmp_path))


@pytest.mark.process
@pytest.mark.slow
def test_the_commands_of_the_first_thing_run_and_leave_nothing_behind(shell: Shell, tmp_path: Path) -> None:
    section = text_of("README.md").split("**1. ", 1)[1].split("**2. ", 1)[0]
    commands = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    assert commands[0] == ACTIVATE, "the environment is the tests' own"
    assert commands[-1] == "nicemu down"
    shell.run(["bash", "-euxc", "\n".join(commands[1:-1])], tmp_path)
    pids = [nic["pid"] for nic in json.loads(shell.run(["nicemu", "status", "--json"], tmp_path))]
    assert len(pids) == 3
    shell.run(["nicemu", "down"], tmp_path)
    assert not shell.left_behind()
    deadline = time.monotonic() + GONE_S
    while running := [pid for pid in pids if is_running(pid)]:
        assert time.monotonic() < deadline, f"{running} still run"
        time.sleep(0.05)


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
        and not reason.startswith("parser.not_a_chunk")
        and f'"{reason.removeprefix("port.requests.")}"' not in sources
    ]
    assert unknown == []


def test_a_parser_error_of_a_program_is_counted_under_its_own_name() -> None:
    """The rule in the row of `parser.not_a_chunk_request`."""
    from nicemu.pipeline import Engine

    engine = Engine()
    text = (ROOT / "p4" / "kvserve.p4").read_text()
    engine.load(compile_text(text).program)
    verdict: Any = engine.process(bytes(14), 0)
    assert verdict.drop_reason == "parser.not_a_chunk_request"
