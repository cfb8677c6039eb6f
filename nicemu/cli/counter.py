# SPDX-License-Identifier: Apache-2.0
"""`nicemu counter list` and `nicemu stats`: what a NIC has counted."""

from __future__ import annotations

from typing import Any

import click

from .show import JSON_OPTION, NIC_OPTION, print_json, print_table

_COLUMNS = ("counter", "name", "owner", "success", "errors", "armed", "aimed", "in_flight", "overflow")


@click.group()
def counter() -> None:
    """Trigger counters, and the work that waits for them."""


@counter.command("list")
@NIC_OPTION
@JSON_OPTION
def list_counters(nic: str | None, as_json: bool) -> None:
    """List the counters that host programs have on a NIC: their values, and the deferred work that waits for
    each. Those of firmware are its own.

    armed: work that fires on this counter. aimed: work that will change it. in_flight: fired work whose
    completion it counts. overflow: the counter has reached its largest value and stays there.
    """
    described = _describe(nic)
    if as_json:
        print_json(described["counters"])
    elif described["counters"]:
        print_table(_COLUMNS, [[row[column] for column in _COLUMNS] for row in described["counters"]])
    else:
        click.echo(f"{described['nic']} has no counter of a host program")
    if not as_json:
        click.echo(_entries(described))


@click.command()
@NIC_OPTION
@JSON_OPTION
def stats(nic: str | None, as_json: bool) -> None:
    """Show a NIC's statistics (with what it dropped, and why), its program, firmware and peers."""
    described = _describe(nic)
    if as_json:
        print_json({key: value for key, value in described.items() if key != "counters"})
        return
    peers = ", ".join(f"{name} ({_queue_pairs(qps)})" for name, qps in described["peers"].items())
    facts = [
        ("program", _program(described)),
        ("firmware", ", ".join(described["firmware"]) or "none"),
        ("peers", peers or "none"),
        ("trigger entries", _entries(described).removeprefix("trigger entries: ")),
    ]
    print_table(("nic", str(described["nic"])), facts)
    click.echo()
    print_table(("statistic", "value"), list(described["statistics"].items()))
    for fault in described.get("faults", []):
        click.echo(f"fault: {fault}")


def _entries(described: dict[str, Any]) -> str:
    """Say how full the trigger table is."""
    counts, profile = described["statistics"], described["limits"]
    used, slots = counts["trigger.slots_in_use"], counts["trigger.slots"]
    shared, service = counts["trigger.service_slots_in_use"], counts["trigger.service_slots"]
    return (
        f"trigger entries: {used} of {slots} in use, {shared} of the service's {service} (limits: {profile})"
    )


def _program(described: dict[str, Any]) -> str:
    """Say what the pipeline runs, and how."""
    if described["program"] is None:
        return "none"
    because = described["interpreted_because"]
    return f"{described['program']} ({f'interpreted: {because}' if because else 'compiled'})"


def _queue_pairs(numbers: list[int]) -> str:
    return f"qp {', '.join(map(str, numbers))}" if numbers else "no queue pair"


def _describe(nic: str | None) -> dict[str, Any]:
    from nicemu.run import ask, find_nic

    return dict(ask(find_nic(nic), "describe"))
