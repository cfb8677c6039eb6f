# SPDX-License-Identifier: Apache-2.0
"""A calibration measures the link over an RDMA device, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from nicemu.calibration import links_here, measure_link

pytestmark = pytest.mark.rxe

SIZES = (4096, 1 << 20)


def test_an_rdma_device_is_a_link_and_takes_longer_for_more(device_name: str, tmp_path: Path) -> None:
    fabric = f"verbs:{device_name}"
    assert fabric in links_here()
    small, large = measure_link(fabric, SIZES, tmp_path, lambda text: None).points
    assert 0 < small[1] < large[1]
