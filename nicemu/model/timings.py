# SPDX-License-Identifier: Apache-2.0
"""A profile as the emulator takes it: what each block of a NIC costs."""

from __future__ import annotations

from nicemu.timing import AnyCost, Cost, GrowingCost, Timings

from .profile import Profile


def timings_of(profile: Profile) -> Timings:
    """Return the costs of a NIC's blocks under a profile.

    Stages of NICs are pipelined, as the triggered way is. A transfer that is to be `durable` is complete in
    remote memory: that it is durable is told by the NVMe command behind it, which costs what it costs.
    """

    def cost(table: str) -> Cost:
        latency_s = profile.number(f"{table}.latency_s") if f"{table}.latency_s" in profile.fields else 0.0
        return Cost(1e9 * latency_s, 1e9 * profile.number(f"{table}.s_per_byte"))

    nic_s_per_byte = sum(profile.number(f"nic.{stage}_s_per_byte") for stage in profile.stages())
    request_s = profile.number("link.latency_s") + 2 * profile.number("pcie.latency_s")
    return Timings(
        memory=cost("vram"),
        dma=cost("pcie"),
        nic=Cost(0, 1e9 * nic_s_per_byte),
        link=cost("link"),
        nvme_read=_drive(profile, "read"),
        nvme_write=_drive(profile, "write"),
        trigger_ns=1e9 * profile.number("nic.trigger_match_s"),
        pipeline_ns=1e9 * profile.number("nic.pipeline_s"),
        firmware_step_ns=round(1e9 * profile.number("nic.firmware_step_s")),
        request_ns=1e9 * request_s,
        packet_bytes=profile.whole("transfer.packet_bytes"),
        to_memory=profile.text("transfer.completion") != "nic",
    )


def _drive(profile: Profile, way: str) -> AnyCost:
    intercept = profile.number(f"nvme.{way}_intercept")
    if profile.text("nvme.reading") == "latency_alone":
        return Cost(1e6 * intercept, 1e6 * profile.number(f"nvme.{way}_slope"))
    return GrowingCost(
        1e3 * intercept,
        profile.number(f"nvme.{way}_bytes_per_s"),
        profile.number(f"nvme.{way}_bytes_per_s_per_byte"),
        profile.whole("nvme.largest_measured_bytes"),
    )
