# SPDX-License-Identifier: Apache-2.0
"""What every study is: settings that say what they may be, a run, a result as tables, data and figures."""

from .drawing import figure, legend_below, pyplot
from .settings import (
    Check,
    Settings,
    checked_setting,
    choice,
    flag,
    number,
    number_from,
    one_of,
    read_settings,
    settings_data,
    settings_with,
    several,
    text,
    whole,
    whole_from,
)
from .sizes import size_of, size_text
from .study import Progress, Result, Study, Table, rounded

__all__ = [
    "Check",
    "Progress",
    "Result",
    "Settings",
    "Study",
    "Table",
    "checked_setting",
    "choice",
    "figure",
    "flag",
    "legend_below",
    "number",
    "number_from",
    "one_of",
    "pyplot",
    "read_settings",
    "rounded",
    "settings_data",
    "settings_with",
    "several",
    "size_of",
    "size_text",
    "text",
    "whole",
    "whole_from",
]
