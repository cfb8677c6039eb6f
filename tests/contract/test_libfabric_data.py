# SPDX-License-Identifier: Apache-2.0
"""What all transports promise of bytes and triggers, of libfabric's provider `sockets`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from nicemu.abi import DeferredWork, RemoteSpan, WorkRequest
from nicemu.errors import VerbsStatus
from nicemu.fabric import FabricMemory, LibfabricTarget
from tests.conformance.trigger.libfabric_world import needs_sockets
from tests.contract.data_promises import *  # noqa: F403
from tests.contract.joined_nics import GUARD, TIME_LIMIT_S, Region

pytestmark = needs_sockets


class FabricEnd:
    """One endpoint of a domain; `host` is the target, which arms programs for the first one."""

    def __init__(self, target: LibfabricTarget, reached_through: int | None) -> None:
        self.host = target
        self._reached_through = reached_through
        self.regions: list[Region] = []

    def region(self, content: int | bytes) -> Region:
        """Return new memory, some of it registered; with random guards around that."""
        data = bytes(content) if isinstance(content, int) else content
        whole = self.host.allocate((len(data) + 2 * GUARD,))
        guard = random.Random(len(self.regions)).randbytes(2 * GUARD)
        whole.array[:] = np.frombuffer(guard[:GUARD] + data + guard[GUARD:], np.uint8)
        inside = FabricMemory(whole.array[GUARD:-GUARD], whole.address + GUARD)
        made = Region(whole, self.host.register(inside, qp_num=self._reached_through), guard)
        self.regions.append(made)
        return made


class JoinedFabric:
    """Two endpoints of one domain. A completion counter tells that work has ended well."""

    def __init__(self, target: LibfabricTarget) -> None:
        self._target = target
        self._loopback = target.loopback()
        (self._ended,) = target.counters("ended")
        self.a, self.b = FabricEnd(target, None), FabricEnd(target, self._loopback.peer_qp_num)

    def do(self, work: WorkRequest) -> VerbsStatus:
        """Carry work out, and return how it ends."""
        before, failed = self._ended.success, list(self._target.take_completions())
        assert failed == []
        named = [region for region in self.b.regions if region.span.key == work.rkey]
        if named:
            address, rkey = self._target.offer(named[0].span)
            there = work.remote_address - named[0].span.address + address
            work = replace(work, remote_address=there, rkey=rkey)
        (go,) = self._target.counters("go")
        self._target.arm(
            [DeferredWork(go.index, 1, work.opcode, work, self._loopback.qp_num, self._ended.index)]
        )
        go.add()

        def has_ended() -> bool:
            failed.extend(self._target.take_completions())
            return bool(failed) or self._ended.success > before

        self.until(has_ended, "the end of the work")
        go.close()
        return failed[0].status if failed else VerbsStatus.SUCCESS

    def remote(self, region: Region) -> RemoteSpan:
        """Return a region of b as programs name it."""
        return self._target.remote(region.span, self._loopback.qp_num)

    def until(self, is_true: Callable[[], bool], what: str = "it") -> None:
        """Let the provider go on until something is so; fail if it does not come in time."""
        end = time.monotonic() + TIME_LIMIT_S
        while not is_true():
            assert time.monotonic() < end, f"{what} has not come in {TIME_LIMIT_S} s"
            self._target.progress()

    @property
    def guards_hold(self) -> bool:
        """Whether nothing was written beside any region."""
        return all(region.guards_hold for end in (self.a, self.b) for region in end.regions)


@pytest.fixture
def joined() -> Iterator[JoinedFabric]:
    with LibfabricTarget("sockets") as target:
        yield JoinedFabric(target)
