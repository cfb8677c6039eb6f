# SPDX-License-Identifier: Apache-2.0
"""A CUDA stream rings doorbells and waits for counters of a stepped NIC, on a real GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nicemu.errors import NicemuError
from nicemu.host import CudaStream, Nic
from nicemu.nic import NicConfig
from nicemu.run import Simulation

pytestmark = pytest.mark.gpu


@pytest.fixture
def stream() -> Iterator[CudaStream]:
    try:
        stream = CudaStream()
    except NicemuError as error:
        pytest.skip(f"needs a CUDA device: {error}")
    yield stream
    stream.close()


@pytest.fixture
def nic() -> Iterator[Nic]:
    simulation = Simulation([NicConfig("compute0", "127.0.1.1")])
    with Nic(simulation.open_nic("compute0")) as nic:
        yield nic


def test_totals_stored_by_the_gpu_count_and_fire(nic: Nic, stream: CudaStream) -> None:
    produced, done = nic.counters("produced", "done")
    with nic.program("behind the GPU") as program:
        program.when(produced >= 3).add(done)
    program.arm()
    produced.trigger_after(stream)
    produced.trigger_after(stream, by=2)
    stream.synchronize()
    nic.connection.notify()
    assert (produced.success, done.success) == (3, 1)


def test_the_gpu_goes_on_when_the_counter_gets_there(nic: Nic, stream: CudaStream) -> None:
    landed, after = nic.counters("landed", "after")
    landed.wait_on(stream, 2)
    after.trigger_after(stream)
    nic.connection.notify()
    landed.add(1)
    assert after.success == 0
    landed.add(1)
    stream.synchronize()
    nic.connection.notify()
    assert after.success == 1
