# SPDX-License-Identifier: Apache-2.0
"""Every function of nicemu.pcie.atomics: what the Python twin does, the compiled one does."""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nicemu import hot, pcie
from nicemu.hot import interpreted

U64_MAX = (1 << 64) - 1
VALUES = [0, 1, 2, 0x7F, 0x80, 0xFFFFFFFF, 1 << 32, 1 << 63, U64_MAX - 1, U64_MAX]
GUARD = 0xA5A5A5A5A5A5A5A5


@hot.hot
def load_u64(address: int) -> object:
    return pcie.load_u64(address)


@hot.hot
def load_u32(address: int) -> object:
    return pcie.load_u32(address)


@hot.hot
def store_u64(address: int, value: int) -> None:
    pcie.store_u64(address, value)


@hot.hot
def store_u32(address: int, value: int) -> None:
    pcie.store_u32(address, value)


@hot.hot
def fetch_add_u64(address: int, value: int) -> object:
    return pcie.fetch_add_u64(address, value)


@hot.hot
def exchange_u64(address: int, value: int) -> object:
    return pcie.exchange_u64(address, value)


@hot.hot
def compare_swap_u64(address: int, expected: int, value: int) -> object:
    return pcie.compare_swap_u64(address, expected, value)


@hot.hot
def copy_memory(target: int, source: int, length_bytes: int) -> None:
    pcie.copy_memory(target, source, length_bytes)


@hot.hot
def monotonic_ns(scratch: int) -> object:
    return pcie.monotonic_ns(scratch)


@hot.hot
def nap_us(duration_us: int) -> None:
    pcie.nap_us(duration_us)


@hot.hot
def signal_eventfd(fd: int, one: int) -> None:
    pcie.signal_eventfd(fd, one)


WRAPPED: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        load_u64,
        load_u32,
        store_u64,
        store_u32,
        fetch_add_u64,
        exchange_u64,
        compare_swap_u64,
        copy_memory,
        monotonic_ns,
        nap_us,
        signal_eventfd,
    )
}


def chosen(name: str, compiled: bool) -> Callable[..., Any]:
    """Return one of the two ways to run an intrinsic."""
    return WRAPPED[name] if compiled else interpreted(WRAPPED[name])


def test_every_intrinsic_of_the_door_is_in_this_contract() -> None:
    functions = {name for name in pcie.__all__ if callable(getattr(pcie, name)) and name.islower()}
    assert functions == set(WRAPPED)


