# SPDX-License-Identifier: Apache-2.0
"""The claim itself: with the host stopped (SIGSTOP), the NICs alone bring a session home."""

from __future__ import annotations

from pathlib import Path

import pytest

from nicemu.cli.journey import Journey
from tests.process.live_nics import is_alive, live_nics

pytestmark = pytest.mark.process

CLAIMS = {
    "every chunk is durable",
    "user 1 was answered",
    "user 2 got user 1's memory",
    "the host was stopped all the while",
    "the NICs alone used no host CPU",
    "it landed in the poisoned slot",
    "the bytes that came back are the bytes that left",
    "tokens equal a run without eviction",
    "logits are bit-equal to that run",
    "one flipped bit changes the logits",
    "only new tokens were computed",
    "a host that waits uses at most 1 ms of CPU",
    "the second fetch brought the same bytes",
}


def test_a_session_comes_home_while_the_host_is_stopped(tmp_path: Path) -> None:
    with live_nics("journey", tmp_path) as instance:
        journey = Journey(instance, "direct", lambda text: None, tmp_path)
        try:
            report = journey.run(["storage0", "storage1"], {"blocks": 16})
        finally:
            journey.close()
        assert not is_alive(journey.host.process.pid)
        assert not is_alive(journey.client.process.pid)
    assert set(report.held) >= CLAIMS
    assert [claim for claim, is_so in report.held.items() if not is_so] == []
    assert report.figures["host_cpu_ns_while_stopped"] == 0
    assert report.figures["chunks_stored"] > 0
