# SPDX-License-Identifier: Apache-2.0
"""How long KV takes between GPU memory and a storage node, led by CPUs or by NICs alone.

A message passes stages, each with a latency and a time a byte. Stages that store and forward add up; stages
that are pipelined cost the first packet everywhere and the rest where it is slowest.
Source: the HPE talk, its latency model of Tables II and III, with the stages as nicemu reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from .nvme import Operation, nvme_s
from .profile import Profile

SOFTWARE = (
    "software.copy_launch_s",
    "software.stream_sync_s",
    "software.context_switch_send_s",
    "software.network_send_s",
    "software.network_receive_s",
    "software.context_switch_receive_s",
    "software.storage_submit_s",
)
"""What a message costs a CPU's software, all along its way."""


class Way(StrEnum):
    """Who leads a transfer."""

    CPU = "cpu"
    TRIGGERED = "triggered"


@dataclass(frozen=True, slots=True)
class Stage:
    """What a message passes: seconds, and seconds a byte."""

    name: str
    latency_s: float
    s_per_byte: float


def software_s(profile: Profile) -> float:
    """Return what a message costs a CPU's software."""
    return sum(profile.number(name) for name in SOFTWARE)


def stages_of(profile: Profile, way: Way, operation: Operation, length_bytes: int) -> list[Stage]:
    """Return the stages from GPU memory to where a store is complete; a fetch passes them the other way.

    Where GPUs of a node share something (`transfer.cpu_shares`), a byte of a CPU's path costs as much as all
    of them together take.
    """
    shared = profile.text("transfer.cpu_shares") if way is Way.CPU else "none"
    gpus = profile.whole("node.gpus")
    of_link, of_cpu = (gpus if shared != "none" else 1), (gpus if shared == "all" else 1)

    def byte(name: str, times: int = 1) -> float:
        return profile.number(name) * times

    def pcie(times: int = 1) -> Stage:
        return Stage("PCIe", profile.number("pcie.latency_s"), byte("pcie.s_per_byte", times))

    dram = Stage("DRAM", 0.0, byte("dram.s_per_byte", of_cpu))
    copies = [Stage("copy", 0.0, byte("cpu.copy_s_per_byte", of_cpu))] * profile.whole("cpu.copies")
    nic = Stage("NIC", 0.0, sum(byte(f"nic.{stage}_s_per_byte", of_link) for stage in profile.stages()))
    found = [Stage("VRAM", 0.0, byte("vram.s_per_byte")), pcie()]
    if way is Way.CPU:
        found += [Stage("host copy", 0.0, byte("gpu.host_copy_s_per_byte", of_cpu)), dram, *copies, dram]
        found.append(pcie(of_link))
    found += [nic, Stage("link", profile.number("link.latency_s"), byte("link.s_per_byte", of_link)), nic]
    completion = profile.text("transfer.completion")
    if completion != "nic":
        found.append(pcie(of_link))
        if way is Way.CPU:
            found += [dram, *copies]
    if completion == "durable":
        if way is Way.CPU:
            found += [dram, pcie()]
        found.append(Stage("NVMe", 0.0, nvme_s(profile, operation, length_bytes) / length_bytes))
    if operation is Operation.FETCH:
        request_s = profile.number("link.latency_s") + 2 * profile.number("pcie.latency_s")
        found.append(Stage("request", request_s, 0.0))
    return found


def transfer_s(profile: Profile, way: Way, operation: Operation, length_bytes: int) -> float:
    """Return the seconds from the post of a message of so many bytes, at least 1, until it is complete."""
    stages = stages_of(profile, way, operation, length_bytes)
    latency_s = sum(stage.latency_s for stage in stages)
    passing = _pipelined_s if profile.text(f"transfer.{way}") == "pipelined" else _stored_s
    total = latency_s + passing(stages, length_bytes, profile.whole("transfer.packet_bytes"))
    chunk_bytes = profile.whole("software.chunk_bytes")
    chunks = -(-length_bytes // chunk_bytes) if chunk_bytes else 1
    if way is Way.TRIGGERED:
        return total + chunks * profile.number("nic.trigger_match_s")
    return total + chunks * profile.number("software.chunk_s") + software_s(profile)


def speedup(profile: Profile, operation: Operation, length_bytes: int) -> float:
    """Return how many times longer the CPUs' way takes."""
    led_s, triggered_s = (transfer_s(profile, way, operation, length_bytes) for way in Way)
    return led_s / triggered_s


def _stored_s(stages: Sequence[Stage], length_bytes: int, packet_bytes: int) -> float:
    return length_bytes * sum(stage.s_per_byte for stage in stages)


def _pipelined_s(stages: Sequence[Stage], length_bytes: int, packet_bytes: int) -> float:
    first = min(length_bytes, packet_bytes)
    slowest = max(stage.s_per_byte for stage in stages)
    return first * sum(stage.s_per_byte for stage in stages) + (length_bytes - first) * slowest
