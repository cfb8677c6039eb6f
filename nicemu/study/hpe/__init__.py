# SPDX-License-Identifier: Apache-2.0
"""The HPE talk's 19x: readings of it side by side, their plots, and one message of a reading."""

from .plots import plot_hpe
from .point import HpePoint
from .readings import HpeRow, HpeSettings, Interval, Point, hpe_rows, read_hpe_settings, where_it_holds

__all__ = [
    "HpePoint",
    "HpeRow",
    "HpeSettings",
    "Interval",
    "Point",
    "hpe_rows",
    "plot_hpe",
    "read_hpe_settings",
    "where_it_holds",
]
