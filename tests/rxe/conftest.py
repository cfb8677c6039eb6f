# SPDX-License-Identifier: Apache-2.0
"""What the tests on a real RDMA device share: the device, and two queue pairs that are connected.

They skip with the reason where there is no device or no pyverbs; under NICEMU_RXE=required, as
`make rxe` runs them, they fail instead. They run on an emulated processor too: nothing here imports numba or
hypothesis.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from nicemu.errors import ResourceError
from nicemu.fabric import LOOPBACK_DEVICE, Pyverbs, load_pyverbs, require_rdma_device

from .endpoints import Pair

pytest.register_assert_rewrite("tests.contract.joined_nics", "tests.contract.transport_promises")


@pytest.fixture(scope="session")
def verbs() -> Pyverbs:
    """pyverbs, on a machine that has an RDMA device."""
    try:
        require_rdma_device()
        return load_pyverbs()
    except ResourceError as missing:
        if os.environ.get("NICEMU_RXE") == "required":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def device_name(verbs: Pyverbs) -> str:
    """The RDMA device that tests use: SoftRoCE on the loopback interface, if there is one."""
    names = require_rdma_device()
    return LOOPBACK_DEVICE if LOOPBACK_DEVICE in names else names[0]


@pytest.fixture
def pair(verbs: Pyverbs, device_name: str) -> Iterator[Pair]:
    """Two connected queue pairs of one device, each with a memory region and a completion queue."""
    with Pair(verbs, device_name) as pair:
        yield pair
