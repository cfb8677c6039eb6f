# SPDX-License-Identifier: Apache-2.0
"""What is known of `cxi`, which nobody here has, as far as its manual page and public sources say it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from nicemu.abi import Opcode
from nicemu.errors import ResourceError
from nicemu.fabric.libfabric import abi as fi
from nicemu.fabric.libfabric.abi import Libfabric, load_libfabric
from nicemu.fabric.libfabric.domain import _ACCESS, _MR_MODES, _ORDER
from nicemu.fabric.libfabric.provider import CXI, SOCKETS, provider_named
from nicemu.fabric.libfabric.target import _limits


@pytest.fixture
def lib() -> Libfabric:
    try:
        return load_libfabric()
    except ResourceError as error:
        pytest.skip(str(error))


@dataclass
class CxiDomain:
    """What a `cxi` domain says of itself."""

    slots: int | None = None
    counter_count: int = 16
    local_pieces: int = 1
    max_message_bytes: int = (1 << 32) - 1

    def deferred_count(self) -> int | None:
        return self.slots


def test_the_counters_that_cxi_tells_of_are_no_limit() -> None:
    assert _limits(CXI, CxiDomain(), {}).counter_count == 2046  # type: ignore[arg-type]
    assert _limits(SOCKETS, CxiDomain(), {}).counter_count == 14  # type: ignore[arg-type]


@pytest.mark.parametrize(("says", "slots"), [(None, 504), (56, 56), (2040, 2040), (1 << 63, 2048)])
def test_the_share_of_trigger_slots_is_what_the_service_has(says: int | None, slots: int) -> None:
    assert _limits(CXI, CxiDomain(says), {}).host_slots == slots  # type: ignore[arg-type]


def test_a_wait_takes_no_slot_because_it_polls() -> None:
    assert not CXI.limits.waits_take_slots


def test_cxi_takes_no_write_with_immediate() -> None:
    assert {Opcode.RDMA_WRITE_WITH_IMM} == CXI.lacks
    assert provider_named("CXI") is CXI


def test_the_modes_of_registration_that_cxi_asks_for_are_offered() -> None:
    assert _MR_MODES & fi.MR_ENDPOINT
    assert _MR_MODES & fi.MR_ALLOCATED
    assert _MR_MODES & fi.MR_PROV_KEY


def test_memory_is_registered_for_remote_reads_and_writes() -> None:
    assert _ACCESS & fi.REMOTE_READ
    assert _ACCESS & fi.REMOTE_WRITE


def test_the_order_that_is_asked_for_is_one_that_cxi_has() -> None:
    cxi = fi.ORDER_SAS | fi.ORDER_WAW | fi.ORDER_RMA_WAW | fi.ORDER_ATOMIC_WAW
    assert _ORDER & ~cxi == 0
    assert _ORDER & fi.ORDER_RMA_WAW


def test_structures_lie_as_the_public_headers_of_64_bit_machines_have_them(lib: Libfabric) -> None:
    places = {
        ("struct fi_ops", "ops_open"): 32,
        ("struct fi_cxi_dom_ops", "get_dwq_depth"): 32,
        ("struct fi_ep_attr", "max_msg_size"): 16,
        ("struct fi_ep_attr", "mem_tag_format"): 56,
        ("struct fi_rx_attr", "msg_order"): 24,
        ("struct fi_tx_attr", "msg_order"): 24,
        ("struct fi_info", "rx_attr"): 80,
        ("struct fi_domain_attr", "mr_mode"): 36,
        ("struct fi_domain_attr", "cntr_cnt"): 120,
    }
    assert {place: lib.ffi.offsetof(*place) for place in places} == places
