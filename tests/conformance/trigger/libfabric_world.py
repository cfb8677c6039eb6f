# SPDX-License-Identifier: Apache-2.0
"""Two ends of one libfabric domain, for the tests of what runs on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from nicemu.abi import RemoteSpan, Span
from nicemu.errors import ResourceError
from nicemu.fabric import FabricMemory, LibfabricTarget, Loopback, trigger_providers

LENGTH = 1 << 16
DEADLINE_S = 5.0


def _missing() -> str:
    try:
        names = trigger_providers()
    except ResourceError as error:
        return str(error)
    without = f"of {names} none is `sockets`; the libfabric1 of Debian brings it"
    return "" if "sockets" in names else without


needs_sockets = pytest.mark.skipif(bool(_missing()), reason=_missing())


@dataclass
class World:
    """A target, its loopback peer, and memory at both ends."""

    target: LibfabricTarget
    loopback: Loopback
    here: FabricMemory
    there: FabricMemory
    local: Span
    offered: Span
    remote: RemoteSpan


@contextmanager
def a_world(slot_count: int = 1 << 20) -> Iterator[World]:
    with LibfabricTarget("sockets", slot_count=slot_count) as target:
        loopback = target.loopback()
        here, there = target.allocate((LENGTH,)), target.allocate((LENGTH,))
        offered = target.register(there, qp_num=loopback.peer_qp_num)
        remote = target.remote(offered, loopback.qp_num)
        yield World(target, loopback, here, there, target.register(here), offered, remote)


def eventually(read: Callable[[], object], expected: object) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while read() != expected and time.monotonic() < deadline:
        time.sleep(1e-3)
    assert read() == expected
