# SPDX-License-Identifier: Apache-2.0
"""A CUDA stream rings doorbells and waits for counters of a NIC, stepped and live, on a real GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nicemu.host import CudaStream, Nic, open_nic
from nicemu.nic import NicConfig
from nicemu.run import Simulation
from tests.process.live_nics import live_nics

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["stepped", "live"])
def nic(request: pytest.FixtureRequest, gpu: CudaStream, tmp_path: Path) -> Iterator[Nic]:
    """A NIC, stepped or live; it is closed before the stream is."""
    with ExitStack() as stack:
        if request.param == "live":
            instance = stack.enter_context(live_nics("gpu", tmp_path))
            yield stack.enter_context(open_nic(instance.nics[0].socket))
        else:
            simulation = Simulation([NicConfig("compute0", "127.0.1.1")])
            yield stack.enter_context(Nic(simulation.open_nic("compute0")))


def test_totals_stored_by_the_gpu_count_and_fire(nic: Nic, gpu: CudaStream) -> None:
    produced, done = nic.counters("produced", "done")
    with nic.program("behind the GPU") as program:
        program.when(produced >= 3).add(done)
    program.arm()
    produced.trigger_after(gpu)
    produced.trigger_after(gpu, by=2)
    gpu.synchronize()
    nic.connection.notify()
    done.wait(1)
    assert (produced.success, done.success) == (3, 1)


def test_the_gpu_goes_on_when_the_counter_gets_there(nic: Nic, gpu: CudaStream) -> None:
    landed, after = nic.counters("landed", "after")
    landed.wait_on(gpu, 2)
    after.trigger_after(gpu)
    nic.connection.notify()
    landed.add(1)
    assert after.success == 0
    landed.add(1)
    gpu.synchronize()
    nic.connection.notify()
    after.wait(1)
    assert after.success == 1


def test_a_gpu_that_waits_goes_on_when_the_counter_has_an_error(nic: Nic, gpu: CudaStream) -> None:
    """cuStreamWaitValue64 compares as numbers with a sign: (int64_t)(*addr - value) >= 0."""
    landed, after = nic.counters("landed", "after")
    landed.wait_on(gpu, 1)
    after.trigger_after(gpu)
    assert after.success == 0
    landed.add(0, errors=1)
    gpu.synchronize()
    nic.connection.notify()
    after.wait(1)
    assert (landed.success, landed.errors) == (0, 1)


def test_streams_of_one_process_ring_one_nic(nic: Nic, gpu: CudaStream) -> None:
    (produced,) = nic.counters("produced")
    other = CudaStream()
    for one in (gpu, other, gpu):
        produced.trigger_after(one)
    other.synchronize()
    other.close()
    gpu.synchronize()
    nic.connection.notify()
    produced.wait(3)
    assert produced.success == 3
