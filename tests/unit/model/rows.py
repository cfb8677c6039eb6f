# SPDX-License-Identifier: Apache-2.0
"""Ten readings of the talk's model, and the speed-ups that another model of the same equations gives."""

from __future__ import annotations

from collections.abc import Mapping

from nicemu.model import SOFTWARE, Profile, Value, read_profile

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES = (KIB, 4 * KIB, 64 * KIB, MIB, 64 * MIB, GIB)
FREE: dict[str, Value] = dict.fromkeys(SOFTWARE, 0.0)
STORED: dict[str, Value] = {"transfer.triggered": "store_and_forward"}
DURABLE: dict[str, Value] = {"transfer.completion": "durable"}
NODE: dict[str, Value] = {**FREE, "transfer.cpu_shares": "link"}
PIPELINED: dict[str, Value] = {"transfer.cpu": "pipelined"}

GOLDEN: dict[str, tuple[str, Mapping[str, Value], str, tuple[float, ...]]] = {
    "1": ("seed", {**FREE, **STORED}, "store", (1.03, 1.05, 1.07, 1.07, 1.07, 1.07)),
    "2": ("seed", {}, "store", (28.6, 19.6, 8.4, 3.6, 3.2, 3.2)),
    "3": ("seed", DURABLE, "store", (9.0, 6.7, 2.7, 1.7, 1.7, 1.9)),
    "4": (
        "seed",
        {**DURABLE, "nvme.reading": "latency_alone"},
        "store",
        (1.01, 1.01, 1.02, 1.09, 1.58, 1.64),
    ),
    "5": ("seed", {**NODE, "nic.stages": "serial"}, "store", (2.0, 3.8, 15.2, 19.7, 20.1, 20.1)),
    "6": ("seed", NODE, "store", (2.2, 4.1, 17.8, 23.5, 24.0, 24.0)),
    "7": ("seed", {**NODE, **PIPELINED, "nic.stages": "serial"}, "store", (2.0, 3.8, 6.7, 7.9, 8.0, 8.0)),
    "8": ("physical", {}, "store", (16.8, 13.4, 9.1, 6.3, 6.0, 6.0)),
    "9": (
        "physical",
        {**PIPELINED, "software.chunk_s": 2.4e-6},
        "store",
        (17.7, 14.1, 6.6, 1.76, 1.28, 1.28),
    ),
    "10 store": (
        "physical",
        {**DURABLE, "nvme.write_intercept": 3.3, "nvme.read_intercept": 2.03},
        "store",
        (7.7, 6.1, 3.1, 2.2, 2.4, 2.6),
    ),
    "10 fetch": (
        "physical",
        {**DURABLE, "nvme.write_intercept": 3.3, "nvme.read_intercept": 2.03},
        "fetch",
        (7.0, 6.1, 4.7, 3.7, 4.3, 4.9),
    ),
}
"""By row: the profile, what is set in it, the operation, the speed-ups at SIZES."""


def profile_of(row: str) -> Profile:
    """Return the profile of a row."""
    name, values, _, _ = GOLDEN[row]
    return read_profile(name).having(values)
