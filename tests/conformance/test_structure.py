# SPDX-License-Identifier: Apache-2.0
"""The rules of the house that no linter knows: rooms have doors, programs have toolkits."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "nicemu"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
INNER = sorted(".".join(path.parent.relative_to(PACKAGE).parts) for path in PACKAGE.glob("*/*/__init__.py"))
PROGRAMS_MAY_IMPORT = {
    "firmware": {"nicemu.firmware", "nicemu.kv", "nicemu.errors"},
    "host": {"nicemu.host", "nicemu.kv", "nicemu.errors"},
}
LICENCE = "# SPDX-License-Identifier: Apache-2.0"


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a module: `from ..a.b import c` has module a.b and 2 levels."""

    line: int
    module: str
    level: int


def imports_of(source: str) -> list[Import]:
    """Return the imports in `source`, those inside functions too."""
    return list(_imports(ast.parse(source)))


def _imports(tree: ast.AST) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield Import(node.lineno, module, node.level)
            if node.level == 0 and module == "nicemu":
                yield from (Import(node.lineno, f"nicemu.{alias.name}", 0) for alias in node.names)


def past_the_door(
    source: str, rooms: list[str] = ROOMS, home: str = "", inner: list[str] = INNER
) -> list[str]:
    """Return what is wrong with the imports of a file of the package's room `home`, or of a program.

    A room may hold rooms, `inner`: those who live in it enter them by their doors too.
    """
    found = []
    for item in imports_of(source):
        parts = item.module.split(".")
        if item.level > 1:
            found.append(
                f"line {item.line}: from {'.' * item.level}{item.module}: write the room's whole name"
            )
        elif item.level == 0 and parts[0] == "nicemu" and len(parts) > 2 and parts[1] in rooms:
            if home == parts[1] and ".".join(parts[1:]) in inner:
                continue
            door = f"nicemu.{parts[1]}"
            found.append(f"line {item.line}: {item.module} is behind a door; import from {door}")
    return found


def outside_the_toolkit(source: str, folder: str) -> list[str]:
    """Return the rooms of nicemu that a program of `folder` imports and may not."""
    allowed = PROGRAMS_MAY_IMPORT[folder]
    rooms = [item.module for item in imports_of(source) if item.module.startswith("nicemu.")]
    return sorted({room for room in rooms if room not in allowed})


def _files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", _files("nicemu", "firmware", "host", "examples", "benchmarks"), ids=_name)
def test_rooms_are_entered_by_their_doors(path: Path) -> None:
    parts = path.relative_to(ROOT).parts
    assert (
        past_the_door(path.read_text(encoding="utf-8"), home=parts[1] if parts[0] == "nicemu" else "") == []
    )


@pytest.mark.parametrize("path", _files(*PROGRAMS_MAY_IMPORT), ids=_name)
def test_a_program_imports_its_own_toolkit_alone(path: Path) -> None:
    assert outside_the_toolkit(path.read_text(encoding="utf-8"), path.relative_to(ROOT).parts[0]) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("from nicemu.trigger import Counter\nfrom .state import State\nfrom . import state", 0),
        ("from nicemu.trigger.counter import Counter", 1),
        ("import nicemu.trigger.counter", 1),
        ("def work():\n    from nicemu.trigger.counter import Counter", 1),
        ("from ..trigger import Counter", 1),
        ("from nicemu.errors import UsageError\nimport numpy.linalg.lapack", 0),
    ],
)
def test_the_rule_of_doors_sees_a_planted_violation(source: str, count: int) -> None:
    assert len(past_the_door(source, ["trigger"])) == count


@pytest.mark.parametrize(
    ("source", "home", "count"),
    [
        ("from nicemu.fabric.ports import Port", "fabric", 0),
        ("from nicemu.fabric.ports import Port", "nic", 1),
        ("from nicemu.fabric.ports.port import Port", "fabric", 1),
    ],
)
def test_the_rule_of_doors_holds_for_rooms_in_rooms(source: str, home: str, count: int) -> None:
    assert len(past_the_door(source, ["fabric"], home, ["fabric.ports"])) == count


@pytest.mark.parametrize(
    "source", ["from nicemu.rdma import QueuePair", "from nicemu import rdma", "import nicemu.rdma"]
)
def test_the_rule_of_toolkits_sees_a_planted_violation(source: str) -> None:
    assert outside_the_toolkit(source, "firmware") == ["nicemu.rdma"]


@pytest.mark.parametrize("folder", ["p4", "firmware", "host", "examples"])
def test_program_folders_are_no_packages(folder: str) -> None:
    """One would put `host` or `firmware` into site-packages, and `p4` before the package p4 of P4Runtime."""
    assert list((ROOT / folder).rglob("__init__.py")) == []


@pytest.mark.parametrize("room", [*ROOMS, *(name.replace(".", "/") for name in INNER)])
def test_a_door_says_what_the_room_is_for_and_names_what_it_shows(room: str) -> None:
    tree = ast.parse((PACKAGE / room / "__init__.py").read_text())
    assert ast.get_docstring(tree)
    assigned = [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    assert "__all__" in assigned


@pytest.mark.parametrize(
    "path", _files("nicemu", "firmware", "host", "examples", "benchmarks", "tests"), ids=_name
)
def test_a_file_names_its_licence(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith(LICENCE)


def test_every_room_has_a_floor() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    floors = next(contract for contract in settings["contracts"] if contract.get("containers") == ["nicemu"])
    assert floors["exhaustive"] is True
    named = {room.strip() for layer in floors["layers"] for room in layer.replace(":", "|").split("|")}
    assert set(ROOMS) <= named
