# SPDX-License-Identifier: Apache-2.0
"""What a CUDA stream asks of the driver, with a driver that notes it down. The real one: tests/gpu."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import cffi
import pytest

from nicemu.errors import NicemuError, UsageError
from nicemu.host import CudaStream, Nic
from nicemu.host.cuda_stream import _FUNCTIONS
from nicemu.nic import NicConfig
from nicemu.pcie import load_u64, store_u64
from nicemu.run import Simulation

GPU_VIEW = 0x7000_0000_0000
"""Added to a host address, where this driver's GPU sees it."""


class Driver:
    """Carries stores out at once, as a GPU whose stream is empty; `fails` names a call that does not work."""

    def __init__(self, ffi: Any) -> None:  # noqa: ANN401
        self.ffi = ffi
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self.able, self.context, self.fails = 1, 0, ""
        self.waits: list[tuple[int, int, int]] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*operands: Any) -> int:  # noqa: ANN401
            self.calls.append((name, tuple(each for each in operands if isinstance(each, int))))
            if name == self.fails:
                return 801
            function = getattr(self, "do_" + name, None)
            if function is not None:
                function(*operands)
            return 0

        return call

    def do_cuCtxGetCurrent(self, context: Any) -> None:  # noqa: ANN401, N802
        context[0] = self.ffi.cast("CUcontext", self.context)

    def do_cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> None:  # noqa: ANN401, N802
        context[0] = self.ffi.cast("CUcontext", 0x77)

    def do_cuDeviceGetAttribute(self, value: Any, attribute: int, device: int) -> None:  # noqa: ANN401, N802
        value[0] = self.able if attribute == 122 else 0

    def do_cuGetErrorString(self, result: int, text: Any) -> None:  # noqa: ANN401, N802
        self.text = self.ffi.new("char[]", b"operation not supported")
        text[0] = self.text

    def do_cuMemHostGetDevicePointer_v2(self, pointer: Any, address: Any, flags: int) -> None:  # noqa: ANN401, N802
        pointer[0] = int(self.ffi.cast("uintptr_t", address)) + GPU_VIEW

    def do_cuStreamWriteValue64_v2(self, stream: Any, address: int, value: int, flags: int) -> None:  # noqa: ANN401, N802
        store_u64(address - GPU_VIEW, value)

    def do_cuStreamWaitValue64_v2(self, stream: Any, address: int, value: int, flags: int) -> None:  # noqa: ANN401, N802
        self.waits.append((address - GPU_VIEW, value, flags))

    def named(self, name: str) -> list[tuple[int, ...]]:
        """Whole-number operands of each call of that name."""
        return [operands for called, operands in self.calls if called == name]


@pytest.fixture
def driver() -> Driver:
    ffi = cffi.FFI()
    ffi.cdef(_FUNCTIONS)
    return Driver(ffi)


def stream_on(driver: Driver, stream: object = 0x55) -> CudaStream:
    return CudaStream(stream, library=(driver.ffi, driver))


def test_a_ring_is_a_store_by_the_gpu_of_the_absolute_total(driver: Driver) -> None:
    simulation = Simulation([NicConfig("compute0", "127.0.1.1")])
    with Nic(simulation.open_nic("compute0")) as nic:
        (produced,) = nic.counters("produced")
        stream = stream_on(driver)
        produced.trigger_after(stream)
        produced.trigger_after(stream, by=4)
        simulation.run_until_idle()
        assert produced.success == 5
        values = [operands[1] for operands in driver.named("cuStreamWriteValue64_v2")]
        assert values == [1, 5]
        assert len(driver.named("cuMemHostRegister_v2")) == 1, "the BAR is mapped once"
        stream.close()
        assert len(driver.named("cuMemHostUnregister")) == 1


def test_a_wait_compares_the_write_back_word_and_its_valid_bit(driver: Driver) -> None:
    """GEQ, so that an error (bits 48 and up) lets the stream go on, too."""
    simulation = Simulation([NicConfig("compute0", "127.0.1.1")])
    with Nic(simulation.open_nic("compute0")) as nic:
        (landed,) = nic.counters("landed")
        landed.wait_on(stream_on(driver), 3)
        ((address, value, flags),) = driver.waits
        assert (value, flags) == (1 << 63 | 3, 0)
        landed.add(2)
        assert load_u64(address) < value
        landed.add(1)
        assert load_u64(address) >= value
        landed.set(0)
        assert load_u64(address) < value
        landed.add(0, errors=1)
        assert load_u64(address) >= value


