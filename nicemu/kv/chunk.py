# SPDX-License-Identifier: Apache-2.0
"""Chunk keys and the layout in bytes of a key/value cache.

A *block* is a run of `block_tokens` token positions, a *chunk* is what one layer caches of one block: a
segment of K and a segment of V. A chunk's key is the end of a hash chain over every token up to the end of
its block, so that equal keys mean equal prefixes, and a key says nothing to a reader who does not know the
tenant's salt.
Source: RFC 7693, "BLAKE2b" (digest of 16 bytes); BLAKE2 specification, "Parameter Block" (personalisation).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NewType

import numpy as np
import numpy.typing as npt

from nicemu.errors import UsageError

ChunkKey = NewType("ChunkKey", int)
"""128 bits that name what one layer caches of one block, given everything before it."""

CHUNK_KEY_BYTES = 16
MAX_TOKEN = (1 << 32) - 1

_ROOT = b"kv.root"
_FULL_BLOCK = b"kv.full-block"
_PARTIAL_BLOCK = b"kv.partial-block"
_CHUNK = b"kv.chunk"


@dataclass(frozen=True, slots=True)
class KvLayout:
    """Layout of a cache array `[layer, 2 (K, V), block, token, head, dim]` in C order, in bytes from its
    start.

    `blocks` is the capacity of the array, not what a session fills. `dtype` is anything that numpy takes as
    one (for bfloat16, which numpy lacks, use uint16: the layout is of bytes and nothing is computed).
    Raises: UsageError if a dimension is not positive or the dtype is not a plain number of fixed width.
    """

    layers: int
    blocks: int
    block_tokens: int
    kv_heads: int
    head_dim: int
    dtype: npt.DTypeLike

    def __post_init__(self) -> None:
        for name in ("layers", "blocks", "block_tokens", "kv_heads", "head_dim"):
            extent = getattr(self, name)
            if not isinstance(extent, int) or extent < 1:
                raise UsageError(
                    f"{name} is {extent!r}; a dimension of the cache must be an int of at least 1"
                )
        try:
            dtype = np.dtype(self.dtype)
        except TypeError as error:
            raise UsageError(
                f"dtype {self.dtype!r} is not a numpy dtype; give one such as 'float16'"
            ) from error
        if dtype.kind not in "fiu":
            raise UsageError(f"dtype {dtype} is not a number of fixed width; give one such as 'float16'")
        object.__setattr__(self, "dtype", dtype)

    @property
    def element(self) -> np.dtype[Any]:
        """The element type as a numpy dtype."""
        return np.dtype(self.dtype)

    @property
    def shape(self) -> tuple[int, int, int, int, int, int]:
        """Shape of the whole array, for numpy or torch."""
        return (self.layers, 2, self.blocks, self.block_tokens, self.kv_heads, self.head_dim)

    @property
    def segment_bytes(self) -> int:
        """Bytes of the K, or of the V, of one layer and block; they are contiguous."""
        return self.block_tokens * self.kv_heads * self.head_dim * self.element.itemsize

    @property
    def segment_alignment_bytes(self) -> int:
        """Largest power of two that divides every segment's offset; under 4 a PRP entry cannot name a
        segment.

        Source: NVM Express Base Specification 2.0, "Physical Region Page Entry and List" (offsets of whole
        dwords).
        """
        return self.segment_bytes & -self.segment_bytes

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk: its K segment, then its V segment."""
        return 2 * self.segment_bytes

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole array."""
        return self.layers * self.blocks * self.chunk_bytes

    @property
    def token_capacity(self) -> int:
        """Token positions that the array holds."""
        return self.blocks * self.block_tokens

    def k_offset(self, layer: int, block: int) -> int:
        """Return where the K segment of `layer` and `block` starts, in bytes.

        Raises: UsageError if there is no such layer or block.
        """
        return self._segment(layer, 0, block)

    def v_offset(self, layer: int, block: int) -> int:
        """Return where the V segment of `layer` and `block` starts, in bytes.

        Raises: UsageError if there is no such layer or block.
        """
        return self._segment(layer, 1, block)

    def blocks_of(self, token_count: int) -> int:
        """Return how many blocks `token_count` tokens touch; the last may be partial."""
        return -(-token_count // self.block_tokens)

    def _segment(self, layer: int, half: int, block: int) -> int:
        if not 0 <= layer < self.layers or not 0 <= block < self.blocks:
            raise UsageError(
                f"layer {layer}, block {block} is outside the cache, which has layers 0 to {self.layers - 1} "
                f"and blocks 0 to {self.blocks - 1}"
            )
        return ((layer * 2 + half) * self.blocks + block) * self.segment_bytes


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one layer caches of one block: two segments of `segment_bytes`, of which `token_count` tokens are
    valid.

    `shareable`: the block is full, so any session with the same prefix, model and tenant has the same key.
    The key of a partial block includes its token count; it is stored, but it never equals a full block's.
    """

    key: ChunkKey
    layer: int
    block: int
    k_offset: int
    v_offset: int
    segment_bytes: int
    token_count: int
    shareable: bool


