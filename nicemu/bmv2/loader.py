# SPDX-License-Identifier: Apache-2.0
"""The way from a BMv2 JSON file to a program for the engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nicemu.errors import ControlError, UsageError
from nicemu.pipeline import P4Info, Program, ir, p4info_of, verify

from .checksums import checksums_of
from .document import MAX_FILE_BYTES, Json, document_of
from .graph import Statements
from .parsers import Parsers
from .pipelines import Pipelines
from .places import V1MODEL
from .primitives import Primitives
from .scope import Scope

_IN_DEPARSER = ("assert", "assume", "log_msg")
"""What p4c lets a deparser do besides emitting."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A program for the engine, and what the control plane may know of it."""

    program: Program
    p4info: P4Info
    diagnostics: tuple[()] = ()


def load_bmv2(path: Path) -> Loaded:
    """Return the program in the JSON file `path` that p4c-bm2-ss wrote.

    Raises: Bmv2Error with the path to the first fault; UsageError if the file cannot be read.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(
                f"{path} is larger than {MAX_FILE_BYTES} bytes; a BMv2 JSON program was expected"
            )
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error}; give the path of a BMv2 JSON program") from None
    return load_bmv2_text(text, path.name)


def load_bmv2_text(text: str | bytes, name: str = "program.json") -> Loaded:
    """Return the program in a BMv2 JSON text, called `name` in messages. Raises: Bmv2Error."""
    document = document_of(text, name)
    program = _translated(document, Path(name).stem)
    try:
        verify(program)
    except ControlError as error:
        raise document.unsupported(f"what this program asks of the engine: {error}") from None
    return Loaded(program, p4info_of(program))


def _translated(document: Json, name: str) -> Program:
    scope = Scope(document)
    parsers = Parsers(document, scope)
    parser = parsers.parser()
    pipelines = Pipelines(document, scope)
    ingress, egress = pipelines.controls()
    verified, updated = checksums_of(document, scope)
    bodies = {
        "verify": verified,
        "ingress": ingress,
        "egress": egress,
        "compute": (*updated, *_before_deparser(document, scope)),
        "deparser": _deparser(document, scope),
    }
    actions, tables = pipelines.actions, pipelines.tables
    return Program(
        name=name,
        architecture=V1MODEL.name,
        headers=scope.places.headers,
        structs=scope.structs,
        unions=scope.places.unions,
        errors=scope.errors.names,
        variables=scope.variables,
        externs=tuple(scope.externs),
        parser=parser,
        controls=tuple(ir.Control(role.name, role.name, bodies[role.name]) for role in V1MODEL.roles),
        actions=actions,
        tables=tables,
        field_lists=scope.field_lists,
        value_sets=parsers.value_sets,
    )


def _before_deparser(document: Json, scope: Scope) -> Statements:
    """Return the primitives of the deparser: they run behind the checksums, before anything is emitted."""
    primitives = Primitives(scope, scope.plain)
    listed = document["deparsers"].items(1)[0].list("primitives")
    for item in listed:
        if item["op"].value not in _IN_DEPARSER:
            raise item["op"].unsupported(f"primitive {item['op'].shown} in a deparser")
    return tuple(part for item in listed for part in primitives.statements(item))


def _deparser(document: Json, scope: Scope) -> Statements:
    emitted = []
    for item in document["deparsers"].items(1)[0]["order"].items():
        header = scope.places.header(item)
        if not scope.places.is_header(header.type):
            raise item.fault(f"is {item.text()}, which is metadata; a header was expected")
        emitted.append(ir.Emit(header))
    return tuple(emitted)


def is_bmv2(path: Path) -> bool:
    """Return whether a file is to be read as BMv2 JSON: its name ends in .json, or it begins with a brace."""
    path = Path(path)
    if path.suffix == ".json":
        return True
    try:
        with path.open("rb") as file:
            return file.read(256).lstrip().startswith(b"{")
    except OSError:
        return False
