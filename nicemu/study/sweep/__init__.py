# SPDX-License-Identifier: Apache-2.0
"""A study at many points: the plan, engines that run it, and the file that it goes on from."""

from .engines import Engine, Processes, Ray
from .plan import Outcome, Plan, SweepResult, run_point, run_sweep

__all__ = ["Engine", "Outcome", "Plan", "Processes", "Ray", "SweepResult", "run_point", "run_sweep"]
