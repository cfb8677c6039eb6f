# SPDX-License-Identifier: Apache-2.0
"""Memory of lookup structures: zeros on whole pages, huge ones where it is long."""

from __future__ import annotations

import mmap

import pytest

from nicemu.errors import ResourceError
from nicemu.lookup import Memory
from nicemu.pcie import load_u64, store_u64


@pytest.mark.parametrize("length_bytes", [8, 4096, (1 << 20) - 8, 1 << 20, (2 << 20) + 8, 5 << 20])
def test_memory_has_its_length_in_zeros_and_can_be_written_to_its_end(length_bytes: int) -> None:
    memory = Memory(length_bytes)
    assert len(memory.view) == length_bytes
    assert not any(memory.view)
    store_u64(memory.address, 1)
    store_u64(memory.address + length_bytes - 8, 2)
    assert load_u64(memory.address) == int.from_bytes(memory.view[:8], "little")
    assert memory.view[-8:] == (2).to_bytes(8, "little")
    memory.close()


@pytest.mark.parametrize("length_bytes", [1 << 20, (2 << 20) + 8, 5 << 20])
@pytest.mark.parametrize("more", [0, 4096])
def test_long_memory_begins_at_a_huge_page(
    length_bytes: int, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels place what is a number of huge pages where one begins, but not all do, and nothing else."""
    make = mmap.mmap
    monkeypatch.setattr(mmap, "mmap", lambda number, length, **how: make(number, length + more, **how))
    others = [Memory(length_bytes) for _ in range(3)]
    assert [memory.address % (2 << 20) for memory in others] == [0, 0, 0]
    for memory in others:
        memory.close()


def test_more_than_there_is_room_for_is_refused_with_advice() -> None:
    with pytest.raises(ResourceError, match="declare a smaller size"):
        Memory(1 << 62)
