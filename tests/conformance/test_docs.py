# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/ show is run: programs, scripts, snippets, commands, and the tables' claims."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nicemu.firmware import Arrival, Connection, Event, Mailbox, Nic, NicCounter, load_firmware
from nicemu.firmware.loader import ALLOWED_IMPORTS
from nicemu.p4 import CompileError, compile_text
from nicemu.run import Instance

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/triggers.md", "docs/firmware.md", "docs/p4.md")
COMMAND_TIMEOUT_S = 300.0
ACTIVATE = ". .venv/bin/activate"


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
    def is_live(self) -> bool:
        """Whether the block needs NICs that are up."""
        return "open_nic(" in self.text


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    found: list[Block] = []
    language, first, lines = "", 0, list[str]()
    for number, line in enumerate((ROOT / page).read_text().splitlines(keepends=True), start=1):
        if not line.startswith("```"):
            lines.append(line)
        elif first:
            found.append(Block(page, first, language, "".join(lines)))
            first = 0
        else:
            language, first, lines = line[3:].strip(), number + 1, []
    assert not first, f"{page}: the block at line {first} has no end"
    return found


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
SNIPPETS = [block for block in BLOCKS if block.language == "python" and not block.is_script]


def _place(block: Block) -> str:
    return f"{block.page}:{block.line}"


def _folder(page: str, folder: Path) -> Path:
    """Put the files of a page into `folder`, as its reader has them."""
    folder.mkdir(parents=True, exist_ok=True)
    for block in blocks_of(page):
        if block.name:
            (folder / block.name).write_text(block.text)
    return folder


def _compiled(block: Block) -> object:
    return compile(block.text, _place(block), "exec", dont_inherit=True)


# Programs, scripts and snippets


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "p4"], ids=_place)
def test_a_program_on_a_page_compiles_without_a_warning(block: Block) -> None:
    assert not compile_text(block.text, block.name or "page.p4").diagnostics


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.is_script], ids=_place)
def test_a_firmware_script_on_a_page_is_loaded(block: Block, tmp_path: Path) -> None:
    assert load_firmware(_folder(block.page, tmp_path) / block.name).names()


@pytest.mark.parametrize("block", [block for block in SNIPPETS if not block.is_live], ids=_place)
def test_a_snippet_runs_where_its_page_s_files_are(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(_folder(block.page, tmp_path))
    exec(compile(block.text, _place(block), "exec", dont_inherit=True), {"__name__": "snippet"})
