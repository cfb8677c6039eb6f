# SPDX-License-Identifier: Apache-2.0
"""What all transports promise, of those that need no device: copies on this machine, and RoCEv2 frames."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.joined_nics import JoinedNics
from tests.contract.transport_promises import *  # noqa: F403


@pytest.fixture(params=["direct", "port", "port, with options"])
def joined(request: pytest.FixtureRequest) -> Iterator[JoinedNics]:
    transport, _, with_options = request.param.partition(",")
    on = bool(with_options)
    made = JoinedNics(transport, selective_retransmission=on, congestion_control=on)
    yield made
    made.close()
