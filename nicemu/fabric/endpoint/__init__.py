# SPDX-License-Identifier: Apache-2.0
"""A NIC at the end of an Ethernet link, as small as it can be: engine, memory, rdma_cm, ARP and ping."""

from .endpoint import RoceEndpoint
from .memory import RegisteredMemory, RegisteredRegion

__all__ = ["RegisteredMemory", "RegisteredRegion", "RoceEndpoint"]
