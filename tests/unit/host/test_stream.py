# SPDX-License-Identifier: Apache-2.0
"""Streams: what is put in happens in order, and a kernel that fails stops what stands behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nicemu.errors import NicemuError
from nicemu.host import HostStream, Memory, ProcessStream
from nicemu.pcie import Backing, load_u64

KERNELS = """
class Kernels:
    def __init__(self, array, step):
        self.array = array
        self.step = step

    def fill(self, value):
        self.array[...] = value * self.step
        return int(self.array.sum())

    def fail(self):
        raise ArithmeticError("no such number")

def kernels(memory, *, step):
    return Kernels(memory["kv"], step)
"""


@pytest.fixture(
    params=[HostStream, pytest.param(ProcessStream, marks=pytest.mark.process)],
    ids=["thread", "process"],
)
def stream(request: pytest.FixtureRequest) -> Iterator[Any]:
    stream = request.param()
    yield stream
    stream.close()


@pytest.fixture
def memory() -> Memory:
    backing = Backing.memfd("nicemu-test", 4096)
    return Memory(np.frombuffer(backing.view, np.float32, 16).reshape(4, 4), 0x1000, backing)


@pytest.fixture
def loaded(stream: Any, memory: Memory, tmp_path: Path) -> Callable[[], Any]:  # noqa: ANN401
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    stream.load(path, {"kv": memory}, step=2)
    return lambda: stream


def test_kernels_work_in_the_memory_they_are_given_and_return_in_order(
    loaded: Callable[[], Any], memory: Memory
) -> None:
    stream = loaded()
    stream.launch("fill", value=1)
    stream.launch("fill", value=3)
    assert stream.synchronize() == [2 * 16, 6 * 16]
    assert (memory.array == 6).all()
    assert stream.synchronize() == []


def test_a_store_happens_behind_the_kernels_before_it(loaded: Callable[[], Any]) -> None:
    stream = loaded()
    doorbells = Backing.memfd("nicemu-test", 4096)
    for total in (1, 2, 3):
        stream.launch("fill", value=total)
        stream.store(doorbells, 64, total)
    stream.synchronize()
    assert load_u64(doorbells.address + 64) == 3


def test_a_kernel_that_fails_stops_what_stands_behind_it(loaded: Callable[[], Any]) -> None:
    stream = loaded()
    doorbells = Backing.memfd("nicemu-test", 4096)
    stream.launch("fill", value=1)
    stream.launch("fail")
    stream.store(doorbells, 0, 9)
    with pytest.raises(NicemuError, match=r"a kernel failed: .*ArithmeticError: no such number"):
        stream.synchronize()
    assert load_u64(doorbells.address) == 0, "a doorbell rang for work that failed"
    stream.launch("fill", value=2)
    assert stream.synchronize()[-1] == 4 * 16


def test_an_addition_happens_once_it_is_carried_out(loaded: Callable[[], Any]) -> None:
    stream = loaded()
    doorbells = Backing.memfd("nicemu-test", 4096)
    stream.add_value(doorbells, 8, 2)
    stream.launch("fail")
    stream.add_value(doorbells, 8, 100)
    with pytest.raises(NicemuError, match="a kernel failed"):
        stream.synchronize()
    stream.add_value(doorbells, 8, 3)
    stream.synchronize()
    assert load_u64(doorbells.address + 8) == 5


def test_what_stands_behind_a_wait_that_is_not_met_is_dropped_at_the_end(loaded: Callable[[], Any]) -> None:
    stream = loaded()
    doorbells = Backing.memfd("nicemu-test", 4096)
    stream.wait_value(doorbells, 0, 1)
    stream.add_value(doorbells, 8, 1)
    stream.close()
    assert load_u64(doorbells.address + 8) == 0


@pytest.mark.process
def test_the_process_ends_by_itself_in_a_wait_that_is_not_met() -> None:
    stream = ProcessStream()
    doorbells = Backing.memfd("nicemu-test", 4096)
    stream.wait_value(doorbells, 0, 1)
    stream.add_value(doorbells, 8, 1)
    stream.close()
    assert stream._process.returncode == 0, "it had to be killed"
