# SPDX-License-Identifier: Apache-2.0
"""A calibration: all curves of a machine, and the profile that they make."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nicemu.errors import NicemuError, UsageError
from nicemu.model import Field, Profile, Provenance, Value, read_profile
from nicemu.study import size_text

from .curve import Curve
from .drive import DriveFolder, measure_drive
from .links import links_here, measure_link
from .memory import measure_copy

COPY_SIZES = tuple(1 << power for power in range(24, 28))
"""Larger than caches of a core."""
LINK_SIZES = tuple(1 << power for power in range(12, 23, 2))
DRIVE_SIZES = tuple(1 << power for power in range(12, 25, 2))
DRIVE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured, by name (copy, drive, link); which link the profile has; what was left out."""

    curves: Mapping[str, Curve]
    link: str
    missing: Mapping[str, str]

    def profile(self, name: str) -> Profile:
        """Return the profile: what was measured, over `physical` for what cannot be measured here."""
        fields = dict(read_profile("physical").fields)

        def put(field: str, value: Value, source: str) -> None:
            fields[field] = Field(field, value, Provenance.MEASURED, source)

        link = self.curves[f"link {self.link}"]
        put("link.latency_s", link.fit.latency_s, _source(link))
        put("link.s_per_byte", link.fit.s_per_byte, _source(link))
        part = f"part of the link {self.link}, which was measured from memory to memory"
        for field in ("vram.s_per_byte", "pcie.latency_s", "pcie.s_per_byte", "nic.trigger_match_s"):
            put(field, 0.0, part)
        for stage in ("memory", "alu", "serial"):
            put(f"nic.{stage}_s_per_byte", 0.0, part)
        copy = self.curves["copy"]
        put("cpu.copy_s_per_byte", copy.fit.s_per_byte, _source(copy))
        put("dram.s_per_byte", 0.0, "part of the copy, which reads and writes DRAM")
        put("transfer.packet_bytes", 1, "stages of their own are not told apart: a transfer is one")
        put("nvme.reading", "fixed_and_rate", "a line through the latencies of sizes")
        for way, curve in (("write", "drive write"), ("read", "drive randread")):
            if curve not in self.curves:
                continue
            found = self.curves[curve]
            put(f"nvme.{way}_intercept", 1e6 * found.fit.latency_s, f"us: {_source(found)}")
            put(f"nvme.{way}_bytes_per_s", 1 / max(found.fit.s_per_byte, 1e-15), _source(found))
            put(f"nvme.{way}_bytes_per_s_per_byte", 0.0, "the rate of the line is one for all sizes")
            put("nvme.largest_measured_bytes", found.points[-1][0], "the largest size that was measured")
        return Profile(name, f"measured on a machine, its link {self.link}", fields)


def _source(curve: Curve) -> str:
    first, last = size_text(curve.points[0][0]), size_text(curve.points[-1][0])
    return (
        f"{curve.name}, {len(curve.points)} sizes from {first} to {last}, residual {curve.fit.residual:.1%}"
    )


def calibrate(
    disk: Path,
    link: str | None,
    progress: Callable[[str], None],
    *,
    copy_sizes: Sequence[int] = COPY_SIZES,
    link_sizes: Sequence[int] = LINK_SIZES,
    drive_sizes: Sequence[int] = DRIVE_SIZES,
    drive_bytes: int = DRIVE_BYTES,
) -> Calibration:
    """Measure this machine: memory, the drive under a folder, the links between two NICs.

    `link` is the one that the profile has; None measures all that are here and takes `direct`. What cannot be
    measured here is missing, with the reason.
    Raises: UsageError if the link cannot be measured.
    """
    links: dict[str, Curve] = {}
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="nicemu-calibrate-") as folder:  # first, for one may be absent
        for fabric in links_here() if link is None else [link]:
            try:
                links[f"link {fabric}"] = measure_link(fabric, link_sizes, Path(folder), progress)
            except NicemuError as error:
                if link is not None:
                    raise
                missing[f"link {fabric}"] = str(error)
    curves = {"copy": measure_copy(copy_sizes, progress)}
    try:
        with DriveFolder(disk, drive_bytes) as drive:
            found = measure_drive(drive, drive_bytes, drive_sizes, progress)
            curves |= {f"drive {name}": curve for name, curve in found.items()}
    except UsageError as error:
        missing["drive"] = str(error)
    curves |= links
    chosen = link or "direct"
    if f"link {chosen}" not in curves:
        raise UsageError(f"the link {chosen}: {missing[f'link {chosen}']}")
    return Calibration(curves, chosen, missing)
