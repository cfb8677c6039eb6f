# SPDX-License-Identifier: Apache-2.0
"""`nicemu load`, `compile` and `flash`: what a NIC runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nicemu.errors import ProtocolError, UsageError

from .controlled import PIPELINE_OPTION, pipeline_of
from .progress import Progress, is_terminal
from .show import JSON_OPTION, NIC_OPTION, print_json

if TYPE_CHECKING:
    from nicemu.bmv2 import Bmv2Error, Loaded
    from nicemu.control import Texts
    from nicemu.p4 import Compiled, Diagnostic
    from nicemu.pipeline import Engine, Program
    from nicemu.run import LoadableProgram

_Command = TypeVar("_Command", bound=Callable[..., Any])
MAX_WARNINGS = 100
"""How many warnings of one program are shown."""


def _as_macros(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return macros with what they stand for; one without is 1, as for a C compiler."""
    split = [item.partition("=") for item in given]
    return {name: text if equals else "1" for name, equals, text in split}


def source_options(command: _Command) -> _Command:
    """Give a command the options of what a program is compiled with, `includes` and `defines`."""
    include = click.option(
        "-I",
        "--include",
        "includes",
        metavar="DIR",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Look for included files in DIR too.",
    )
    define = click.option(
        "-D",
        "--define",
        "defines",
        metavar="NAME[=TEXT]",
        multiple=True,
        callback=_as_macros,
        help="Define a macro, as 1 without a text.",
    )
    return include(define(command))


CPU_PORT_OPTION = click.option(
    "--cpu-port",
    type=click.IntRange(0, 510),
    help="What a v1model program calls the port of host or controller, beside 510.",
)

TABLES_OPTION = click.option(
    "--tables",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A JSON file of table entries and what else a controller sets (docs/p4.md).",
)

EXTERNS_OPTION = click.option(
    "--externs",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Python functions and classes that do what externs of PROGRAM's own do (docs/externs.md).",
)


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@PIPELINE_OPTION
@click.option(
    "--keep", is_flag=True, help="Keep what the running program holds, where the new one has it too."
)
@TABLES_OPTION
@source_options
def load(
    program: Path,
    nic: str | None,
    keep: bool,
    tables: Path | None,
    includes: tuple[Path, ...],
    defines: dict[str, str],
) -> None:
    """Compile PROGRAM, a file of yours or a shipped one (p4/kvmatch.p4), and have a NIC run it.

    PROGRAM is P4-16, or the JSON that p4c-bm2-ss made of it. It starts with its own entries and with zeros;
    with --keep it goes on with entries, counters, meters, registers and the rest that are as they were.
    If it does not compile, or the NIC refuses it, the NIC goes on with the program it has. When it runs,
    --tables does what nicemu table apply does.
    """
    from nicemu.programs import find_program
    from nicemu.run import loadable_program

    path = find_program(program)
    if tables is not None and not tables.is_file():
        raise UsageError(f"{tables} cannot be read: there is no such file")
    with _compile_errors():
        ready = loadable_program(path, includes, defines, lambda: _progress(f"compiling {path.name}"))
    for message in ready.messages:
        click.echo(message, err=True)
    name, address = pipeline_of(nic)
    if tables is not None and not keep:
        _try_tables(ready, tables)
    from nicemu.control import load_pipeline

    _progress(f"bringing it to {name}")
    load_pipeline(address, ready.config, keep=keep)
    click.echo(f"{name} runs {ready.name}: {_contents(ready.tables, ready.actions)}")
    if tables is not None:
        from .table import applied_text

        click.echo(applied_text(address, tables))
    if ready.own_externs:
        tell_missing(ready.own_externs if name == address else _missing_on(name), _WHERE)


