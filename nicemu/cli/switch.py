# SPDX-License-Identifier: Apache-2.0
"""`nicemu switch`: a P4 program as a switch, between capture files or between interfaces."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from nicemu.errors import ProtocolError, UsageError

from .interruption import interruptible, until_interrupted
from .lazy_group import INTERRUPTED
from .programs import (
    CPU_PORT_OPTION,
    EXTERNS_OPTION,
    TABLES_OPTION,
    compiled_program,
    cpu_port_of,
    own_externs,
    own_output_apart,
    put_given,
    require_port,
    source_options,
    tell_missing,
)
from .progress import Progress, is_terminal
from .seconds import Seconds
from .show import JSON_OPTION
from .switch_summary import SummaryTeller

if TYPE_CHECKING:
    from nicemu.control import Texts
    from nicemu.fabric import Port
    from nicemu.pipeline import Engine, Program
    from nicemu.switch import Hear, Summary

_NS_PER_S = 1_000_000_000
LARGE_BYTES = 1 << 20
"""Captures from here on are worth the seconds of a compiler."""
_OF_PORT = re.compile(r"([0-9]+|host)=(.+)", re.DOTALL)
_LAST_PORT = 0xFFFF
_STDOUT = "/dev/stdout"
_STANDARD = {"--in": "/dev/stdin", "--out": _STDOUT}
"""What - stands for."""


@click.command()
@click.argument("program", required=False, type=click.Path(path_type=Path))
@click.option(
    "--in",
    "inputs",
    metavar="[PORT=]FILE",
    multiple=True,
    help="A capture that comes in on a port; - is stdin.",
)
@click.option(
    "--out",
    "outputs",
    metavar="[PORT=]FILE",
    multiple=True,
    help="Where what leaves by PORT, a number or host, is written; without PORT=, all the rest. - is stdout.",
)
@click.option(
    "--port",
    "ports",
    metavar="PORT=NAME",
    multiple=True,
    help="An interface of this machine as a port: NAME, xdp:NAME, tap:NAME. A number alone is the port of "
    "an --in without one.",
)
@click.option("--for", "seconds", type=Seconds(), help="How many seconds, between interfaces.")
@click.option(
    "--p4runtime",
    metavar="ADDRESS",
    help="Serve P4Runtime at unix:/PATH or 127.0.0.1:PORT, between interfaces.",
)
@click.option(
    "--device-id",
    type=click.IntRange(0, (1 << 64) - 1),
    help="The device that P4Runtime's controllers mean.  [default: 1]",
)
@click.option(
    "--allow-remote",
    is_flag=True,
    help="Let P4Runtime's ADDRESS be one that other machines reach: whoever does controls the switch.",
)
@CPU_PORT_OPTION
@click.option(
    "--capture",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder for a capture of what comes in and leaves by each interface, NAME.pcap.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "interpreter", "kernel"]),
    default="auto",
    help="Interpret the program, or run it as machine code; auto compiles for interfaces and large captures.",
)
@TABLES_OPTION
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="Where what tables, counters and registers hold at the end is written, as --tables reads it; or -.",
)
@click.option(
    "--log", is_flag=True, help="Print what the program logs (log_msg) to stderr, packet by packet."
)
@EXTERNS_OPTION
@source_options
@JSON_OPTION
def switch(
    program: Path | None,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    ports: tuple[str, ...],
    seconds: float | None,
    p4runtime: str | None,
    device_id: int | None,
    allow_remote: bool,
    cpu_port: int | None,
    capture: Path | None,
    engine: str,
    tables: Path | None,
    state: Path | None,
    log: bool,
    externs: tuple[Path, ...],
    includes: tuple[Path, ...],
    defines: dict[str, str],
    as_json: bool,
) -> None:
    """Run packets through PROGRAM, from captures to captures, or between interfaces until Ctrl-C.

    \b
    nicemu switch router.p4 --tables routes.json --in in.pcap --out out.pcap
    nicemu switch router.p4 --in 0=a.pcap --in 1=b.pcap --out 2=c.pcap --out host=host.pcap
    nicemu switch router.p4 --port 0=veth0 --port 1=veth1
    nicemu switch --port 0=veth0 --port 1=veth1 --p4runtime 127.0.0.1:9559

    Captures are pcap or pcapng, gzipped or not. Interfaces need root. Without PROGRAM a controller brings
    one, and no packet leaves until it has; with --p4runtime there need not be interfaces. It says what
    became of the packets.
    """
    alone, interfaces = _split(ports, bool(inputs))
    _refuse_contradictions(
        bool(inputs),
        bool(interfaces),
        is_timed=seconds is not None,
        is_served=p4runtime is not None,
        says_how_served=device_id is not None or allow_remote,
        captures=capture is not None,
        has_outputs=bool(outputs),
    )
    sources = _by_port(inputs, "--in", alone) if inputs else _by_port(interfaces, "--port", None)
    files = _by_port(outputs, "--out", "")
    if any(name.endswith("/") for name in files.values()):
        raise click.UsageError("--out: a file was expected, and a folder is named")
    loaded = None if program is None else compiled_program(program, includes, defines).program
    if loaded is None and (p4runtime is None or tables is not None):
        raise click.UsageError("PROGRAM is missing; a controller may bring one, and entries: --p4runtime")
    if loaded is not None:
        for number in sources:
            require_port(loaded, "--in" if inputs else "--port", int(number))
        for number in filter(str.isdecimal, files):
            require_port(loaded, "--out", int(number))
        _call_host(files, cpu_port_of(cpu_port, loaded), loaded)
    if inputs:
        from nicemu.switch import require_readable

        for name in sources.values():
            require_readable(Path(name))
    is_large = not inputs or _are_large(sources.values())
    with own_output_apart():
        running = _engine_of(loaded, engine, is_large, externs, cpu_port_of(cpu_port, loaded))
    tell_missing(running.missing_externs)
    if state == Path("-") and _STDOUT in files.values():
        raise click.UsageError("--out - and --state - are both stdout; give one a file")
    if _STDOUT in files.values() and is_terminal(sys.stdout):
        raise click.UsageError(
            "--out - writes a capture to stdout, which is a terminal; send it to a file or pipe"
        )
    programs = [path for path in (program, *externs) if path is not None]
    for written in files.values():
        _require_other("--out", Path(written), [*programs, *([] if tables is None else [tables])])
    if state is not None:
        files_besides = (*files.values(), *(sources.values() if inputs else ()))
        _require_other("--state", state, [*map(Path, files_besides), *programs])
    from nicemu.control import Texts
    from nicemu.switch import Summary, writing_state

    texts = Texts()
    if tables is not None:
        put_given(running, tables, texts)
    summary = Summary()
    told = SummaryTeller(as_json, is_apart=_STDOUT in files.values() or state == Path("-"))
    marker = _first_run(running)
    if marker is not None:
        told.is_first = True
        if not told.is_apart:  # else JSON may be all that stands on stderr
            click.echo("compiling what moves packets (the first time only, up to a minute)", err=True)
    with ExitStack() as stack:
        writing = nullcontext(_no_state) if state is None else writing_state(state, texts)
        write_state = stack.enter_context(writing)
        begun, say = time.monotonic(), _print_log if log else None
        try:
            with own_output_apart():
                if inputs:
                    told.is_interrupted = _captures(running, sources, files, summary, say)
                else:
                    served = None
                    if p4runtime is not None:
                        device = 1 if device_id is None else device_id
                        served = _Served(p4runtime, device, allow_remote, texts)
                    _live(running, sources, seconds, served, capture, summary, say)
        except (ProtocolError, UsageError, OSError):
            # a damaged capture, or a full disk, maybe behind packets that have passed
            if summary.packets:
                told.tell(summary, time.monotonic() - begun, _is_compiled(running))
                write_state(running)
            raise
        except KeyboardInterrupt:  # amid a packet, which did not end: what the engine holds is not whole
            told.is_interrupted = True
            told.tell(summary, time.monotonic() - begun, _is_compiled(running))
            raise
        told.tell(summary, time.monotonic() - begun, _is_compiled(running))
        write_state(running)
    if marker is not None and summary.packets:
        with suppress(OSError):
            marker.touch()
    if told.is_interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


def _no_state(engine: Engine) -> None:
    """Write nothing."""


def _refuse_contradictions(
    has_inputs: bool,
    has_interfaces: bool,
    *,
    is_timed: bool,
    is_served: bool,
    says_how_served: bool,
    captures: bool,
    has_outputs: bool,
) -> None:
    """Refuse options that go with captures alone or with interfaces alone. Raises: click.UsageError."""
    if has_inputs and has_interfaces:
        raise click.UsageError("either --in FILE or --port PORT=NAME says where packets come from")
    if not has_inputs and not has_interfaces and not is_served:
        raise click.UsageError("--in FILE or --port PORT=NAME says where packets come from; or --p4runtime")
    if has_inputs and (is_timed or is_served):
        raise click.UsageError("--for and --p4runtime are for interfaces; captures end by themselves")
    if has_inputs and captures:
        raise click.UsageError("--capture is for interfaces; --out writes what leaves")
    if says_how_served and not is_served:
        raise click.UsageError("--device-id and --allow-remote say how P4Runtime is served; add --p4runtime")
    if has_outputs and not has_inputs:
        raise click.UsageError("--out is for captures; `nicemu wire capture` looks at interfaces")


def _first_run(engine: Engine) -> Path | None:
    """Return the file that says that what moves packets is compiled, where there is none yet."""
    from nicemu.hot import JIT, own_cache_folder

    marker = own_cache_folder() / "switch-has-run"
    return marker if JIT and _is_compiled(engine) and not marker.exists() else None


def _is_compiled(engine: Engine) -> bool:
    return getattr(engine, "kernel", None) is not None


def _require_other(option: str, path: Path, others: list[Path]) -> None:
    """Refuse to write over what is read or written besides. Raises: UsageError."""
    for other in others:
        is_one = (
            path.samefile(other) if path.exists() and other.exists() else path.resolve() == other.resolve()
        )
        if is_one and (path.is_file() or not path.exists()):
            raise UsageError(f"{option} {path}: {other} is read or written besides; write another file")


def _call_host(files: dict[str, str], cpu_port: int, program: Program) -> None:
    """Have what is given for the port of a v1model program's host be given for the host.

    Raises: UsageError if the host has another file.
    """
    from nicemu.pipeline import HOST_PORT

    if program.architecture != "v1model":
        return
    for number in {str(cpu_port), str(HOST_PORT)} & files.keys():
        if "host" in files:
            raise UsageError(f"--out {number}={files[number]}: that is the host, which has {files['host']}")
        files["host"] = files.pop(number)


def _split(ports: tuple[str, ...], has_inputs: bool) -> tuple[str, tuple[str, ...]]:
    """Return the port of an --in that has none, and the interfaces."""
    numbers = [text for text in ports if text.isdecimal() and text.isascii()] if has_inputs else []
    if len(numbers) > 1:
        raise click.UsageError(f"--port {numbers[1]}: the --in without a port has {numbers[0]} already")
    if numbers and int(numbers[0]) > _LAST_PORT:
        raise click.UsageError(f"--port {numbers[0]}: a port is at most {_LAST_PORT}")
    return (numbers or ["0"])[0], tuple(text for text in ports if text not in numbers)


def _are_large(paths: Iterable[str]) -> bool:
    """Return whether it is worth it to compile for captures; how long a pipe is nobody knows."""
    found = [Path(path) for path in paths if Path(path).exists()]
    return (
        any(not path.is_file() for path in found) or sum(path.stat().st_size for path in found) >= LARGE_BYTES
    )


def _engine_of(
    program: Program | None, kind: str, is_large: bool, externs: tuple[Path, ...], cpu_port: int
) -> Engine:
    """Return an engine that runs a program, if there is one; says where it cannot be compiled."""
    from nicemu.pipeline import Engine

    own = own_externs(externs)
    if kind == "interpreter" or (kind == "auto" and not is_large):
        engine = Engine(externs=own, cpu_port=cpu_port)
        if program is not None:
            engine.load(program)
        return engine
    from nicemu.kernels import CompiledEngine

    compiled = CompiledEngine(externs=own, cpu_port=cpu_port)
    if program is None:
        return compiled
    if is_terminal(sys.stderr):
        click.echo(f"compiling {program.name}", err=True)
    compiled.load(program)
    if compiled.interpreted_because:
        if kind == "kernel":
            raise UsageError(
                f"{program.name} cannot be compiled to a kernel: {compiled.interpreted_because}; "
                "--engine interpreter runs it"
            )
        click.echo(f"{program.name} is interpreted: {compiled.interpreted_because}", err=True)
    return compiled


def _by_port(texts: tuple[str, ...], option: str, alone: str | None) -> dict[str, str]:
    """Return what is given for each port; what has no port is for `alone`."""
    found: dict[str, str] = {}
    for text in texts:
        match = _OF_PORT.fullmatch(text)
        if (match is None and alone is None) or (match and match[1] == "host" and option != "--out"):
            raise click.UsageError(f"{option} {text}: PORT=NAME was expected, with the number of a port")
        before, equals, _ = text.partition("=")
        if match is None and equals and before.isidentifier():
            wanted = "a number or host" if option == "--out" else "a number"
            raise click.UsageError(
                f"{option} {text}: {before} is no port, {wanted} is; a file called so is ./{text}"
            )
        port, name = (match[1], match[2]) if match else (alone or "", text)
        if match and port != "host":
            port = port.lstrip("0") or "0"
            if len(port) > len(str(_LAST_PORT)) or int(port) > _LAST_PORT:
                raise click.UsageError(f"{option} {text}: ports have numbers of 0 to {_LAST_PORT}")
        if match is None and equals and before.isdecimal():
            raise click.UsageError(f"{option} {text}: nothing stands behind =; write PORT=NAME")
        if port in found:
            raise click.UsageError(
                f"{option} {text}: {f'port {port}' if port else 'the rest'} has {found[port]}"
            )
        if option == "--port" and name in found.values():
            raise click.UsageError(f"{option} {text}: another port is on {name}")
        found[port] = _STANDARD.get(option, name) if name == "-" else name
    return found


def _print_log(time_ns: int, port: int, text: str) -> None:
    click.echo(f"{time_ns // _NS_PER_S}.{time_ns % _NS_PER_S:09} port {port}: {text}", err=True)


def _captures(
    engine: Engine,
    sources: dict[str, str],
    outputs: dict[str, str],
    summary: Summary,
    hear: Hear | None,
) -> bool:
    """Run captures through; return whether somebody has interrupted it."""
    from nicemu.switch import switch_captures

    progress = Progress("packets")
    files: dict[int | str | None, Path] = {
        int(port) if port.isdigit() else port or None: Path(name) for port, name in outputs.items()
    }
    inputs = {int(port): Path(name) for port, name in sources.items()}
    with interruptible() as reading:
        until = reading.until_interrupted
        try:
            switch_captures(
                engine, inputs, files, until, lambda now: progress.tell(now.packets), summary, hear
            )
        finally:
            progress.end()
    return reading.is_over


class _Served(NamedTuple):
    """Where P4Runtime is served, whether other machines may reach it, and what texts stand for already."""

    address: str
    device_id: int
    allow_remote: bool
    texts: Texts


def _live(
    engine: Engine,
    sources: dict[str, str],
    seconds: float | None,
    served: _Served | None,
    capture: Path | None,
    summary: Summary,
    hear: Hear | None,
) -> None:
    """Forward between interfaces; `served` is where P4Runtime is served, if it is, `capture` a folder for
    captures of the interfaces.
    """
    from nicemu.control import P4RuntimeServer
    from nicemu.run import program_of
    from nicemu.switch import LiveSwitch

    progress = Progress("packets")
    with ExitStack() as stack:
        interrupted = stack.enter_context(until_interrupted())
        ports = {}
        for number, name in sources.items():
            ports[int(number)] = _open(name, capture)
            stack.callback(ports[int(number)].close)
        switch = stack.enter_context(LiveSwitch(engine, ports, hear, summary=summary))
        if served is not None:
            server = P4RuntimeServer(
                {served.device_id: switch},
                served.address,
                allow_remote=served.allow_remote,
                reader=program_of,
                texts={served.device_id: served.texts},
            )
            stack.callback(server.stop)
            click.echo(f"P4Runtime at {server.start()}, device {served.device_id}", err=True)
        named = ", ".join(f"{number} {port.address}" for number, port in ports.items())
        click.echo(f"ports {named or 'none: packets come from controllers, and go to them'}", err=True)
        stack.callback(progress.end)
        switch.forward(interrupted, seconds, lambda now: progress.tell(now.packets))


def _open(name: str, capture: Path | None) -> Port:
    """Return the port on an interface, captured where there is a folder for it. Raises: UsageError."""
    from nicemu.clock import WallClock
    from nicemu.fabric import PcapPort
    from nicemu.switch import open_port

    port = open_port(name)
    if capture is None:
        return port
    path, clock = capture / f"{name.rpartition(':')[2]}.pcap", WallClock()
    try:
        capture.mkdir(parents=True, exist_ok=True)
        return PcapPort(port, path, clock, time.time_ns() - clock.now_ns())
    except OSError as error:
        port.close()
        raise UsageError(f"--capture: {path} cannot be written: {error.strerror}") from None
