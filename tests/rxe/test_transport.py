# SPDX-License-Identifier: Apache-2.0
"""What all transports promise, over a real RDMA device: the kernel makes the packets and checks the keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nicemu.errors import VerbsStatus
from nicemu.fabric import Pyverbs, VerbsTransport
from tests.contract.joined_nics import JoinedNics
from tests.contract.transport_promises import *  # noqa: F403

pytestmark = pytest.mark.rxe

RXE_SAYS = {"longer than its receive": VerbsStatus.REM_OP_ERR}
"""Linux 6.1, rxe_resp.c: a message that its receive cannot hold is answered as if the memory were wrong."""


@pytest.fixture
def joined(verbs: Pyverbs, device_name: str) -> Iterator[JoinedNics]:
    """Two NICs of one process, each with the device opened for itself."""
    outside = {name: VerbsTransport(device_name) for name in "ab"}
    made = JoinedNics("verbs", outside, deviations=RXE_SAYS)
    yield made
    made.close()
    for transport in outside.values():
        transport.close()
