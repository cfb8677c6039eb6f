# SPDX-License-Identifier: Apache-2.0
"""Studies: what offload to NICs would gain, by models whose every constant says where it comes from."""

from .contract import Progress, Result, Study, Table
from .drawing import figure, legend_below, pyplot
from .hpe import HpeRow, HpeSettings, Interval, Point, hpe_rows, read_hpe_settings, where_it_holds
from .hpe_plots import plot_hpe
from .settings import Settings, read_settings, settings_data, settings_with
from .sizes import size_of, size_text
from .studies import STUDIES

__all__ = [
    "STUDIES",
    "HpeRow",
    "HpeSettings",
    "Interval",
    "Point",
    "Progress",
    "Result",
    "Settings",
    "Study",
    "Table",
    "figure",
    "hpe_rows",
    "legend_below",
    "plot_hpe",
    "pyplot",
    "read_hpe_settings",
    "read_settings",
    "settings_data",
    "settings_with",
    "size_of",
    "size_text",
    "where_it_holds",
]
