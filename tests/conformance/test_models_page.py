# SPDX-License-Identifier: Apache-2.0
"""docs/models.md is true: its commands run, its file is read, its figures are the model's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from nicemu.cli import main
from nicemu.model import (
    CHOICES,
    PROFILES,
    SERVERS,
    Operation,
    Profile,
    Provenance,
    nvme_s,
    read_profile,
    read_server,
)
from nicemu.study import hpe_rows, size_of, size_text, where_it_holds

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (nicemu .*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_on_the_page_runs(command: str) -> None:
    result = CliRunner().invoke(main, command.split()[1:])
    assert result.exit_code == 0, result.output


def test_the_page_has_commands_and_every_provenance() -> None:
    assert len(COMMANDS) == 2
    assert all(f"| `{item}` |" in PAGE for item in Provenance)
    for name in ("transfer.completion", "nvme.reading"):
        assert all(f"`{choice}`" in PAGE for choice in CHOICES[name])


def test_the_file_on_the_page_is_a_profile(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "ours.toml").write_text(text)
    profile = read_profile(tmp_path / "ours.toml")
    assert (profile.title, profile.whole("node.gpus")) == ("our cluster", 4)
    assert profile.fields["link.s_per_byte"].provenance is Provenance.FITTED


@pytest.mark.parametrize("row", hpe_rows(), ids=lambda row: row.name)
def test_a_row_s_figures_are_the_model_s(row: object) -> None:
    (found,) = [item for item in hpe_rows() if item.name == row.name]  # type: ignore[attr-defined]
    (line,) = re.findall(rf"^\| {found.name} \|.*$", PAGE, re.MULTILINE)
    _, _, _, told, holds, _ = line.split("|")
    sizes = [size_of(text) for text in ("1KiB", "4KiB", "64KiB", "1MiB", "1GiB")]
    for size, text in zip(sizes, told.split(","), strict=True):
        speedup = found.point(Operation.STORE, size, 19).speedup
        assert f"{speedup:.{len(text.strip().partition('.')[2])}f}" == text.strip()
    intervals = where_it_holds(found, Operation.STORE, 19, 0.5)
    ends = [(size_text(item.first_bytes), size_text(item.last_bytes)) for item in intervals]
    wanted = holds.strip()
    if ends:
        ((first, last),) = ends
        assert wanted in (f"{first} to {last}", f"{first.split()[0]} to {last}")
    else:
        assert wanted == "nowhere"


@pytest.mark.parametrize("reading", CHOICES["nvme.reading"])
def test_the_drive_s_figures_are_the_model_s(reading: str) -> None:
    (line,) = re.findall(rf"^\| `{reading}` \|.*$", PAGE, re.MULTILINE)
    small, large = re.findall(r"([\d.]+), ([\d.]+) (us|ms)", line)
    profile = read_profile("seed").having({"nvme.reading": reading})
    for (write, read, unit), length in ((small, 4096), (large, 128 << 20)):
        scale = 1e6 if unit == "us" else 1e3
        for text, operation in ((write, Operation.STORE), (read, Operation.FETCH)):
            found = scale * nvme_s(profile, operation, length)
            assert f"{found:.{len(text.partition('.')[2])}f}" == text, (operation, length)


@pytest.mark.parametrize(
    "found", [*map(read_profile, PROFILES), *map(read_server, SERVERS)], ids=lambda p: p.name
)
def test_the_page_has_every_constant_with_its_source(found: Profile) -> None:
    root = read_server(SERVERS[0]) if found.name in SERVERS else read_profile(PROFILES[0])
    for name, field in found.fields.items():
        if found.name == root.name or field != root.fields[name]:
            value = f"{field.value} {field.unit}".strip()
            told = f"| `{name}` | `{found.name}` | {value} | {field.provenance} | {field.source} |"
            assert told in PAGE, told
