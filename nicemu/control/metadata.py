# SPDX-License-Identifier: Apache-2.0
"""What a controller wants to find again with an entry. Source: P4Runtime Specification 1.4, "TableEntry"."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from .messages import Message


@dataclass(frozen=True, slots=True)
class Metadata:
    """What stands with an entry, and means something to its controller alone."""

    controller_metadata: int = 0
    metadata: bytes = b""


def note_of(message: Message) -> Metadata | None:
    """Return the metadata of a TableEntry, None where it has none."""
    if not message.metadata and not message.controller_metadata:
        return None
    return Metadata(message.controller_metadata, message.metadata)


def fill_note(message: Message, note: Hashable) -> None:
    """Set the metadata of a TableEntry."""
    if isinstance(note, Metadata):
        message.controller_metadata, message.metadata = note.controller_metadata, note.metadata
