# SPDX-License-Identifier: Apache-2.0
"""Calibration measures live NICs, and what it predicts of them comes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from nicemu.calibration import calibrate, measure_link
from nicemu.errors import UsageError

SIZES = (4096, 1 << 20)


@pytest.mark.process
def test_a_calibration_measures_copies_the_drive_and_the_link_that_was_named(tmp_path: Path) -> None:
    told: list[str] = []
    found = calibrate(
        tmp_path,
        "direct",
        told.append,
        copy_sizes=SIZES,
        link_sizes=SIZES,
        drive_sizes=SIZES,
        drive_bytes=4 << 20,
    )
    assert found.link == "direct"
    assert {"copy", "link direct"} <= set(found.curves)
    assert ("drive read" in found.curves) is ("drive" not in found.missing)
    assert all(seconds > 0 for curve in found.curves.values() for _, seconds in curve.points)
    assert any("link direct" in text for text in told)


@pytest.mark.slow
def test_a_larger_write_takes_longer_as_frames(tmp_path: Path) -> None:
    (small, large) = measure_link("udp", (4096, 4 << 20), tmp_path, lambda text: None).points
    assert small[1] < large[1]


def test_a_link_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="carrier-pigeon"):
        calibrate(
            tmp_path,
            "carrier-pigeon",
            lambda text: None,
            copy_sizes=SIZES,
            drive_sizes=SIZES,
            drive_bytes=1 << 20,
        )
