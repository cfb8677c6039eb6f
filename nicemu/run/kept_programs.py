# SPDX-License-Identifier: Apache-2.0
"""Programs as a NIC takes them, kept from one command to the next, so that the compiler need not be loaded.

A kept program is believed if it is whole, was made by the compiler as it is now, and each file that the
compiler looked for holds the same text, or is still not there. Anything else is compiled anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicemu.kept_files import cache_base, keep, kept
from nicemu.programs import programs_root, read_source

if TYPE_CHECKING:
    from nicemu.pipeline import Program

_PACKAGE = Path(__file__).resolve().parent.parent
_MAKERS = ("p4", "bmv2", "pipeline", "control")
"""The rooms that make of a program what is kept."""
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class LoadableProgram:
    """A program's serialized ForwardingPipelineConfig, and what there is to say about it; `own_externs` are
    the names of the externs that it declares itself.
    """

    name: str
    tables: int
    actions: int
    messages: tuple[str, ...]
    own_externs: tuple[str, ...]
    config: bytes


def loadable_program(
    path: Path,
    include_paths: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
    on_compile: Callable[[], None] = lambda: None,
) -> LoadableProgram:
    """Return the program in a file, as `read_program`; `on_compile` is called if it must be compiled.

    Raises: as `read_program`.
    """
    path, includes = path.resolve(), [place.resolve() for place in include_paths]
    place = _place_of(path, includes, defines or {})
    found = _kept(place)
    if found is not None:
        return found
    on_compile()
    from nicemu.control import config_message
    from nicemu.p4 import Compiled

    from .program_file import read_program

    read = read_program(path, includes, defines)
    info = read.p4info
    made = LoadableProgram(
        read.program.name,
        len(info.tables),
        len(info.actions),
        tuple(diagnostic.render() for diagnostic in read.diagnostics),
        tuple(sorted({item.owner or item.declared for item in read.program.extern_signatures})),
        config_message(read.program.to_json(), info),
    )
    if isinstance(read, Compiled):
        _keep(place, made, {str(source): _of_text(text) for source, text in read.sources.items()})
    return made


def program_in(
    path: Path, include_paths: Sequence[Path] = (), defines: Mapping[str, str] | None = None
) -> Program:
    """Return the program in a file, without a compiler if it is kept. Raises: as `loadable_program`."""
    from nicemu.control import program_json_of
    from nicemu.pipeline import program_of_json

    return program_of_json(program_json_of(loadable_program(path, include_paths, defines).config))


def _place_of(path: Path, includes: Sequence[Path], defines: Mapping[str, str]) -> Path:
    """Return the file that keeps what is made of `path`."""
    asked = json.dumps([str(path), [str(place) for place in includes], dict(defines), str(programs_root())])
    return cache_base() / "programs" / blake2b(asked.encode(), digest_size=16).hexdigest()


def _kept(place: Path) -> LoadableProgram | None:
    """Return the program that a file keeps, None unless all of it still holds."""
    data = kept(place)
    if data is None:
        return None
    try:
        head, _, config = data.partition(b"\n")
        told: dict[str, Any] = json.loads(head)
        if told.pop("compiler") != _compiler():
            return None
        if any(_of_file(Path(source)) != was for source, was in told.pop("sources").items()):
            return None
        lists = {name: tuple(told[name]) for name in ("messages", "own_externs")}
        return LoadableProgram(**told | lists, config=config)
    except (ValueError, KeyError, TypeError, AttributeError):  # kept by another version
        return None


def _keep(place: Path, made: LoadableProgram, sources: dict[str, str]) -> None:
    told = asdict(made)
    config = told.pop("config")
    head = json.dumps({"compiler": _compiler(), "sources": sources, **told}).encode()
    keep(place, head + b"\n" + config)


def _compiler() -> str:
    """Return a digest of the compiler's own files."""
    files = sorted(
        file
        for room in _MAKERS
        for file in (_PACKAGE / room).rglob("*")
        if file.suffix in (".py", ".binpb") and file.is_file()
    )
    digest = blake2b(digest_size=16)
    for file in files:
        text = file.read_bytes()
        digest.update(f"{file.relative_to(_PACKAGE)} {len(text)} ".encode() + text)
    return digest.hexdigest()


def _of_file(path: Path) -> str:
    try:
        return _of_text(read_source(path) if path.is_file() else None)
    except (OSError, ValueError):
        return "cannot be read"


def _of_text(text: str | None) -> str:
    return "" if text is None else blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
