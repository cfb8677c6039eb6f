# SPDX-License-Identifier: Apache-2.0
"""Studies: what offload to NICs would gain, by models whose every constant says where it comes from."""

from .hpe import HpeRow, HpeSettings, Interval, Point, hpe_rows, read_hpe_settings, where_it_holds
from .plots import plot_hpe
from .sizes import size_of, size_text

__all__ = [
    "HpeRow",
    "HpeSettings",
    "Interval",
    "Point",
    "hpe_rows",
    "plot_hpe",
    "read_hpe_settings",
    "size_of",
    "size_text",
    "where_it_holds",
]