@pytest.fixture(params=["interpreted", "compiled"])
def call(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call an intrinsic by name, one way or the other; numbers go in as uint64."""
    if request.param == "compiled" and not hot.JIT:
        pytest.skip("NICEMU_JIT=0 turns the compiler off")

    def run(name: str, *operands: int) -> Any:  # noqa: ANN401
        return chosen(name, request.param == "compiled")(*(np.uint64(operand) for operand in operands))

    return run


class Cell:
    """Eight bytes with eight guard bytes on either side."""

    def __init__(self, value: int = 0) -> None:
        self.words = (ctypes.c_uint64 * 3)(GUARD, value, GUARD)
        self.address = ctypes.addressof(self.words) + 8

    @property
    def value(self) -> int:
        return int(self.words[1])

    def guards_hold(self) -> bool:
        return self.words[0] == self.words[2] == GUARD


@pytest.mark.parametrize("value", VALUES)
def test_a_load_returns_what_lies_there(call: Callable[..., Any], value: int) -> None:
    cell = Cell(value)
    assert int(call("load_u64", cell.address)) == value
    assert int(call("load_u32", cell.address)) == value & 0xFFFFFFFF
    assert int(call("load_u32", cell.address + 4)) == value >> 32


@pytest.mark.parametrize("value", VALUES)
def test_a_store_writes_its_bytes_and_no_others(call: Callable[..., Any], value: int) -> None:
    cell = Cell(0x1111111111111111)
    call("store_u64", cell.address, value)
    assert (cell.value, cell.guards_hold()) == (value, True)
    cell = Cell(0x1111111111111111)
    call("store_u32", cell.address + 4, value)
    assert cell.value == (value & 0xFFFFFFFF) << 32 | 0x11111111
    call("store_u32", cell.address, 7)
    assert cell.value == (value & 0xFFFFFFFF) << 32 | 7
    assert cell.guards_hold()


@pytest.mark.parametrize("added", VALUES)
@pytest.mark.parametrize("old", [0, 1, 1 << 63, U64_MAX])
def test_fetch_add_wraps_and_returns_the_old_value(call: Callable[..., Any], old: int, added: int) -> None:
    cell = Cell(old)
    assert int(call("fetch_add_u64", cell.address, added)) == old
    assert cell.value == (old + added) % (1 << 64)
    assert cell.guards_hold()


@pytest.mark.parametrize("value", VALUES)
def test_exchange_stores_and_returns_the_old_value(call: Callable[..., Any], value: int) -> None:
    cell = Cell(77)
    assert int(call("exchange_u64", cell.address, value)) == 77
    assert (cell.value, cell.guards_hold()) == (value, True)


@pytest.mark.parametrize("value", VALUES)
def test_compare_swap_stores_only_on_equality(call: Callable[..., Any], value: int) -> None:
    cell = Cell(value)
    assert int(call("compare_swap_u64", cell.address, value ^ 1, 5)) == value
    assert cell.value == value
    assert int(call("compare_swap_u64", cell.address, value, 5)) == value
    assert (cell.value, cell.guards_hold()) == (5, True)


@pytest.mark.parametrize("negative", [-1, -(1 << 63)])
def test_a_negative_number_means_the_same_64_bits_both_ways(negative: int) -> None:
    if not hot.JIT:
        pytest.skip("NICEMU_JIT=0 turns the compiler off")
    results = []
    for compiled in (True, False):
        cell = Cell(negative % (1 << 64))
        address, value = np.uint64(cell.address), np.int64(negative)
        old = int(chosen("compare_swap_u64", compiled)(address, value, np.int64(negative + 1)))
        before_adding = int(chosen("fetch_add_u64", compiled)(address, value))
        chosen("store_u64", compiled)(np.uint64(cell.address - 8), value)
        results.append((old, before_adding, list(cell.words)))
    assert results[0] == results[1]


def test_copy_memory_moves_overlapping_ranges_as_if_through_a_buffer(call: Callable[..., Any]) -> None:
    for target, source, length in [(0, 8, 24), (8, 0, 24), (4, 4, 16), (1, 0, 31), (0, 1, 31), (16, 0, 0)]:
        memory = bytearray(range(48))
        address = ctypes.addressof((ctypes.c_char * 48).from_buffer(memory))
        expected = bytearray(range(48))
        expected[8 + target : 8 + target + length] = bytes(range(48))[8 + source : 8 + source + length]
        call("copy_memory", address + 8 + target, address + 8 + source, length)
        assert memory == expected


def test_copy_memory_copies_random_ranges_and_nothing_around_them(call: Callable[..., Any]) -> None:
    rng = random.Random(2)
    size = 10_000
    memory = bytearray(rng.randbytes(size))
    address = ctypes.addressof((ctypes.c_char * size).from_buffer(memory))
    model = bytes(memory)
    for _ in range(200):
        length = rng.choice([0, 1, 7, 8, 9, 63, 64, 65, 4096])
        target, source = rng.randrange(size - length + 1), rng.randrange(size - length + 1)
        call("copy_memory", address + target, address + source, length)
        model = model[:target] + model[source : source + length] + model[target + length :]
    assert bytes(memory) == model


def test_monotonic_ns_is_the_clock_of_the_machine(call: Callable[..., Any]) -> None:
    scratch = (ctypes.c_uint64 * 2)()
    before = time.monotonic_ns()
    now = int(call("monotonic_ns", ctypes.addressof(scratch)))
    assert before <= now <= time.monotonic_ns()


def test_a_nap_takes_at_least_its_time(call: Callable[..., Any]) -> None:
    call("nap_us", 0)
    before = time.monotonic_ns()
    call("nap_us", 300)
    assert time.monotonic_ns() - before >= 300_000


@pytest.fixture
def eventfd() -> Iterator[int]:
    fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    yield fd
    os.close(fd)


def test_signalling_an_eventfd_adds_one(call: Callable[..., Any], eventfd: int) -> None:
    one = Cell(1)
    for _ in range(3):
        call("signal_eventfd", eventfd, one.address)
    assert os.eventfd_read(eventfd) == 3
    with pytest.raises(BlockingIOError):
        os.eventfd_read(eventfd)


def test_signalling_an_eventfd_at_its_maximum_is_no_error(call: Callable[..., Any], eventfd: int) -> None:
    one = Cell(1)
    os.eventfd_write(eventfd, U64_MAX - 1)
    call("signal_eventfd", eventfd, one.address)
    assert os.eventfd_read(eventfd) == U64_MAX - 1


def test_what_one_way_stores_the_other_way_loads() -> None:
    cell = Cell()
    for number, value in enumerate(VALUES):
        chosen("store_u64", number % 2 == 0)(np.uint64(cell.address), np.uint64(value))
        assert int(chosen("load_u64", number % 2 == 1)(np.uint64(cell.address))) == value