def test_two_streams_share_what_the_driver_maps_until_the_last_is_closed(driver: Driver) -> None:
    simulation = Simulation([NicConfig("compute0", "127.0.1.1")])
    with Nic(simulation.open_nic("compute0")) as nic:
        (produced,) = nic.counters("produced")
        one, other = stream_on(driver), stream_on(driver)
        produced.trigger_after(one)
        produced.trigger_after(other)
        assert len(driver.named("cuMemHostRegister_v2")) == 1
        one.close()
        assert not driver.named("cuMemHostUnregister")
        produced.trigger_after(other)
        simulation.run_until_idle()
        assert produced.success == 3
        other.close()
        assert len(driver.named("cuMemHostUnregister")) == 1


def test_kernels_see_memory_of_the_nic_where_the_driver_maps_it(driver: Driver) -> None:
    simulation = Simulation([NicConfig("compute0", "127.0.1.1")])
    with Nic(simulation.open_nic("compute0")) as nic:
        memory, stream = nic.allocate((4, 256)), stream_on(driver)
        for _ in range(2):
            assert stream.device_array(memory).__cuda_array_interface__ == {
                "shape": (4, 256),
                "typestr": "|u1",
                "data": (memory.array.ctypes.data + GPU_VIEW, False),
                "strides": None,
                "version": 3,
            }
        assert driver.named("cuMemHostRegister_v2") == [(memory.shared.length_bytes, 2)]


def test_other_memory_at_an_address_is_mapped_anew(driver: Driver) -> None:
    simulation = Simulation([NicConfig("compute0", "127.0.1.1")])
    with Nic(simulation.open_nic("compute0")) as nic:
        memory, stream = nic.allocate(4096), stream_on(driver)
        stream.device_array(memory)
        again = replace(
            memory,
            shared=SimpleNamespace(
                **{name: getattr(memory.shared, name) for name in ("view", "address", "length_bytes")}
            ),
        )
        stream.device_array(again)
        assert len(driver.named("cuMemHostUnregister")) == 1
        assert len(driver.named("cuMemHostRegister_v2")) == 2


def test_a_stream_of_its_own_is_made_and_destroyed(driver: Driver) -> None:
    stream = stream_on(driver, None)
    stream.close()
    assert driver.named("cuStreamCreate")
    assert driver.named("cuStreamDestroy_v2")
    assert driver.named("cuDevicePrimaryCtxRetain"), "there was no context"
    driver.calls.clear()
    driver.context = 0x99
    stream_on(driver).close()
    assert not driver.named("cuStreamDestroy_v2"), "it belongs to its owner"
    assert not driver.named("cuDevicePrimaryCtxRetain")


def test_a_stream_object_is_taken_by_its_handle(driver: Driver) -> None:
    class Torch:
        cuda_stream = 0x1234

    class Cupy:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 0x4321

    assert stream_on(driver, Torch()).handle == 0x1234
    assert stream_on(driver, Cupy()).__cuda_stream__() == (0, 0x4321)
    with pytest.raises(UsageError, match="is no CUDA stream"):
        stream_on(driver, "default")


def test_submitted_work_gets_the_handle_and_its_result_comes_with_synchronize(driver: Driver) -> None:
    stream = stream_on(driver)
    stream.submit(lambda handle: handle + 1)
    assert stream.synchronize() == [0x56]
    assert stream.synchronize() == []


def test_a_gpu_without_stream_memory_operations_is_refused(driver: Driver) -> None:
    driver.able = 0
    with pytest.raises(NicemuError, match="no 64-bit stream memory operations"):
        stream_on(driver)


def test_a_refusal_of_the_driver_is_told_in_its_words(driver: Driver) -> None:
    stream = stream_on(driver)
    driver.fails = "cuStreamSynchronize"
    with pytest.raises(NicemuError, match="cuStreamSynchronize: operation not supported"):
        stream.synchronize()
