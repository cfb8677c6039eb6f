# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import Result

import nicemu as package
from nicemu.cli import main
from nicemu.cli.commands import COMMANDS

Cli = Callable[..., Result]
HEAVY = ("numba", "llvmlite", "numpy", "grpc", "google", "torch", "rich", "scapy", "cffi")
WATCH_IMPORTS = f"""
import sys
try:
    from nicemu.cli import main
    main(sys.argv[1:], prog_name="nicemu")
finally:
    found = [name for name in {HEAVY} if name in sys.modules]
    assert not found, found
"""


@pytest.mark.process
@pytest.mark.parametrize("words", [("--help",), ("table", "--help"), ("up", "--help"), ("doctor", "--help")])
def test_help_imports_no_compiler_no_numpy_and_no_grpc(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", WATCH_IMPORTS, *words]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("Usage: nicemu")


@pytest.mark.process
def test_ctrl_c_while_the_command_line_is_loaded_ends_it_with_status_130_and_not_a_word(
    tmp_path: Path,
) -> None:
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    root = str(Path(package.__path__[0]).parent)
    script = "import runpy; runpy.run_module('nicemu', run_name='__main__')"
    command = [sys.executable, "-c", script, "--help"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), root])}
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (finished.returncode, finished.stdout, finished.stderr) == (130, "", "")


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_is_a_sentence_and_status_1() -> None:
    command = [sys.executable, "-m", "nicemu", "--help"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        finished = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    told = "Error: nothing more can be written: No space left on device\n"
    assert (finished.returncode, finished.stderr) == (1, told)


def test_help_lists_every_command_that_is_not_hidden(nicemu: Cli) -> None:
    listed = nicemu("--help").output.partition("Commands:")[2]
    for name, entry in COMMANDS.items():
        assert (f"  {name} " in listed) is not entry.hidden


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_where_the_list_says(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert isinstance(command, click.Command)
    assert command.name == name


def test_the_version_is_that_of_the_package(nicemu: Cli) -> None:
    assert nicemu("--version").output == f"nicemu, version {package.__version__}\n"


def test_an_unknown_command_is_wrong_usage(nicemu: Cli) -> None:
    result = nicemu("stat")
    assert result.exit_code == 2
    assert "No such command 'stat'" in result.stderr


@pytest.mark.parametrize(
    ("words", "begun", "expected"),
    [
        ([], "st", ["status", "stf", "stats", "study"]),
        ([], "nic", []),
        ([], "--v", ["--version"]),
        (["table"], "", ["add", "apply", "clear", "default", "delete", "list", "modify", "save"]),
        (["compile", "--emit"], "", ["ir", "kernel", "p4info", "dot"]),
    ],
)
def test_a_shell_can_complete_commands_options_and_choices(
    words: list[str], begun: str, expected: list[str]
) -> None:
    completions = ShellComplete(main, {}, "nicemu", "_NICEMU_COMPLETE").get_completions(words, begun)
    assert [item.value for item in completions] == expected


def test_no_command_imports_a_heavy_package_or_a_room_before_it_runs() -> None:
    allowed = {"nicemu", "nicemu.errors"}
    modules = {entry.place.partition(":")[0].rpartition(".")[2] for entry in COMMANDS.values()}
    for path in (Path(package.__path__[0], "cli", f"{module}.py") for module in sorted(modules)):
        for node in ast.parse(path.read_text()).body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                assert name.partition(".")[0] not in HEAVY, f"{path.name} imports {name} at once"
                assert not name.startswith("nicemu") or name in allowed, f"{path.name} imports {name} at once"
