# SPDX-License-Identifier: Apache-2.0
"""A request of a trace: when it comes, how long prompt and answer are, and which blocks the prompt has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

BLOCK_TOKENS: Final = 512
"""Tokens of a block that a trace names; the last block of a prompt may have fewer."""


class Request(NamedTuple):
    """One request. `blocks` has a name for each block of the prompt: the same name, the same tokens up to
    the block's end; a name that no other request has cannot be shared.
    """

    arrival_s: float
    input_tokens: int
    output_tokens: int
    blocks: Sequence[int]
    session: str | None = None
    turn: int | None = None

    @property
    def full_blocks(self) -> int:
        """How many blocks are whole: a partial last block is nobody else's prefix."""
        return self.input_tokens // BLOCK_TOKENS


def blocks_in(tokens: int) -> int:
    """Return how many blocks so many tokens lie in, the last one partial or not."""
    return -(-tokens // BLOCK_TOKENS)
