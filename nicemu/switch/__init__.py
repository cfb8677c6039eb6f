# SPDX-License-Identifier: Apache-2.0
"""A P4 program by itself, without a NIC: on one packet, on captures, on interfaces of this machine.

The engine is the pipeline's, tables come from a file or over P4Runtime.
"""

from .byte_changes import ByteChange, byte_changes, change_lines
from .table_file import put_tables

__all__ = ["ByteChange", "byte_changes", "change_lines", "put_tables"]
