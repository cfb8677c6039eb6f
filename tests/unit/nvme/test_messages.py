# SPDX-License-Identifier: Apache-2.0
"""Interrupt messages of a controller: stored where they are told, pending while masked."""

from __future__ import annotations

import pytest

from nicemu.errors import UsageError
from nicemu.nvme import MessageTable
from nicemu.pcie import AddressSpace, Backing

NIC, PAGE = 0x1000, 4096


@pytest.fixture
def memory() -> AddressSpace:
    space = AddressSpace()
    space.add(NIC, "nic", Backing.anonymous(PAGE))
    return space


def words(memory: AddressSpace) -> list[int]:
    return [int.from_bytes(memory.read(NIC + 4 * place, 4), "little") for place in range(4)]


def test_a_message_stores_its_32_bits_and_touches_nothing_beside(memory: AddressSpace) -> None:
    table = MessageTable(memory, 2)
    memory.write(NIC, b"\xa5" * 16)
    table.set_message(1, NIC + 4, 0x1_DEAD_BEEF)
    assert words(memory) == [0xA5A5A5A5] * 4
    table.send([1])
    assert words(memory) == [0xA5A5A5A5, 0xDEADBEEF, 0xA5A5A5A5, 0xA5A5A5A5]


def test_a_masked_vector_is_pending_until_it_is_set_and_stores_once(memory: AddressSpace) -> None:
    table = MessageTable(memory, 2)
    table.set_message(0, NIC, 1)
    table.mask(0)
    table.send([0, 0])
    assert words(memory)[0] == 0
    table.set_message(0, NIC + 8, 2)
    assert words(memory) == [0, 0, 2, 0]
    memory.write(NIC, bytes(16))
    table.set_message(0, NIC, 3)
    assert words(memory) == [0] * 4


@pytest.mark.parametrize(
    ("vector", "address"), [(2, NIC), (-1, NIC), (0, NIC + 2), (0, NIC + PAGE), (0, 0x9999_0000)]
)
def test_what_no_message_can_be_is_refused(memory: AddressSpace, vector: int, address: int) -> None:
    table = MessageTable(memory, 2)
    with pytest.raises(UsageError):
        table.set_message(vector, address, 1)
    table.send([0, 1])
    assert words(memory) == [0] * 4
