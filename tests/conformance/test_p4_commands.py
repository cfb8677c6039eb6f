# SPDX-License-Identifier: Apache-2.0
"""The commands that docs/p4.md shows on a console are run, and print what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nicemu.capture import PcapWriter
from nicemu.cli import main
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine
from nicemu.switch import put_tables
from tests.conformance.pages import BLOCKS, ROOT, Block, place, text_of

PAGE = "docs/p4.md"
CONSOLE = [block for block in BLOCKS if block.page == PAGE and block.language == "console"]
JSON = [block for block in BLOCKS if block.page == PAGE and block.language == "json"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the commands name: programs of the page, and the tables below the file's name."""
    for block in BLOCKS:
        if block.page == PAGE and block.name:
            (tmp_path / block.name).write_text(block.text)
    for name, block in zip(("sessions.json", "routes.json"), JSON, strict=False):
        (tmp_path / name).write_text(block.text)
    make_captures(tmp_path)
    return tmp_path


def make_captures(folder: Path) -> None:
    """Write requests.pcap: the packet of the first command, and three that differ from it."""
    text = CONSOLE[0].text.split("--hex '")[1].split("'")[0]
    request = bytes.fromhex(text.replace(">", ""))
    other = request.replace(bytes.fromhex("fedcba9876543210"), bytes.fromhex("fedcba9876543211"))
    unknown = request[:12] + b"\x88\xb5" + request[14:]
    with open(folder / "requests.pcap", "wb") as file:
        writer = PcapWriter(file)
        for number, frame in enumerate((request, other, unknown, request[:30])):
            writer.write(1_700_000_000_000_000_000 + number, frame)


def commands(block: Block) -> list[tuple[str, str]]:
    """Return the commands of a block, each with its output: `$ ` begins one and `> ` goes on with it."""
    found = []
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        count = 1 + sum(line.startswith("> ") for line in lines)
        command = "\n".join([lines[0], *(line.removeprefix("> ") for line in lines[1:count])])
        found.append((command, "".join(f"{line}\n" for line in lines[count:])))
    return found


@pytest.mark.process
@pytest.mark.parametrize("block", CONSOLE, ids=place)
def test_a_command_on_a_console_prints_what_the_page_says(block: Block, folder: Path) -> None:
    nicemu = f"{sys.executable} -m nicemu "
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for command, output in commands(block):
        assert command.startswith("nicemu ")
        script = nicemu + command.removeprefix("nicemu ")
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
        )
        assert (done.stderr, _without_rates(done.stdout)) == ("", _without_rates(output))


def _without_rates(output: str) -> str:
    return re.sub(r"[\d,]+ a second", "N a second", output)


def test_the_commands_on_the_command_line_s_page_are_known() -> None:
    section = text_of(PAGE).split("\n## Command line\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    words = [
        shlex.split(line.split(" | ")[0], comments=True) for line in block.replace("\\\n", "").splitlines()
    ]
    assert {line[0] for line in words} == {"nicemu"}
    for line in words:
        command: click.Command | None = main
        for word in line[1:]:
            if isinstance(command, click.Group):
                command = command.get_command(click.Context(command), word)
                assert command is not None, line
        assert command is not None
        options = {option for param in command.params for option in param.opts}
        assert {word for word in line if word.startswith("--")} <= options, line


def test_the_last_file_of_tables_fits_the_program_with_the_clone_session(tmp_path: Path) -> None:
    program = next(block.text for block in BLOCKS if block.page == PAGE and "MIRROR = '''" in block.text)
    engine = Engine()
    engine.load(compile_text(program.split("'''")[1]).program)
    path = tmp_path / "tables.json"
    path.write_text(JSON[-1].text)
    assert put_tables(engine, path) == 0
    assert engine.objects.register("seen").values == {0: 1, 15: 255}
    assert (list(engine.objects.multicast_groups), list(engine.objects.clone_sessions)) == ([1], [5])
