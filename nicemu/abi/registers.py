# SPDX-License-Identifier: Apache-2.0
"""Layout of the memory that a NIC shares, version 1: with each owner (a host process), and with its peers.

An owner maps one BAR of its own, so that no process sees another one's rings or counters. Peers on the same
machine map the public tables (memory regions and queue pairs) and an inbox each. Every word has one writer.
Offsets in bytes.
"""

from __future__ import annotations

MAX_OWNERS = 8
MAX_COUNTERS = 2048
MAX_QUEUE_PAIRS = 256
MAX_REGIONS = 1024
"""Memory regions of a NIC, over all protection domains."""

# One owner's BAR.
IDENTITY = 0x0000
OPENED = 0x0010
"""How often a process had opened the NIC when this one did: no two have the same number."""
DOORBELLS = 0x1000
"""512 cells of 8 bytes; a cell holds the absolute total its one writer has rung."""
DOORBELL_COUNT = 512
DOORBELL_BYTES = 8
TRANSMIT_DOORBELL = 0
"""The cell that says how many packets stand in the transmit ring; the others ring counters. The NIC looks at
no cell past the highest that is open, so low cells are opened first."""
HOST_WORDS = 0x2000
NIC_WORDS = 0x3000
WORD_STRIDE = 64
WORD_COMMANDS, WORD_RESPONSES, WORD_COMPLETIONS, WORD_RECEIVE, WORD_TRANSMIT = 0, 1, 2, 6, 7
"""Word numbers in both pages: the producer's tail in the producer's page, the consumer's head in the
consumer's.
"""
COMMANDS = 0x4000
COMMAND_COUNT = 256
RESPONSES = 0x8000
RESPONSE_COUNT = 256
STAGING = 0x10000
STAGING_COUNT = 4096
"""Armed-work records that one command can refer to."""
COMPLETIONS = 0x90000
QUEUE_COUNT = 4
COMPLETION_COUNT = 1024
WRITE_BACK = 0xD0000
WRITE_BACK_BYTES = 64
RECEIVE_RING = 0xF0000
TRANSMIT_RING = 0x170000
PACKET_COUNT = 256
PACKET_BYTES = 2048
PACKET_HEADER_BYTES = 64
OWNER_BAR_BYTES = 0x1F0000
MAGIC = 0x554D4543494E  # "NICEMU"

# The public tables.
REGION_TABLE = 0x0
REGION_BYTES = 64
QUEUE_PAIR_TABLE = 0x10000
QUEUE_PAIR_BYTES = 64
RECEIVE_QUEUES = 0x20000
RECEIVE_QUEUE_COUNT = 64
RECEIVE_BYTES = 32
TAGGED_RECEIVES = 0xA0000
TAGGED_RECEIVE_COUNT = 64
TAGGED_RECEIVE_BYTES = 64
PUBLIC_BYTES = 0x1A0000

# An inbox: what one peer posts to this NIC.
INBOX_HEAD = 0
INBOX_TAIL = 64
INBOX_BUSY = 128
INBOX_RECORDS = 4096
INBOX_COUNT = 1024
INBOX_RECORD_BYTES = 64
INBOX_BYTES = INBOX_RECORDS + INBOX_COUNT * INBOX_RECORD_BYTES
