# SPDX-License-Identifier: Apache-2.0
"""`nicemu study replay` and `nicemu study trace`: the commands that take traces of requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .show import JSON_OPTION, print_json, print_table
from .studies import PLOT_OPTION, SEED_OPTION, SET_OPTION, progress_of, run_and_tell, settings_of

if TYPE_CHECKING:
    from nicemu.study import Request, Study, TraceFile, TraceStatistics

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_HELD = ("distinct blocks", "a half", "a quarter", "a tenth", "a fiftieth")
_PARTS = (1, 2, 4, 10, 50)
_TOLD_EVERY = 1000


def replay_command(study: Study) -> click.Command:
    """Return the command of the replay: its first argument is the trace, a file of settings is an option."""

    @click.command(study.name, help=study.about)
    @click.argument("trace", required=False, type=_FILE)
    @click.option("--config", metavar="FILE", type=_FILE, help="A TOML file of settings.")
    @SET_OPTION
    @PLOT_OPTION
    @SEED_OPTION
    @JSON_OPTION
    def command(
        trace: Path | None,
        config: Path | None,
        given: tuple[str, ...],
        plot_folder: Path | None,
        seed: int,
        as_json: bool,
    ) -> None:
        from nicemu.study import settings_with

        settings = settings_of(study.standard, config, given)
        if trace is not None:
            settings = settings_with(settings, {"trace": str(trace)})
        run_and_tell(study, settings, plot_folder, seed, as_json)

    return command


@click.command()
@click.argument("file", required=False, type=_FILE)
@click.option("--requests", "count", type=click.IntRange(1), help="Make a trace of so many requests instead.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where it goes; standard output otherwise.",
)
@click.option(
    "--format", "form", default="auto", help="Of FILE: mooncake, azure or burstgpt; else it is seen."
)
@SEED_OPTION
@JSON_OPTION
def trace(
    file: Path | None, count: int | None, out: Path | None, form: str, seed: int, as_json: bool
) -> None:
    """Tell the statistics of a trace FILE, or make a synthetic one.

    \b
    nicemu study trace conversation_trace.jsonl
    nicemu study trace --requests 12000 --seed 1 --out trace.jsonl

    A synthetic trace has the statistics of Mooncake's conversation trace: JSON lines with timestamp in ms,
    input_length, output_length, hash_ids of blocks of 512 tokens, session and turn.
    """
    if (file is None) == (count is None):
        raise click.UsageError("either a FILE or --requests was expected")
    if file is None:
        assert count is not None
        if as_json:
            raise click.UsageError("--json is for the statistics of a FILE; what is made are JSON lines")
        _make(count, seed, out)
    elif out is not None:
        raise click.UsageError("--out is for --requests; a FILE is only read")
    else:
        _tell(file, form, as_json)


def _make(count: int, seed: int, out: Path | None) -> None:
    from nicemu.errors import UsageError
    from nicemu.study import synthetic_trace, write_trace

    with progress_of("trace") as progress:

        def shown() -> Iterator[Request]:
            for number, request in enumerate(synthetic_trace(count, seed), 1):
                if number % _TOLD_EVERY == 0:
                    progress(number / count, f"{number:,} requests")
                yield request

        if out is None:
            write_trace(shown(), sys.stdout)
            return
        try:
            with out.open("w", encoding="utf-8") as file:
                write_trace(shown(), file)
        except OSError as error:
            raise UsageError(f"{out} cannot be written: {error.strerror}") from error


def _tell(path: Path, form: str, as_json: bool) -> None:
    from nicemu.errors import UsageError
    from nicemu.study import TRACE_FORMATS, TraceFile, statistics_of

    if form != "auto" and form not in TRACE_FORMATS:
        raise UsageError(f"--format is {form!r}; one of auto, {', '.join(TRACE_FORMATS)} was expected")
    with progress_of("trace") as progress:

        def shown(file: TraceFile, part: float) -> Iterator[Request]:
            for number, request in enumerate(file, 1):
                if number % _TOLD_EVERY == 0:
                    progress(part + file.part() / 2, f"{number:,} requests")
                yield request

        # Capacities are shares of the distinct blocks, which the first reading counts.
        with TraceFile(path, form) as file:
            found = statistics_of(shown(file, 0.0))
        capacities = [max(1, found.distinct_blocks // part) for part in _PARTS[1:]]
        with TraceFile(path, form) as file:
            found = statistics_of(shown(file, 0.5), [0, *capacities])
    if as_json:
        print_json(_data(found, file.failed))
    else:
        _print(path, found, file.failed)


def _data(found: TraceStatistics, failed: int) -> dict[str, object]:
    return {
        "requests": found.requests,
        "failed_requests": failed,
        "span_s": found.span_s,
        "arrival_times": found.arrival_times,
        "blocks": found.blocks,
        "distinct_blocks": found.distinct_blocks,
        "partial_last_blocks": found.partial_last_blocks,
        **{
            name: {
                "mean": lengths.mean(),
                **{f"p{round(100 * share)}": lengths.quantile(share) for share in (0.5, 0.9, 0.99)},
                "most": lengths.quantile(1.0),
            }
            for name, lengths in (("input_tokens", found.inputs), ("output_tokens", found.outputs))
        },
        "lru": [{"blocks": capacity or None, "token_hit_rate": rate} for capacity, rate in found.hits],
    }


def _print(path: Path, found: TraceStatistics, failed: int) -> None:
    rate = f", {found.requests / found.span_s:.2f} a second" if found.span_s else ""
    click.echo(f"{path}: {found.requests:,} requests in {found.span_s:,.0f} s{rate}")
    click.echo(
        f"  {found.arrival_times:,} times of arrival; {failed:,} rows of requests that failed left out"
    )
    click.echo(
        f"  {found.blocks:,} blocks, {found.distinct_blocks:,} of them distinct; the last block of "
        f"{found.partial_last_blocks:,} prompts is partial\n"
    )
    print_table(
        ("tokens", "mean", "p50", "p90", "p99", "most"),
        [
            (
                name,
                round(lengths.mean()),
                *(lengths.quantile(share) for share in (0.5, 0.9, 0.99, 1.0)),
            )
            for name, lengths in (("input", found.inputs), ("output", found.outputs))
        ],
    )
    click.echo()
    print_table(
        ("LRU of", "blocks", "token hit rate, %"),
        [
            (held, capacity or None, round(100 * rate, 1))
            for held, (capacity, rate) in zip(("all", *_HELD[1:]), found.hits, strict=True)
        ],
    )
