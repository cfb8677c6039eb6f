# SPDX-License-Identifier: Apache-2.0
"""The settings of DCQCN, as a person gives them and as the engine has them.

Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from nicemu.arguments import check_number, check_whole
from nicemu.errors import UsageError

SETTINGS = np.dtype(
    [
        ("line_rate", "f8"),  # rates are in bytes a nanosecond
        ("least_rate", "f8"),
        ("additive_increase", "f8"),
        ("hyper_increase", "f8"),
        ("g", "f8"),
        ("alpha_timer_ns", "i8"),
        ("increase_timer_ns", "i8"),
        ("byte_counter", "i8"),
        ("fast_recovery_stages", "i8"),
        ("cnp_interval_ns", "i8"),
    ]
)
_BITS_PER_S = 8e9
"""In a byte a nanosecond."""
_MOST_WHOLE = 1 << 62


@dataclass(frozen=True, slots=True)
class Dcqcn:
    """How queue pairs with congestion control behave; the defaults are those of the paper, at 100 Gb/s.

    A queue pair that is notified lowers its rate by half of alpha, and moves alpha towards 1 by `g`; without
    notifications alpha goes towards 0 by `g` every `alpha_timer_ns`. The rate rises at the end of each
    `increase_timer_ns` and of each `byte_counter_bytes`: halfway back to the rate before for
    `fast_recovery_stages` of them, then the aim rises too. CNPs are sent every `cnp_interval_ns` at most.
    Raises: UsageError if a value is no finite number above 0 (times, bytes and stages: no whole one), `g` is
    more than 1, or the least rate more than the line rate.
    """

    line_rate_bits_per_s: float = 100e9
    least_rate_bits_per_s: float = 10e6
    additive_increase_bits_per_s: float = 40e6
    hyper_increase_bits_per_s: float = 400e6
    g: float = 1 / 256
    alpha_timer_ns: int = 55_000
    increase_timer_ns: int = 55_000
    byte_counter_bytes: int = 10_000_000
    fast_recovery_stages: int = 5
    cnp_interval_ns: int = 50_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                check_whole(field.name, value, 1, _MOST_WHOLE)
            else:
                check_number(field.name, value, 0, more_than=True)
        if self.g > 1:
            raise UsageError(f"g is {self.g}; it is a share, 1 at most")
        if self.least_rate_bits_per_s > self.line_rate_bits_per_s:
            raise UsageError(
                f"least_rate_bits_per_s is {self.least_rate_bits_per_s:g}, more than the line rate, "
                f"{self.line_rate_bits_per_s:g}; lower it, or raise line_rate_bits_per_s"
            )

    def record(self) -> np.ndarray:
        """Return the settings as the engine has them: one SETTINGS record."""
        found = np.zeros(1, SETTINGS)
        found["line_rate"] = self.line_rate_bits_per_s / _BITS_PER_S
        found["least_rate"] = self.least_rate_bits_per_s / _BITS_PER_S
        found["additive_increase"] = self.additive_increase_bits_per_s / _BITS_PER_S
        found["hyper_increase"] = self.hyper_increase_bits_per_s / _BITS_PER_S
        found["byte_counter"] = self.byte_counter_bytes
        for name in ("g", "alpha_timer_ns", "increase_timer_ns", "fast_recovery_stages", "cnp_interval_ns"):
            found[name] = getattr(self, name)
        return found
