# SPDX-License-Identifier: Apache-2.0
"""`nicemu packet`: what a P4 program does with one packet, step by step."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nicemu.errors import UsageError

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
from .show import JSON_OPTION, print_json

if TYPE_CHECKING:
    from nicemu.pipeline import Departed, DigestPosted, Effect, Program, Verdict

_NOT_HEX = re.compile(r"0x|[\s:,.-]+")


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@click.option(
    "--hex", "text", metavar="BYTES", help="The packet; spaces, colons and 0x may stand in between."
)
@click.option(
    "--pcap", metavar="FILE", type=click.Path(path_type=Path), help="A capture file with the packet."
)
@click.option(
    "--index",
    type=click.IntRange(min=1),
    help="Which packet of the file; from 1, as in Wireshark.  [default: 1]",
)
@click.option("--port", type=click.IntRange(0, 0xFFFF), default=0, help="The port on which it comes in.")
@CPU_PORT_OPTION
@TABLES_OPTION
@EXTERNS_OPTION
@source_options
@JSON_OPTION
def packet(
    program: Path,
    text: str | None,
    pcap: Path | None,
    index: int | None,
    port: int,
    cpu_port: int | None,
    tables: Path | None,
    externs: tuple[Path, ...],
    includes: tuple[Path, ...],
    defines: dict[str, str],
    as_json: bool,
) -> None:
    """Run PROGRAM, a file of yours or a shipped one (p4/kvmatch.p4), on one packet, and tell every step.

    \b
    nicemu packet p4/kvmatch.p4 --pcap requests.pcap --index 3 --tables sessions.json
    nicemu packet switch.p4 --hex '0200 0000 0002 0200 0000 0001 0800' --port 3

    It needs no NIC. The tables hold the program's own entries and those of --tables.
    """
    frame, now_ns = _frame(text, pcap, index)
    compiled = compiled_program(program, includes, defines)
    require_port(compiled.program, "--port", port)
    from nicemu.pipeline import Engine, trace_lines, value_text

    with own_output_apart():
        engine = Engine(externs=own_externs(externs), cpu_port=cpu_port_of(cpu_port, compiled.program))
        engine.load(compiled.program)
        tell_missing(engine.missing_externs)
        if tables is not None:
            put_given(engine, tables)
        verdict = engine.process(frame, port, trace=True, now_ns=now_ns)
    if as_json:
        print_json(_described(compiled.program, frame, port, verdict))
        return
    click.echo(f"{compiled.program.name}: {len(frame)} bytes on port {port}")
    click.echo("\n".join(trace_lines(verdict.trace, lambda event: _difference(frame, event))))
    for effect in verdict.effects:
        told = ", ".join(
            f"{name}={value_text(value)}" for name, value in _effect(effect, compiled.program).items()
        )
        click.echo(f"then {type(effect).__name__}({told})")


def _frame(text: str | None, pcap: Path | None, index: int | None) -> tuple[bytes, int]:
    """Return the packet and its time."""
    if (text is None) == (pcap is None):
        raise click.UsageError("one of --hex BYTES and --pcap FILE says which packet")
    if text is not None and index is not None:
        raise click.UsageError("--index says which packet of --pcap FILE; --hex is one packet")
    if text is not None:
        try:
            return bytes.fromhex(_NOT_HEX.sub("", text)), 0
        except ValueError:
            raise UsageError(f"--hex {text}: two hexadecimal digits a byte were expected") from None
    from nicemu.capture import read_capture

    assert pcap is not None
    index = index or 1
    found = next(islice(read_capture(pcap), index - 1, None), None)
    if found is None:
        count = sum(1 for _ in read_capture(pcap))
        raise UsageError(f"{pcap} has {count} packets; --index {index} is none of them")
    if len(found.data) < found.original_bytes:
        click.echo(
            f"the capture has {len(found.data)} of the packet's {found.original_bytes} bytes", err=True
        )
    return found.data, found.time_ns


def _difference(frame: bytes, departed: Departed) -> list[str]:
    from nicemu.switch import byte_changes, change_lines

    return change_lines(byte_changes(frame, departed.frame)) or ["as it came"]


def _effect(effect: Effect, program: Program) -> dict[str, Any]:
    """Return what an effect says, of a digest its data as they are."""
    from nicemu.pipeline import DigestPosted

    if isinstance(effect, DigestPosted):
        return {"name": effect.name, "receiver": effect.receiver, "data": _data(effect, program)}
    return {item.name: getattr(effect, item.name) for item in dataclasses.fields(effect)}


def _data(digest: DigestPosted, program: Program) -> object:
    """Return the data of a digest as JSON has them."""
    from nicemu.pipeline import Layouts, Varbits, p4info_of, plain, shaped

    kind = next(item.type for item in p4info_of(program).digests if item.name == digest.name)
    bits = Varbits(digest.length_bits, digest.number)
    return plain(shaped(Layouts(program), kind, bits, digest.shape))


def _effects_json(effects: Sequence[Effect], program: Program) -> list[dict[str, Any]]:
    from nicemu.pipeline import DigestPosted, trace_json

    told = trace_json(effects)
    for item, effect in zip(told, effects, strict=True):
        if isinstance(effect, DigestPosted):
            item["data"] = _data(effect, program)
    return told


def _described(program: Program, frame: bytes, port: int, verdict: Verdict) -> dict[str, Any]:
    from nicemu.pipeline import Departed, trace_json
    from nicemu.switch import byte_changes

    departed = [event for event in verdict.trace if isinstance(event, Departed)]
    return {
        "program": program.name,
        "port": port,
        "frame": frame.hex(),
        "disposition": verdict.disposition.value,
        "drop_reason": verdict.drop_reason or None,
        "departures": [
            {
                "where": event.where,
                "port": event.port,
                "frame": event.frame.hex(),
                "changes": [
                    {
                        "at_before": change.at_before,
                        "before": change.before.hex(),
                        "at_after": change.at_after,
                        "after": change.after.hex(),
                    }
                    for change in byte_changes(frame, event.frame)
                ],
            }
            for event in departed
        ],
        "effects": _effects_json(verdict.effects, program),
        "trace": trace_json(verdict.trace),
    }
