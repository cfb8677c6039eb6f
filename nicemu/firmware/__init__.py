# SPDX-License-Identifier: Apache-2.0
"""What NIC programs are written against: coroutines on the NIC's own scheduler, and the `nic` object.

A script decorates coroutines with `@on_event` (match-action events), `@on_arrival` (a peer's RDMA) and
`@on_start`, and awaits counters, completions and delays. It is loaded by path (`nicemu flash firmware/x.py`).
"""

from nicemu.pipeline import HOST_PORT, HeaderValue, Varbits, extern

from .card import Buffer, Card, CompletionError, LandingSlot
from .core import FirmwareOverrun, FirmwareTimeout, HookError, Scheduler, Signal, Task, place_of
from .counted_queue import CountedQueue
from .events import Arrival, Connection, Event
from .loader import FirmwareError, load_firmware, read_externs
from .nic_api import Mailbox, Nic, NicCounter
from .registry import Registry, on_arrival, on_connect, on_disconnect, on_event, on_start, on_trigger

__all__ = [
    "HOST_PORT",
    "Arrival",
    "Buffer",
    "Card",
    "CompletionError",
    "Connection",
    "CountedQueue",
    "Event",
    "FirmwareError",
    "FirmwareOverrun",
    "FirmwareTimeout",
    "HeaderValue",
    "HookError",
    "LandingSlot",
    "Mailbox",
    "Nic",
    "NicCounter",
    "Registry",
    "Scheduler",
    "Signal",
    "Task",
    "Varbits",
    "extern",
    "load_firmware",
    "on_arrival",
    "on_connect",
    "on_disconnect",
    "on_event",
    "on_start",
    "on_trigger",
    "place_of",
    "read_externs",
]
