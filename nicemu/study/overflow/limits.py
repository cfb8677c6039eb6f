# SPDX-License-Identifier: Apache-2.0
"""What a serving engine's scheduler may use: blocks of KV memory, prompt tokens in a prefill, sequences."""

from __future__ import annotations

from dataclasses import dataclass

from nicemu.errors import UsageError

from .sequence import Request


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a scheduler. vLLM's names for them are in docs/overflow.md.

    A sequence that decodes holds blocks for `lookahead_tokens` beyond the token that it writes. A sequence is
    let in if `watermark` of the blocks, a share, stay free. It never has more than `context_tokens`.
    """

    blocks: int
    block_tokens: int = 16
    prompt_budget_tokens: int = 65_536
    max_sequences: int = 256
    watermark: float = 0.01
    lookahead_tokens: int = 1
    context_tokens: int = 65_536

    def blocks_of(self, tokens: int) -> int:
        """Return how many blocks so many tokens need."""
        return -(-tokens // self.block_tokens)

    def blocks_to_decode(self, tokens: int) -> int:
        """Return how many blocks a sequence of so many tokens holds when it decodes."""
        return self.blocks_of(tokens + self.lookahead_tokens)

    @property
    def watermark_blocks(self) -> int:
        """Blocks that stay free when a sequence is let in."""
        return int(self.blocks * self.watermark)

    def check_fits(self, request: Request) -> None:
        """Raise UsageError if a request can never be served: it would wait, or be preempted, for ever."""
        told = (
            f"request {request.number} has {request.prompt_tokens:,} tokens of prompt and "
            f"{request.output_tokens:,} of output"
        )
        if request.tokens > self.context_tokens:
            raise UsageError(
                f"{told}; the model's context has {self.context_tokens:,} tokens (model.context_tokens)"
            )
        needed = self.blocks_to_decode(request.tokens - 1)
        if needed > self.blocks:
            raise UsageError(
                f"{told}, {needed:,} blocks of {self.block_tokens:,} tokens; the KV memory has "
                f"{self.blocks:,}: it never fits"
            )
        if request.tokens > self.prompt_budget_tokens:
            raise UsageError(
                f"{told}; a prefill takes {self.prompt_budget_tokens:,} tokens at most "
                "(prompt_budget_tokens), and if it is preempted late it has to prefill almost all of them"
            )