@click.command("compile")
@click.argument("program", type=click.Path(path_type=Path))
@click.option(
    "--emit",
    type=click.Choice(["ir", "kernel", "p4info", "dot"]),
    help="Print the program's IR as JSON, its P4Info as protobuf's text (.txtpb), its kernel as LLVM IR, or "
    "parser and controls as a graph for Graphviz.",
)
@JSON_OPTION
@source_options
def compile_(
    program: Path, emit: str | None, as_json: bool, includes: tuple[Path, ...], defines: dict[str, str]
) -> None:
    """Compile PROGRAM, P4-16 or BMv2 JSON, and say what it has; no NIC is needed.

    A controller takes what --emit p4info prints, and what --emit ir prints as its device config. A file of
    that IR is a program, too.
    """
    if as_json and emit in ("kernel", "dot"):
        raise click.UsageError(f"{emit} is no JSON; --json goes with p4info")
    compiled = compiled_program(program, includes, defines, as_json=as_json)
    if emit == "ir":
        click.echo(compiled.program.to_json(indent=2))
    elif emit == "kernel":
        click.echo(_kernel(compiled), nl=False)
    elif emit == "p4info":
        from nicemu.control import p4info_json, p4info_text

        click.echo(p4info_json(compiled.p4info) if as_json else p4info_text(compiled.p4info), nl=as_json)
    elif emit == "dot":
        from nicemu.pipeline import dot_of

        click.echo(dot_of(compiled.program), nl=False)
    else:
        name, tables, actions = (
            compiled.program.name,
            len(compiled.p4info.tables),
            len(compiled.p4info.actions),
        )
        if as_json:
            told = _diagnostics_json(compiled.diagnostics, _places(program, includes))
            print_json({"program": name, "tables": tables, "actions": actions, "diagnostics": told})
        else:
            click.echo(f"{name}: {_contents(tables, actions)}")


@click.command()
@click.argument("script", type=click.Path(path_type=Path))
@NIC_OPTION
def flash(script: Path, nic: str | None) -> None:
    """Put the firmware SCRIPT, a file of yours or a shipped one (firmware/kv_storage.py), on a NIC.

    If it cannot be loaded, the NIC goes on with the firmware it has. If its @on_start fails, the rest of it
    serves.
    """
    from nicemu.programs import find_program

    path = find_program(script)
    from nicemu.run import ask, find_nic

    running = find_nic(nic)
    handlers = ask(running, "flash", path=str(path))["handlers"]
    click.echo(f"{running.name} runs {path.name}: {', '.join(handlers) or 'no handlers'}")
    tell_missing(_missing_on(running.name), _WHERE)


def own_externs(paths: Sequence[Path]) -> list[Callable[..., Any]]:
    """Return what the files of --externs have; firmware may be among them. Raises: UsageError."""
    if not paths:
        return []
    from nicemu.firmware import read_externs

    return read_externs(paths)


def own_output_apart() -> AbstractContextManager[object]:
    """Have what externs of a program's own print go to stderr: on stdout stands what the command says."""
    return redirect_stdout(sys.stderr)


_WHERE = "@extern in the NIC's firmware"


def _missing_on(nic: str) -> Sequence[str]:
    """Return the externs of its program's own that a NIC that runs has nothing for."""
    from nicemu.run import ask, find_nic

    missing: Sequence[str] = ask(find_nic(nic), "describe")["missing_externs"]
    return missing


def tell_missing(missing: Sequence[str], where: str = "--externs FILE") -> None:
    """Say which externs of a program's own nothing does, and where it is to be said what does."""
    for name in missing:
        click.echo(missing_text(name, where), err=True)


def missing_text(name: str, where: str = "--externs FILE") -> str:
    """Return what is to be said of an extern that nothing does."""
    return f"nothing does what extern {name} does: packets that call it are dropped ({where})"


def compiled_program(
    program: Path, includes: tuple[Path, ...], defines: Mapping[str, str], *, as_json: bool = False
) -> Compiled | Loaded:
    """Compile, with every diagnostic on stderr; ends the command with status 1 if one is an error.

    `as_json`: then they are printed as JSON, too.
    """
    from nicemu.errors import counted
    from nicemu.programs import find_program
    from nicemu.run import read_program

    with _compile_errors(_places(program, includes) if as_json else None):
        compiled = read_program(find_program(program), includes, defines)
    for diagnostic in compiled.diagnostics[:MAX_WARNINGS]:
        click.echo(diagnostic.render(), err=True)
    if len(compiled.diagnostics) > MAX_WARNINGS:
        more = counted(len(compiled.diagnostics) - MAX_WARNINGS, "more warning")
        click.echo(f"and {more}", err=True)
    return compiled


