# SPDX-License-Identifier: Apache-2.0
"""Hot loops: one source, compiled or interpreted, and where the compiled code is kept."""

from .compiled_code import CodeLocator, cache_folder, own_cache_folder
from .functions import JIT, Flag, Int, Records, cold, extend, hot, interpreted

__all__ = [
    "JIT",
    "CodeLocator",
    "Flag",
    "Int",
    "Records",
    "cache_folder",
    "cold",
    "extend",
    "hot",
    "interpreted",
    "own_cache_folder",
]
