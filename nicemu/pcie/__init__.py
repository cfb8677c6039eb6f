# SPDX-License-Identifier: Apache-2.0
"""What a bus address means and who may touch it: address space, backings, and the atomics of shared memory.

Specification: PCI Express Base Specification, "Memory, I/O, and Configuration Request Rules" (peer-to-peer
routing by address).
"""

from .address_space import AddressSpace, Window
from .atomics import (
    compare_swap_u64,
    copy_memory,
    exchange_u64,
    fetch_add_u64,
    load_u32,
    load_u64,
    monotonic_ns,
    nap_us,
    signal_eventfd,
    store_u32,
    store_u64,
)
from .backing import PAGE_BYTES, Backing

__all__ = [
    "PAGE_BYTES",
    "AddressSpace",
    "Backing",
    "Window",
    "compare_swap_u64",
    "copy_memory",
    "exchange_u64",
    "fetch_add_u64",
    "load_u32",
    "load_u64",
    "monotonic_ns",
    "nap_us",
    "signal_eventfd",
    "store_u32",
    "store_u64",
]
