# SPDX-License-Identifier: Apache-2.0
"""What a failed test sees of its NICs: counters, and what is armed on them, as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nicemu.abi import ARMED, Opcode
from nicemu.errors import counted
from nicemu.run import Simulation
from nicemu.trigger import DUE, IN_FLIGHT, WAITING

_STATES = {WAITING: "waits", DUE: "is due", IN_FLIGHT: "is in flight"}
MOST_ENTRIES = 32


def state_of(simulations: Sequence[Simulation]) -> str:
    """Describe every NIC of every simulation."""
    return "\n".join(
        line
        for simulation in simulations
        for name in simulation.nics
        for line in _nic_lines(simulation, name)
    )


def _nic_lines(simulation: Simulation, name: str) -> list[str]:
    nic = simulation.nics[name]
    rows = simulation.admins[name].describe()["counters"]
    names = {row["counter"]: row["name"] for row in rows}
    lines = [f"{name}, {simulation.clock.now_ns()} ns:"]
    for row in rows:
        lines.append(
            f"  counter {row['name']} ({row['counter']}): "
            f"{counted(row['success'], 'success', 'successes')}, {counted(row['errors'], 'error')}, "
            f"{row['armed']} armed, {row['in_flight']} in flight"
        )
    slots = nic.unit.state.slots[: int(nic.unit.state.unit[0].touched)].view(np.ndarray).view(ARMED)
    taken = [record for record in slots if int(record["state"]) in _STATES]
    lines += [f"  {_entry(record, names)}" for record in taken[:MOST_ENTRIES]]
    if len(taken) > MOST_ENTRIES:
        lines.append(f"  and {counted(len(taken) - MOST_ENTRIES, 'more entry', 'more entries')}")
    if len(lines) == 1:
        lines.append("  no counter, nothing armed")
    return lines


def _entry(record: np.void, names: dict[int, str]) -> str:
    opcode, trigger = Opcode(int(record["opcode"])), int(record["trigger"])
    then = int(record["completion"])
    parts = [f"{_STATES[int(record['state'])]}: {opcode.name}"]
    parts.append(f"when {names.get(trigger, f'counter {trigger}')} >= {int(record['threshold'])}")
    if opcode in (Opcode.COUNTER_ADD, Opcode.COUNTER_SET):
        target = int(record["rkey"])
        parts.append(f"of {names.get(target, f'counter {target}')} by {int(record['remote_address'])}")
    elif int(record["qp"]):
        parts.append(f"on queue pair {int(record['qp'])}")
    if then >= 0:
        parts.append(f"then {names.get(then, f'counter {then}')}")
    return " ".join(parts)