def chunks_of(
    layout: KvLayout, tokens: Sequence[int], *, model: str, salt: bytes, first_block: int = 0
) -> list[Chunk]:
    """Return the chunks that cache `tokens`, a session's tokens from its beginning, by layer and then by
    block.

    Blocks before `first_block` enter the keys but are not listed: for a follow-up give `tokens_before //
    block_tokens`, which lists the block that was partial until now again, under its new key.
    Raises: UsageError if the tokens do not fit the layout or are no 32-bit numbers, or for a `first_block`
    beyond them.
    """
    if len(tokens) > layout.token_capacity:
        raise UsageError(
            f"{len(tokens)} tokens do not fit a cache of {layout.blocks} blocks of {layout.block_tokens} "
            f"tokens; use a layout of at least {layout.blocks_of(len(tokens))} blocks"
        )
    used_blocks = layout.blocks_of(len(tokens))
    if not 0 <= first_block <= used_blocks:
        raise UsageError(
            f"first_block is {first_block}; the {len(tokens)} tokens have blocks 0 to {used_blocks}"
        )
    digests = _block_digests(layout, tokens, model, salt)
    return [
        Chunk(
            key=_chunk_key(digests[block], layer),
            layer=layer,
            block=block,
            k_offset=layout.k_offset(layer, block),
            v_offset=layout.v_offset(layer, block),
            segment_bytes=layout.segment_bytes,
            token_count=min(layout.block_tokens, len(tokens) - block * layout.block_tokens),
            shareable=(block + 1) * layout.block_tokens <= len(tokens),
        )
        for layer in range(layout.layers)
        for block in range(first_block, used_blocks)
    ]


def _block_digests(layout: KvLayout, tokens: Sequence[int], model: str, salt: bytes) -> list[bytes]:
    """Return the chain's digest at the end of each block. The root binds what decides a segment's meaning."""
    segment = struct.pack(">III", layout.block_tokens, layout.kv_heads, layout.head_dim)
    digest = _digest(_ROOT, model.encode(), salt, segment, layout.element.str.encode())
    digests = []
    for start in range(0, len(tokens), layout.block_tokens):
        block = [int(token) for token in tokens[start : start + layout.block_tokens]]
        for token in block:
            if not 0 <= token <= MAX_TOKEN:
                raise UsageError(f"token {token} among positions {start} and on is outside 0 to {MAX_TOKEN}")
        domain = _FULL_BLOCK if len(block) == layout.block_tokens else _PARTIAL_BLOCK
        digest = _digest(domain, digest, struct.pack(f">{len(block)}I", *block))
        digests.append(digest)
    return digests


def _chunk_key(block_digest: bytes, layer: int) -> ChunkKey:
    return ChunkKey(int.from_bytes(_digest(_CHUNK, block_digest, struct.pack(">I", layer)), "big"))


def _digest(domain: bytes, *parts: bytes) -> bytes:
    """Hash `parts`, each after its length, in a domain of its own."""
    state = hashlib.blake2b(digest_size=CHUNK_KEY_BYTES, person=domain)
    for part in parts:
        state.update(struct.pack(">Q", len(part)))
        state.update(part)
    return state.digest()
