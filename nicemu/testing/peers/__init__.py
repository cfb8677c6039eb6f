# SPDX-License-Identifier: Apache-2.0
"""Programs that play the other side of well-known RDMA programs, on a NIC with nicemu's own RoCEv2 engine.

Sources: rping(1); perftest(1).
"""

from .application import Application, PeerServer, Totals
from .perftest import PERFTEST_PORT, PERFTEST_PROGRAMS, PerftestServer
from .perftest_client import PERFTEST_CLIENTS, PerftestClient
from .rping import RPING_PORT, RpingServer
from .rping_client import RpingClient

__all__ = [
    "PERFTEST_CLIENTS",
    "PERFTEST_PORT",
    "PERFTEST_PROGRAMS",
    "RPING_PORT",
    "Application",
    "PeerServer",
    "PerftestClient",
    "PerftestServer",
    "RpingClient",
    "RpingServer",
    "Totals",
]
