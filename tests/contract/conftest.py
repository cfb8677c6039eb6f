# SPDX-License-Identifier: Apache-2.0
"""NVMe controllers for the contract suites: ours, and QEMU's, one a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from nicemu.fabric import QemuFabric, qemu_missing
from tests.contract.nvme_plain_host import PlainHost
from tests.contract.nvme_rigs import Rig, nicemu_rig, open_fabric, qemu_rig

pytest.register_assert_rewrite("tests.contract.joined_nics", "tests.contract.transport_promises")


@pytest.fixture(scope="module")
def fabric() -> Iterator[QemuFabric]:
    if missing := qemu_missing():
        pytest.skip(missing)
    with open_fabric() as opened:
        yield opened


@pytest.fixture(params=["nicemu", pytest.param("qemu", marks=pytest.mark.p2p)])
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """A controller that nobody has touched."""
    with ExitStack() as stack:
        if request.param == "qemu":
            yield stack.enter_context(qemu_rig(request.getfixturevalue("fabric")))
        else:
            yield stack.enter_context(nicemu_rig(None))


@pytest.fixture
def host(rig: Rig) -> PlainHost:
    """An enabled controller without I/O queues."""
    made = PlainHost(rig)
    made.enable()
    return made


@pytest.fixture
def io(host: PlainHost) -> PlainHost:
    """An enabled controller with I/O queue pair 1 of 8 entries."""
    host.open(1)
    return host
