# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of work."""

from __future__ import annotations

from nicemu.abi import Access, Opcode, Sge, WorkRequest


def test_the_length_of_a_work_request_is_that_of_its_local_pieces() -> None:
    assert WorkRequest(Opcode.RDMA_WRITE).length_bytes == 0
    assert WorkRequest(Opcode.RDMA_WRITE, (Sge(0, 5, 1), Sge(100, 7, 2))).length_bytes == 12


def test_rights_of_a_region_are_independent_bits_and_reading_locally_needs_none() -> None:
    """ibv_reg_mr(3): local read access is always enabled."""
    assert [int(right) for right in Access] == [1, 2, 4, 8]
    assert int(Access.LOCAL_READ) == 0