def cpu_port_of(given: int | None, program: Program | None) -> int:
    """Return the port of host or controller that --cpu-port says.

    Raises: UsageError for a program that has no ports of its own to call so.
    """
    from nicemu.pipeline import HOST_PORT

    if given is not None and program is not None and program.architecture != "v1model":
        raise UsageError(f"--cpu-port is for v1model; {program.name} is for nicemu.p4")
    return HOST_PORT if given is None else given


def require_port(program: Program, option: str, port: int) -> None:
    """Raises: UsageError if packets of a program cannot come in on a port with this number."""
    from nicemu.pipeline import ARCHITECTURES, last_port

    last = last_port(program)
    if port > last:
        metadata = ARCHITECTURES[program.architecture].metadata
        raise UsageError(f"{option}: {metadata.name} has ports 0 to {last}; {port} is none of them")


def _try_tables(ready: LoadableProgram, tables: Path) -> None:
    """Put what a file of --tables holds into a program here, so that a fault in it leaves a NIC as it is.

    Raises: UsageError.
    """
    from nicemu.control import program_json_of
    from nicemu.pipeline import Engine
    from nicemu.run import program_of

    engine = Engine()
    engine.load(program_of(program_json_of(ready.config)))
    put_given(engine, tables)


def put_given(engine: Engine, tables: Path, texts: Texts | None = None) -> None:
    """Put what a file of --tables holds into an engine's program; `texts` learns those that it names.

    Raises: UsageError.
    """
    from nicemu.switch import put_tables

    progress = Progress("entries")
    try:
        put_tables(engine, tables, progress.tell, texts)
    finally:
        progress.end()


def _kernel(compiled: Compiled | Loaded) -> str:
    """Return a program's kernel as text. Raises: UsageError where it is interpreted."""
    from nicemu.kernels import NotCompiled, kernel_text

    try:
        return kernel_text(compiled.program)
    except NotCompiled as reason:
        raise UsageError(f"{compiled.program.name} has no kernel, it is interpreted: {reason}") from None


@contextmanager
def _compile_errors(places: Sequence[Path] | None = None) -> Iterator[None]:
    """End the command with status 1 where a program does not compile, with every diagnostic on stderr, and as
    JSON where the `places` of files are given.
    """
    try:
        yield
    except ProtocolError as error:
        from nicemu.bmv2 import Bmv2Error
        from nicemu.p4 import CompileError

        if isinstance(error, Bmv2Error) and places is not None:
            print_json({"diagnostics": [_document_json(error, places)]})
        if not isinstance(error, CompileError):
            raise
        click.echo(str(error), err=True)
        if places is not None:
            print_json({"diagnostics": _diagnostics_json(error.diagnostics, places)})
        raise click.exceptions.Exit(1) from error


def _document_json(error: Bmv2Error, places: Sequence[Path]) -> dict[str, object]:
    """Return the fault of a JSON document as those of P4 are told: it has a path, and no line."""
    path = next((str(folder / error.name) for folder in places if os.path.isfile(folder / error.name)), None)
    where = {"line": 1, "column": 1, "length": 0}
    return {
        "severity": "error",
        "file": error.name,
        "path": path,
        **where,
        "message": str(error),
        "hint": None,
    }


def _places(program: Path, includes: Sequence[Path]) -> list[Path]:
    """Return the folders of a program's files: its own, those of -I, that of what is shipped."""
    from nicemu.programs import find_program, programs_root

    return [find_program(program).parent, *includes, programs_root() / "p4" / "include"]


def _diagnostics_json(diagnostics: Sequence[Diagnostic], places: Sequence[Path]) -> list[dict[str, object]]:
    paths = {
        name: next((str(folder / name) for folder in places if os.path.isfile(folder / name)), None)
        for name in {item.file for item in diagnostics}
    }
    return [
        {
            "severity": item.severity.value,
            "file": item.file,
            "path": paths[item.file],
            "line": item.line,
            "column": item.column,
            "length": item.location.length,
            "message": item.message,
            "hint": item.hint or None,
        }
        for item in diagnostics
    ]


def _progress(what: str) -> None:
    """Say what is being done to whoever looks on."""
    if is_terminal(sys.stderr):
        click.echo(what, err=True)


def _contents(tables: int, actions: int) -> str:
    counts = {"table": tables, "action": actions}
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items())
