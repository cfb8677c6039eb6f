# SPDX-License-Identifier: Apache-2.0
"""The error state, which either half of a queue pair may bring it to.

Source: InfiniBand Architecture Specification Volume 1, "Queue Pair State Machine", "Error State".
"""

from __future__ import annotations

from nicemu.hot import Int, cold

from .responder_lists import flush_responder
from .roce_state import ERR, SQE, RoceState
from .send_queue import flush_requester


@cold
def enter_error(state: RoceState, index: Int) -> None:
    """Move a queue pair to ERR and flush both its queues; answers that are due are still sent."""
    pair = state.queue_pairs[index]
    pair.state = ERR
    flush_requester(state, pair)
    flush_responder(state, pair)


@cold
def enter_send_error(state: RoceState, index: Int) -> None:
    """Move a queue pair of datagrams to SQE and flush its send queue; it still receives."""
    pair = state.queue_pairs[index]
    pair.state = SQE
    flush_requester(state, pair)
    pair.send_psn = pair.unanswered_psn = pair.sent_end_psn = pair.next_psn
