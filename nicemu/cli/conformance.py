# SPDX-License-Identifier: Apache-2.0
"""`nicemu conformance`: every rule of triggered operations, tried on every bench that is here."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import click

from .show import JSON_OPTION, print_json, print_table

if TYPE_CHECKING:
    from nicemu.testing import Case, Result

SENTENCE_LETTERS = 60
"""What is shown of a case while it is tried."""


@click.command()
@JSON_OPTION
@click.option("--bench", "names", metavar="NAME", multiple=True, help="A bench to try; may be repeated.")
@click.option("--rule", "rules", metavar="R24", multiple=True, help="A rule to try; may be repeated.")
def conformance(as_json: bool, names: tuple[str, ...], rules: tuple[str, ...]) -> None:
    """Try the rules of triggered operations (docs/triggers.md) on nicemu, and on other libraries here.

    Exit status 1 if one of nicemu's own benches does not follow a rule, or another one does other than is
    known of it.
    """
    from nicemu.testing import BENCHES, RULES

    _known(names, BENCHES, "bench")
    _known(rules, RULES, "rule")
    results = _try(names or tuple(BENCHES), rules or tuple(RULES))
    if as_json:
        print_json(_as_json(results))
    else:
        _print(results, names or tuple(BENCHES), rules or tuple(RULES))
    if any(result.verdict.is_fault for result in results):
        raise click.exceptions.Exit(1)


def _known(given: Sequence[str], known: Collection[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise click.UsageError(f"there is no {what} {name!r}; there are {', '.join(known)}")


def _try(names: Sequence[str], rules: Sequence[str]) -> list[Result]:
    """Try every case of the rules on every bench; a bench that is absent is tried once.

    How far it is stands on stderr: on a terminal a bar a bench, elsewhere a line a bench.
    """
    from nicemu.errors import counted
    from nicemu.testing import CASES, Verdict, try_case

    cases = [case for case in CASES.values() if set(case.rules) & set(rules)]
    count = counted(len(cases), "case")
    results = []
    for name in names:
        if name == "compiled" and _has_to_compile():
            click.echo("compiling the datapath (the first time only, one to three minutes)", err=True)
        with click.progressbar(
            cases, label=f"{name}: {count}", item_show_func=_sentence, file=sys.stderr, show_eta=False
        ) as trying:
            for case in trying:
                results.append(try_case(case, name))
                if results[-1].verdict is Verdict.ABSENT:
                    break
    return results


def _sentence(case: Case | None) -> str:
    return "" if case is None else f"{case.sentence[:SENTENCE_LETTERS]}"


def _has_to_compile() -> bool:
    """Whether a turn of the datapath, which every case of that bench needs whole, is not in the cache."""
    from nicemu.hot import JIT, cache_folder

    return JIT and not any(cache_folder().rglob("datapath.poll-*.nbi"))


def _as_json(results: Sequence[Result]) -> dict[str, object]:
    from nicemu.testing import ELSEWHERE, RULES

    return {
        "rules": RULES,
        "results": [
            {
                "bench": result.bench,
                "case": result.case.name,
                "says": result.case.sentence,
                "numbers": list(result.case.numbers),
                "profile": result.case.limits.profile,
                "verdict": result.verdict.value,
                "reason": result.reason,
            }
            for result in results
        ],
        "elsewhere": ELSEWHERE,
    }


def _print(results: Sequence[Result], names: Sequence[str], rules: Sequence[str]) -> None:
    from nicemu.testing import RULES, Verdict

    absent = {result.bench: result.reason for result in results if result.verdict is Verdict.ABSENT}
    present = [name for name in names if name not in absent]
    if present:
        rows = []
        for rule in rules:
            cells = [_cell([result for result in results if result.bench == name], rule) for name in present]
            rows.append((rule, RULES[rule], *cells))
        print_table(("rule", "what it says", *present), rows)
    for verdict, heading in (
        (Verdict.FAILS, "Does not hold:"),
        (Verdict.WRONGLY_EXPECTED, "Holds, though a deviation is said of it:"),
        (Verdict.DEVIATES, "Known deviations:"),
    ):
        told = [result for result in results if result.verdict is verdict]
        if told:
            click.echo(f"\n{heading}")
        for result in told:
            numbers = " ".join(result.case.numbers)
            click.echo(f"  {result.bench}, {numbers}: {result.case.sentence}. {result.reason}")
    for name, reason in absent.items():
        click.echo(f"\n{name} is absent: {reason}")


def _cell(results: Sequence[Result], rule: str) -> str:
    """Say how a bench does by a rule: how many of its cases hold, of those that were tried."""
    from nicemu.testing import Verdict

    concerned = [result for result in results if rule in result.case.rules]
    tried = [result for result in concerned if result.verdict is not Verdict.NOT_TRIED]
    if not tried:
        return "not tried"
    hold = sum(result.verdict is Verdict.HOLDS for result in tried)
    if any(result.verdict.is_fault for result in tried):
        return f"NO, {hold} of {len(tried)}"
    return f"yes, {len(tried)}" if hold == len(tried) else f"deviates, {hold} of {len(tried)}"
