# SPDX-License-Identifier: Apache-2.0
"""Studies: what offload to NICs would gain, by models whose every constant says where it comes from."""

from .contract import Progress, Result, Study, Table
from .drawing import figure, legend_below, pyplot
from .engines import Engine, Processes, Ray
from .hpe import HpeRow, HpeSettings, Interval, Point, hpe_rows, read_hpe_settings, where_it_holds
from .hpe_plots import plot_hpe
from .settings import Settings, read_settings, settings_data, settings_with
from .sizes import size_of, size_text
from .studies import STUDIES
from .sweep import Outcome, Plan, SweepResult, run_sweep
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
