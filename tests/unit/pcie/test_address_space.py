# SPDX-License-Identifier: Apache-2.0
"""Bus addresses: windows do not overlap, a transfer lies inside one of them, and its bytes are counted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.pcie import AddressSpace, Backing, Window

GUARD = b"\xa5" * 16


@dataclass
class Guarded:
    """A window of 96 bytes in the middle of an address range; the bytes around its middle part are guards."""

    space: AddressSpace
    window: Window

    def guards_hold(self) -> bool:
        view = self.window.backing.view
        return bytes(view[:16]) == GUARD and bytes(view[80:]) == GUARD


@pytest.fixture
def guarded() -> Guarded:
    space = AddressSpace()
    window = space.add(0x1000, "nic", Backing.anonymous(96))
    window.backing.view[:16] = GUARD
    window.backing.view[80:] = GUARD
    return Guarded(space, window)


def test_a_write_lands_in_its_bytes_and_in_no_others(guarded: Guarded) -> None:
    guarded.space.write(0x1010, bytes(range(64)), "rdma")
    assert guarded.space.read(0x1010, 64) == bytes(range(64))
    assert guarded.guards_hold()
    assert guarded.space.read(0x1010 + 63, 1) == b"\x3f"


def test_a_view_is_the_memory_itself(guarded: Guarded) -> None:
    view = guarded.space.view(0x1020, 4)
    view[:] = b"abcd"
    assert guarded.space.read(0x1020, 4) == b"abcd"
    assert len(view) == 4
    assert guarded.guards_hold()


@pytest.mark.parametrize(
    ("address", "length", "message"),
    [
        (0x0FFF, 1, "no memory is mapped at bus address 0xfff"),
        (0x0FFF, 2, "no memory is mapped at bus address 0xfff"),
        (0x105F, 2, r"\[0x105f, 0x1061\) ends outside its window \[0x1000, 0x1060\)"),
        (0x1000, 97, r"\[0x1000, 0x1061\) ends outside its window"),
        (0x1060, 1, "no memory is mapped at bus address 0x1060"),
        (0x1061, 0, "no memory is mapped at bus address 0x1061"),
        (0x1000, -1, "a range of -1 bytes at 0x1000 cannot be accessed"),
        (0, 1 << 64, "no memory is mapped at bus address 0x0"),
    ],
)
def test_a_range_that_is_not_inside_one_window_is_refused_and_no_byte_moves(
    guarded: Guarded, address: int, length: int, message: str
) -> None:
    before = bytes(guarded.window.backing.view)
    with pytest.raises(UsageError, match=message):
        guarded.space.view(address, length, "rdma")
    if 0 <= length < 1000:
        with pytest.raises(UsageError, match=message):
            guarded.space.write(address, bytes(length), "rdma")
    assert bytes(guarded.window.backing.view) == before
    assert not guarded.space.traffic


@pytest.mark.parametrize("address", [0x1000, 0x1030, 0x1060])
def test_a_range_without_bytes_lies_inside_a_window_up_to_its_end(guarded: Guarded, address: int) -> None:
    assert len(guarded.space.view(address, 0)) == 0


def test_a_range_may_not_run_from_one_window_into_the_next() -> None:
    space = AddressSpace()
    space.add(0x1000, "nic", Backing.anonymous(0x100))
    space.add(0x1100, "host", Backing.anonymous(0x100))
    assert space.find(0x10FF, 1).kind == "nic"
    assert space.find(0x1100, 1).kind == "host"
    with pytest.raises(UsageError, match="ends outside its window"):
        space.view(0x10FF, 2)


def test_traffic_is_counted_by_initiator_and_kind_of_memory() -> None:
    space = AddressSpace()
    space.add(0x1000, "nic", Backing.anonymous(0x100))
    space.add(0x2000, "host", Backing.anonymous(0x100))
    space.write(0x1000, bytes(10), "nvme")
    space.read(0x1000, 7, "rdma")
    space.view(0x1000, 5, "nvme")
    space.read(0x2000, 3, "rdma")
    space.read(0x2000, 100)
    assert dict(space.traffic) == {("nvme", "nic"): 15, ("rdma", "nic"): 7, ("rdma", "host"): 3}


@pytest.mark.parametrize(
    ("address", "length"), [(0x0F01, 0x100), (0x1000, 0x100), (0x10FF, 1), (0x1050, 4), (0, 0x3000)]
)
def test_a_window_that_overlaps_another_is_refused_and_nothing_is_mapped(address: int, length: int) -> None:
    space = AddressSpace()
    first = space.add(0x1000, "nic", Backing.anonymous(0x100))
    with pytest.raises(UsageError, match="overlaps another one"):
        space.add(address, "host", Backing.anonymous(length))
    assert space.find(0x1000, 0x100) is first
    for edge in (0x0FFF, 0x1100):
        with pytest.raises(UsageError):
            space.find(edge, 1)


@pytest.mark.parametrize("address", [-1, (1 << 64) - 0xFF])
def test_a_window_outside_64_bit_addresses_is_refused(address: int) -> None:
    with pytest.raises(UsageError, match="not a range of 64-bit addresses"):
        AddressSpace().add(address, "nic", Backing.anonymous(0x100))


def test_the_last_window_of_the_address_range_can_be_used_to_its_end() -> None:
    space = AddressSpace()
    space.add((1 << 64) - 0x100, "nic", Backing.anonymous(0x100))
    space.write((1 << 64) - 1, b"x")
    assert space.read((1 << 64) - 0x100, 0x100) == bytes(255) + b"x"


def test_addresses_of_a_removed_window_mean_nothing_and_can_be_mapped_again(guarded: Guarded) -> None:
    guarded.space.remove(guarded.window)
    with pytest.raises(UsageError, match="no memory is mapped"):
        guarded.space.read(0x1000, 1)
    again = guarded.space.add(0x1000, "host", Backing.anonymous(8))
    assert guarded.space.find(0x1000, 8) is again


actions = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove", "find", "find"]), st.integers(0, 60), st.integers(0, 12)
    ),
    max_size=40,
)


@settings(derandomize=True, deadline=None)
@given(actions)
def test_the_address_space_does_what_a_list_of_ranges_does(steps: list[tuple[str, int, int]]) -> None:
    space = AddressSpace()
    model: list[Window] = []
    for action, address, length in steps:
        end = address + length
        if action == "add" and length:
            overlaps = any(address < w.bus_address + w.length_bytes and w.bus_address < end for w in model)
            backing = Backing.anonymous(length)
            if overlaps:
                with pytest.raises(UsageError):
                    space.add(address, "nic", backing)
            else:
                model.append(space.add(address, "nic", backing))
        elif action == "remove" and model:
            space.remove(model.pop(address % len(model)))
        elif action == "find":
            holding = [w for w in model if w.bus_address <= address and end <= w.bus_address + w.length_bytes]
            if holding:
                assert space.find(address, length) in holding
            else:
                with pytest.raises(UsageError):
                    space.find(address, length)
