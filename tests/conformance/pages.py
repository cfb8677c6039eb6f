# SPDX-License-Identifier: Apache-2.0
"""README.md and docs/ as a reader takes them apart: fenced blocks, tables, what stands in backticks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/triggers.md",
    "docs/host.md",
    "docs/firmware.md",
    "docs/p4.md",
    "docs/externs.md",
    "docs/stf.md",
    "docs/topology.md",
    "docs/libfabric.md",
    "docs/softroce.md",
    "docs/wire.md",
    "docs/nvme.md",
    "docs/races.md",
    "docs/testing.md",
)


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
        """Whether the block needs NICs that are up, or boots a guest."""
        started = r"^from nicemu\.\w+ import .*\b(open_nic|Guest)\b"
        return re.search(started, self.text, re.MULTILINE) is not None


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
    """Put the files of a page into `folder`, beside the examples of a checkout, as its reader has them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "examples").symlink_to(ROOT / "examples")
    for block in blocks_of(page):
        if block.name:
            (folder / block.name).write_text(block.text, encoding="utf-8")
    return folder


def place(block: Block) -> str:
    """Return where a block begins."""
    return f"{block.page}:{block.line}"


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
SNIPPETS = [
    block for block in BLOCKS if block.language == "python" and not (block.is_script or block.is_test)
]
