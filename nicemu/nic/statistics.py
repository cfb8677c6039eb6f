# SPDX-License-Identifier: Apache-2.0
"""What a NIC has counted, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .arena import STAT_NAMES

if TYPE_CHECKING:
    from .device import SmartNic


def statistics_of(device: SmartNic) -> dict[str, int]:
    """Return all counts of a NIC by name."""
    unit = device.unit.state.unit[0]
    counts = {name: int(device.arena.stats[number]) for number, name in enumerate(STAT_NAMES)}
    counts["trigger.slots_in_use"] = device.unit.slots_in_use
    counts["trigger.slots"] = device.unit.limits.slot_count
    counts["trigger.service_slots"] = device.unit.limits.host_slots
    counts["trigger.service_slots_in_use"] = int(unit.service_used)
    counts["trigger.stalls"] = int(unit.stalls)
    counts["trigger.cancelled"] = int(unit.cancelled)
    if device.config.transport == "port":
        counts["requester.retransmitted"] = device.roce.retransmitted_packets
    counts["firmware.steps"] = device.scheduler.steps
    counts["firmware.tasks"] = len(device.scheduler.tasks)
    counts["datapath.polls"] = int(device.arena.link[0].polls)
    counts["datapath.naps"] = int(device.arena.link[0].naps)
    for (initiator, kind), length_bytes in device.memory.space.traffic.items():
        counts[f"dma.{initiator}.{kind}_bytes"] = length_bytes
    counts.update(device.drops)
    return counts
