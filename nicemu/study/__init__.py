# SPDX-License-Identifier: Apache-2.0
"""Studies: what offload to NICs would gain, by models whose every constant says where it comes from."""

from .contract import (
    Progress,
    Result,
    Settings,
    Study,
    Table,
    figure,
    legend_below,
    pyplot,
    read_settings,
    settings_data,
    settings_with,
    size_of,
    size_text,
)
from .hpe import HpeRow, HpeSettings, Interval, Point, hpe_rows, plot_hpe, read_hpe_settings, where_it_holds
from .studies import STUDIES
from .sweep import Engine, Outcome, Plan, Processes, Ray, SweepResult, run_sweep
from .traces import (
    CONVERSATIONS,
    Request,
    TraceFile,
    TraceStatistics,
    statistics_of,
    synthetic_trace,
    write_trace,
)
from .traces import FORMATS as TRACE_FORMATS

__all__ = [
    "CONVERSATIONS",
    "STUDIES",
    "TRACE_FORMATS",
    "Engine",
    "HpeRow",
    "HpeSettings",
    "Interval",
    "Outcome",
    "Plan",
    "Point",
    "Processes",
    "Progress",
    "Ray",
    "Request",
    "Result",
    "Settings",
    "Study",
    "SweepResult",
    "Table",
    "TraceFile",
    "TraceStatistics",
    "figure",
    "hpe_rows",
    "legend_below",
    "plot_hpe",
    "pyplot",
    "read_hpe_settings",
    "read_settings",
    "run_sweep",
    "settings_data",
    "settings_with",
    "size_of",
    "size_text",
    "statistics_of",
    "synthetic_trace",
    "where_it_holds",
    "write_trace",
]
