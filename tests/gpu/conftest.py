# SPDX-License-Identifier: Apache-2.0
"""A stream of a real GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nicemu.errors import NicemuError
from nicemu.host import CudaStream


@pytest.fixture
def gpu() -> Iterator[CudaStream]:
    try:
        stream = CudaStream()
    except NicemuError as error:
        pytest.skip(f"needs a CUDA device: {error}")
    yield stream
    stream.close()
