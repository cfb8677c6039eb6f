# SPDX-License-Identifier: Apache-2.0
"""What this machine costs: its memory, a drive, and the links that nicemu's NICs have, as a profile."""

from .curve import Curve, Fit, fit
from .drive import DriveFolder, measure_drive
from .links import FABRICS, links_here, measure_link
from .machine import Calibration, calibrate
from .memory import measure_copy
from .plot import plot_calibration

__all__ = [
    "FABRICS",
    "Calibration",
    "Curve",
    "DriveFolder",
    "Fit",
    "calibrate",
    "fit",
    "links_here",
    "measure_copy",
    "measure_drive",
    "measure_link",
    "plot_calibration",
]
