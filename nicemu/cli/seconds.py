# SPDX-License-Identifier: Apache-2.0
"""Options that are a time."""

from __future__ import annotations

import math
from typing import Any

import click


class Seconds(click.FloatRange):
    """A number of seconds from `min` on that comes to an end: neither NaN nor infinity."""

    name = "seconds"

    def __init__(self, min: float = 0.0) -> None:
        super().__init__(min=min)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return the number; anything else is wrong usage."""
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is no number of seconds; write one such as 2.5", param, ctx)
        return seconds
