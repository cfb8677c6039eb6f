# SPDX-License-Identifier: Apache-2.0
"""A small decoder in NumPy that keeps its keys and values in memory it is given: the stand-in for a GPU's
work.

Llama-shaped: RMSNorm, rotary positions, grouped-query attention, SwiGLU, a separate output head; seeded
weights, so it says nothing sensible, but each logit depends on every cached byte. The cache is an array
`[layer, 2 (K, V), block, token, head, dim]`; with the default sizes a K or V segment is 4096 bytes. Sources:
Zhang and Sennrich, "Root Mean Square Layer Normalization"; Su and others, "RoFormer"; Ainslie and others,
"GQA"; Shazeer, "GLU Variants Improve Transformer".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

BOS = 256
"""The token before the first byte of a session; tokens 0 to 255 are bytes."""


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """Sizes of a decoder: `heads` query heads share `kv_heads` cached ones, `blocks` bounds a session."""

    layers: int = 4
    hidden: int = 128
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    mlp: int = 256
    vocab: int = 257
    block_tokens: int = 16
    blocks: int = 32
    rotary_base: float = 10000.0
    epsilon: float = 1e-5

    @property
    def cache_shape(self) -> tuple[int, int, int, int, int, int]:
        """Shape of the float32 array that caches one session."""
        return (self.layers, 2, self.blocks, self.block_tokens, self.kv_heads, self.head_dim)


class Decoder:
    """Seeded weights and the steps of a forward pass: `start`, then `layer` 0 and up, then `logits`.

    `position` is the count of tokens cached before these. The same tokens, positions and cached bytes give
    the same bits, wherever the cache lies and whether or not it has been elsewhere in between.
    """

    def __init__(self, config: DecoderConfig, seed: int) -> None:
        if config.heads % config.kv_heads or config.head_dim % 2:
            raise ValueError(
                f"{config.heads} heads over {config.kv_heads} cached ones of {config.head_dim} dims; "
                f"the heads must divide evenly and the dims be even"
            )
        self.config = config
        random = np.random.default_rng(seed)

        def matrix(rows: int, columns: int) -> Floats:
            return np.asarray(random.standard_normal((rows, columns)) / np.sqrt(rows), np.float32)

        query, cached = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.embedding = matrix(config.vocab, config.hidden) * np.float32(np.sqrt(config.vocab))
        self.weights = [
            {
                "q": matrix(config.hidden, query),
                "k": matrix(config.hidden, cached),
                "v": matrix(config.hidden, cached),
                "out": matrix(query, config.hidden),
                "gate": matrix(config.hidden, config.mlp),
                "up": matrix(config.hidden, config.mlp),
                "down": matrix(config.mlp, config.hidden),
            }
            for _ in range(config.layers)
        ]
        self.head = matrix(config.hidden, config.vocab)
        frequency = config.rotary_base ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
        angle = np.arange(config.blocks * config.block_tokens)[:, None] * frequency
        self.cosine = np.cos(angle).astype(np.float32)[:, None]
        self.sine = np.sin(angle).astype(np.float32)[:, None]

    def start(self, tokens: Sequence[int], position: int) -> Floats:
        """Return the hidden state `[token, hidden]` of `tokens`. Raises: ValueError if they do not fit."""
        capacity = self.config.blocks * self.config.block_tokens
        if not tokens or not 0 <= position <= capacity - len(tokens):
            raise ValueError(f"{len(tokens)} tokens at {position} do not fit positions 0 to {capacity - 1}")
        return np.asarray(self.embedding[np.asarray(tokens)])

    def layer(self, index: int, hidden: Floats, cache: Floats, position: int) -> Floats:
        """Cache this layer's K and V of the tokens, attend over all positions, return the new state."""
        weights, config = self.weights[index], self.config
        count, end = len(hidden), position + len(hidden)
        normed = self._norm(hidden)
        queries = self._rotate((normed @ weights["q"]).reshape(count, config.heads, -1), position)
        blocks, slots = np.divmod(np.arange(end), config.block_tokens)
        new = (blocks[position:], slots[position:])
        key = (normed @ weights["k"]).reshape(count, config.kv_heads, -1)
        cache[index, 0, *new] = self._rotate(key, position)
        cache[index, 1, *new] = (normed @ weights["v"]).reshape(count, config.kv_heads, -1)
        keys, values = cache[index, 0, blocks, slots], cache[index, 1, blocks, slots]
        attended = self._attend(queries, keys, values, position)
        hidden = hidden + attended @ weights["out"]
        normed = self._norm(hidden)
        gate = normed @ weights["gate"]
        swish = gate * (1 + np.tanh(gate / 2)) / 2
        return np.asarray(hidden + (swish * (normed @ weights["up"])) @ weights["down"])

    def logits(self, hidden: Floats) -> Floats:
        """Return the logits `[vocab]` of the token after the last one."""
        return np.asarray((self._norm(hidden[-1:]) @ self.head).reshape(-1))

    def forward(self, tokens: Sequence[int], cache: Floats, position: int) -> Floats:
        """Run all layers over `tokens` and return the logits of the token after them."""
        hidden = self.start(tokens, position)
        for index in range(self.config.layers):
            hidden = self.layer(index, hidden, cache, position)
        return self.logits(hidden)

    def generate(self, prompt: Sequence[int], cache: Floats, position: int, max_new: int) -> list[int]:
        """Return the `max_new` bytes that follow greedily; the cache then holds prompt and answer."""
        answer: list[int] = []
        logits = self.forward(prompt, cache, position)
        while len(answer) < max_new:
            answer.append(int(np.argmax(logits[:BOS])))
            logits = self.forward(answer[-1:], cache, position + len(prompt) + len(answer) - 1)
        return answer

    def _norm(self, hidden: Floats) -> Floats:
        square = np.mean(hidden * hidden, axis=-1, keepdims=True)
        return np.asarray(hidden / np.sqrt(square + self.config.epsilon))

    def _rotate(self, heads: Floats, position: int) -> Floats:
        cosine, sine = (table[position : position + len(heads)] for table in (self.cosine, self.sine))
        even, odd = heads[..., 0::2], heads[..., 1::2]
        turned = np.stack((even * cosine - odd * sine, even * sine + odd * cosine), axis=-1)
        return np.asarray(turned.reshape(heads.shape))

    def _attend(self, queries: Floats, keys: Floats, values: Floats, position: int) -> Floats:
        config, count = self.config, len(queries)
        grouped = queries.reshape(count, config.kv_heads, -1, config.head_dim).transpose(1, 2, 0, 3)
        scores = grouped @ keys.transpose(1, 2, 0)[:, None] / np.float32(np.sqrt(config.head_dim))
        unseen = np.arange(len(keys)) > position + np.arange(count)[:, None]
        scores = np.where(unseen, np.float32(-np.inf), scores)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = weights / weights.sum(axis=-1, keepdims=True) @ values.transpose(1, 0, 2)[:, None]
        return np.asarray(mixed.transpose(2, 0, 1, 3).reshape(count, -1))
