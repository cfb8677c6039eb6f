# SPDX-License-Identifier: Apache-2.0
"""A P4 program by itself, without a NIC: on one packet, on captures, on interfaces of this machine.

The engine is the pipeline's, tables come from a file or over P4Runtime.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .byte_changes import ByteChange, byte_changes, change_lines
from .captures import require_readable, switch_captures
from .forwarding import HOST, Forwarder, Hear, Summary
from .meter_text import meter_json
from .remote_tables import Applied, apply_tables, save_tables
from .shared_engine import SharedEngine
from .state_file import state_of, writing_state
from .table_file import put_tables

if TYPE_CHECKING:
    from .live import LiveSwitch, open_port

__all__ = [
    "HOST",
    "Applied",
    "ByteChange",
    "Forwarder",
    "Hear",
    "LiveSwitch",
    "SharedEngine",
    "Summary",
    "apply_tables",
    "byte_changes",
    "change_lines",
    "meter_json",
    "open_port",
    "put_tables",
    "require_readable",
    "save_tables",
    "state_of",
    "switch_captures",
    "writing_state",
]


def __getattr__(name: str) -> object:
    """Load what needs ports when it is used: they take long to import."""
    if name not in ("LiveSwitch", "open_port"):
        raise AttributeError(f"nicemu.switch has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(".live", __name__), name)
