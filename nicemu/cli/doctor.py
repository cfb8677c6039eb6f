# SPDX-License-Identifier: Apache-2.0
"""`nicemu doctor`: what this machine can do, and the cure for each no."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

import click

from .finding import Finding
from .show import JSON_OPTION, print_json, print_table


@click.command()
@JSON_OPTION
def doctor(as_json: bool) -> None:
    """Say what this machine can do for nicemu, with the reason and the cure for each no.

    Exit status 1 if something is missing that nicemu cannot do without.
    """
    from .devices import DEVICE_CHECKS
    from .machine import MACHINE_CHECKS

    findings = examine([*MACHINE_CHECKS, *DEVICE_CHECKS])
    missing = [finding.check for finding in findings if finding.needed and not finding.ok]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        _print_findings(findings)
        click.echo()
        click.echo(f"missing: {', '.join(missing)}" if missing else "Everything that nicemu needs is here.")
    if missing:
        raise click.exceptions.Exit(1)


def examine(checks: Sequence[Callable[[], Finding]]) -> list[Finding]:
    """Run every check; one that fails in an unforeseen way is a no with that as its reason."""
    findings = []
    for check in checks:
        try:
            findings.append(check())
        except Exception as error:
            name = check.__name__.replace("_", " ")
            reason = f"the check itself failed: {type(error).__name__}: {error}"
            findings.append(Finding(name, False, reason, "report this as a fault of nicemu"))
    return findings


def _print_findings(findings: Sequence[Finding]) -> None:
    rows = [(finding.check, _answer(finding), finding.reason) for finding in findings]
    print_table(("check", "here", "what was found"), rows)
    cures = [finding for finding in findings if finding.cure]
    if cures:
        click.echo("\nWhat to do:")
    for finding in cures:
        click.echo(f"  {finding.check}: {finding.cure}")


def _answer(finding: Finding) -> str:
    if finding.ok:
        return "yes"
    return "NO" if finding.needed else "no"
