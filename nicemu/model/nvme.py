# SPDX-License-Identifier: Apache-2.0
"""How long an NVMe drive takes for one request: the two readings of Table III that contradict nothing.

`fixed_and_rate` takes the table's intercept for microseconds and the rate from Table II, which grows with the
request up to the largest that was measured. `latency_alone` takes the whole line for milliseconds and pays no
byte twice; below a mebibyte it is useless, as a linear fit over large requests with queueing is.
"""

from __future__ import annotations

from enum import StrEnum

from .profile import Profile


class Operation(StrEnum):
    """Which way KV goes."""

    STORE = "store"
    FETCH = "fetch"


def nvme_s(profile: Profile, operation: Operation, length_bytes: int) -> float:
    """Return the seconds of one request of so many bytes."""
    way = "write" if operation is Operation.STORE else "read"
    intercept = profile.number(f"nvme.{way}_intercept")
    if profile.text("nvme.reading") == "latency_alone":
        return 1e-3 * (intercept + profile.number(f"nvme.{way}_slope") * length_bytes)
    measured = min(length_bytes, profile.whole("nvme.largest_measured_bytes"))
    rate = profile.number(f"nvme.{way}_bytes_per_s")
    rate += profile.number(f"nvme.{way}_bytes_per_s_per_byte") * measured
    return 1e-6 * intercept + length_bytes / rate
