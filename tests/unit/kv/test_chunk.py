# SPDX-License-Identifier: Apache-2.0
"""Chunk keys chain over everything that decides a chunk's content; the layout is NumPy's C order."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.kv import Chunk, ChunkKey, KvLayout, chunks_of

LAYOUT = KvLayout(layers=3, blocks=4, block_tokens=4, kv_heads=2, head_dim=8, dtype="float32")
TOKENS = list(range(100, 110))

layouts = st.builds(
    KvLayout,
    layers=st.integers(1, 5),
    blocks=st.integers(1, 6),
    block_tokens=st.integers(1, 5),
    kv_heads=st.integers(1, 3),
    head_dim=st.integers(1, 7),
    dtype=st.sampled_from(["float16", "float32", "uint16", "int8"]),
)


def keys(
    tokens: list[int], layout: KvLayout = LAYOUT, model: str = "m", salt: bytes = b"s"
) -> dict[tuple[int, int], ChunkKey]:
    return {
        (chunk.layer, chunk.block): chunk.key for chunk in chunks_of(layout, tokens, model=model, salt=salt)
    }


@given(layouts, st.data())
def test_offsets_are_those_of_a_c_ordered_array(layout: KvLayout, data: st.DataObject) -> None:
    layer = data.draw(st.integers(0, layout.layers - 1))
    block = data.draw(st.integers(0, layout.blocks - 1))
    array = np.zeros(layout.shape, layout.dtype)
    assert array.nbytes == layout.total_bytes
    for half, offset in ((0, layout.k_offset(layer, block)), (1, layout.v_offset(layer, block))):
        segment = array[layer, half, block]
        start = segment.__array_interface__["data"][0] - array.__array_interface__["data"][0]
        assert (offset, layout.segment_bytes) == (start, segment.nbytes)
    assert layout.chunk_bytes == 2 * layout.segment_bytes
    assert layout.segment_bytes % layout.segment_alignment_bytes == 0
    assert layout.segment_bytes // layout.segment_alignment_bytes % 2 == 1


def test_the_default_sizes_of_a_segment_align_to_a_logical_block() -> None:
    layout = KvLayout(layers=4, blocks=8, block_tokens=16, kv_heads=2, head_dim=32, dtype=np.float32)
    assert layout.segment_bytes == layout.segment_alignment_bytes == 4096


@pytest.mark.parametrize("name", ["layers", "blocks", "block_tokens", "kv_heads", "head_dim"])
def test_a_dimension_that_is_not_positive_is_refused(name: str) -> None:
    extents = {"layers": 1, "blocks": 1, "block_tokens": 1, "kv_heads": 1, "head_dim": 1}
    KvLayout(**extents, dtype="float32")
    with pytest.raises(UsageError, match=name):
        KvLayout(**{**extents, name: 0}, dtype="float32")


@pytest.mark.parametrize("dtype", ["object", "U4", "nonsense", "complex64"])
def test_a_dtype_that_is_no_plain_number_is_refused(dtype: str) -> None:
    with pytest.raises(UsageError, match="dtype"):
        KvLayout(1, 1, 1, 1, 1, dtype)


@pytest.mark.parametrize(("layer", "block"), [(3, 0), (-1, 0), (0, 4), (0, -1)])
def test_a_segment_outside_the_cache_has_no_offset(layer: int, block: int) -> None:
    with pytest.raises(UsageError, match="outside the cache"):
        LAYOUT.k_offset(layer, block)
    with pytest.raises(UsageError, match="outside the cache"):
        LAYOUT.v_offset(layer, block)


def test_chunks_are_listed_by_layer_and_then_by_block() -> None:
    chunks = chunks_of(LAYOUT, TOKENS, model="m", salt=b"s")
    assert [(chunk.layer, chunk.block) for chunk in chunks] == [(n, b) for n in range(3) for b in range(3)]
    assert [chunk.token_count for chunk in chunks[:3]] == [4, 4, 2]
    assert [chunk.shareable for chunk in chunks[:3]] == [True, True, False]
    third = chunks[5]
    assert third == Chunk(
        third.key, 1, 2, LAYOUT.k_offset(1, 2), LAYOUT.v_offset(1, 2), LAYOUT.segment_bytes, 2, False
    )
    assert chunks_of(LAYOUT, [], model="m", salt=b"s") == []


def test_a_follow_up_lists_only_the_blocks_that_its_tokens_touched() -> None:
    before, after = TOKENS[:6], TOKENS
    new = chunks_of(LAYOUT, after, model="m", salt=b"s", first_block=len(before) // LAYOUT.block_tokens)
    whole = chunks_of(LAYOUT, after, model="m", salt=b"s")
    assert new == [chunk for chunk in whole if chunk.block >= 1]
    assert chunks_of(LAYOUT, after, model="m", salt=b"s", first_block=3) == []
    with pytest.raises(UsageError, match="first_block is 4"):
        chunks_of(LAYOUT, after, model="m", salt=b"s", first_block=4)


def test_a_growing_session_keeps_the_keys_of_its_full_blocks_and_changes_the_partial_one() -> None:
    shorter, longer = keys(TOKENS[:6]), keys(TOKENS)
    for layer in range(3):
        assert shorter[layer, 0] == longer[layer, 0]
        assert shorter[layer, 1] != longer[layer, 1]


@given(st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=16), st.data())
def test_a_key_depends_on_every_token_up_to_the_end_of_its_block_and_on_none_after(
    tokens: list[int], data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(tokens) - 1))
    changed = list(tokens)
    changed[position] ^= data.draw(st.integers(1, (1 << 32) - 1))
    before, after = keys(tokens), keys(changed)
    for (layer, block), key in before.items():
        assert (key == after[layer, block]) == (block < position // LAYOUT.block_tokens)


@given(st.lists(st.integers(0, 3), max_size=16), st.lists(st.integers(0, 3), max_size=16))
def test_keys_are_equal_exactly_when_the_tokens_up_to_the_end_of_the_block_are(
    first: list[int], second: list[int]
) -> None:
    mine, other = keys(first), keys(second)
    assert len(set(mine.values())) == len(mine)
    for (layer, block), key in mine.items():
        end = (block + 1) * LAYOUT.block_tokens
        same = (layer, block) in other and first[:end] == second[:end]
        assert (key in other.values()) == same


def test_a_partial_block_never_has_the_key_of_a_full_one() -> None:
    narrow = KvLayout(layers=1, blocks=8, block_tokens=2, kv_heads=2, head_dim=8, dtype="float32")
    wide = KvLayout(layers=1, blocks=8, block_tokens=4, kv_heads=2, head_dim=8, dtype="float32")
    full, partial = keys([5, 6], narrow), keys([5, 6], wide)
    assert full[0, 0] != partial[0, 0]
    assert keys([5, 6, 0, 0], wide)[0, 0] != partial[0, 0]


def test_models_tenants_and_layers_never_share_a_key() -> None:
    variants = [
        keys(TOKENS),
        keys(TOKENS, model="n"),
        keys(TOKENS, salt=b"t"),
        keys(TOKENS, model="ms", salt=b""),
        keys(TOKENS, model="", salt=b"ms"),
        keys(TOKENS, KvLayout(3, 4, 4, 2, 8, "uint32")),
        keys(TOKENS, KvLayout(3, 4, 4, 8, 2, "float32")),
    ]
    every = [key for variant in variants for key in variant.values()]
    assert len(every) == len(set(every)) == 7 * 9
    assert all(0 <= key < 1 << 128 for key in every)


def test_the_capacity_of_the_cache_does_not_enter_the_keys() -> None:
    assert keys(TOKENS, KvLayout(3, 9, 4, 2, 8, "float32")) == keys(TOKENS)


def test_a_key_is_the_end_of_a_chain_of_length_prefixed_hashes_in_domains_of_their_own() -> None:
    def blake(domain: bytes, *parts: bytes) -> bytes:
        message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hashlib.blake2b(message, digest_size=16, person=domain).digest()

    def words(*numbers: int) -> bytes:
        return b"".join(number.to_bytes(4, "big") for number in numbers)

    root = blake(b"kv.root", b"m", b"s", words(4, 2, 8), b"<f4")
    first = blake(b"kv.full-block", root, words(1, 2, 3, 4))
    second = blake(b"kv.partial-block", first, words(5))
    assert keys([1, 2, 3, 4, 5])[2, 0] == int.from_bytes(blake(b"kv.chunk", first, words(2)), "big")
    assert keys([1, 2, 3, 4, 5])[2, 1] == int.from_bytes(blake(b"kv.chunk", second, words(2)), "big")


def test_tokens_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 5 blocks"):
        chunks_of(LAYOUT, [0] * 17, model="m", salt=b"")
    for token in (-1, 1 << 32):
        with pytest.raises(UsageError, match="outside 0 to 4294967295"):
            chunks_of(LAYOUT, [token], model="m", salt=b"")


def test_tokens_may_be_a_numpy_array() -> None:
    array = np.asarray(TOKENS, np.int64)
    assert chunks_of(LAYOUT, array.tolist(), model="m", salt=b"s") == chunks_of(
        LAYOUT, list(array), model="m", salt=b"s"
    )
