# SPDX-License-Identifier: Apache-2.0
"""The decoder computes from its cache, all of it, and cannot tell a restored cache from one that stayed."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest

from nicemu.kv import KvLayout, chunks_of
from nicemu.programs import programs_root

if TYPE_CHECKING:
    from examples.decoder import Decoder


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"example_{name}", programs_root() / "examples" / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


decoder = load_example("decoder")
CONFIG = decoder.DecoderConfig(blocks=6)
PROMPT = [decoder.BOS, *b"Which NIC holds the chunk?"]
FOLLOW_UP = list(b" And which block?")


@pytest.fixture(scope="module")
def model() -> Decoder:
    built: Decoder = decoder.Decoder(CONFIG, seed=7)
    return built


@pytest.fixture(scope="module")
def session(model: Decoder) -> tuple[np.ndarray, int]:
    """A cache after the first turn, and how many tokens it holds."""
    cache = np.zeros(CONFIG.cache_shape, np.float32)
    answer = model.generate(PROMPT, cache, 0, max_new=8)
    return cache, len(PROMPT) + len(answer)


def bits(logits: np.ndarray) -> bytes:
    assert logits.dtype == np.float32
    assert logits.shape == (CONFIG.vocab,)
    return logits.tobytes()


def test_a_follow_up_over_a_cache_copied_elsewhere_has_the_same_logits_bit_for_bit(
    model: Decoder, session: tuple[np.ndarray, int]
) -> None:
    cache, cached = session
    stayed = bits(model.forward(FOLLOW_UP, cache.copy(), cached))
    for offset_bytes in (0, 4, 32, 60):
        memory = np.full(cache.nbytes + 64, 0xA5, np.uint8)
        landing = memory[offset_bytes : offset_bytes + cache.nbytes].view(np.float32).reshape(cache.shape)
        landing[:] = cache
        assert bits(model.forward(FOLLOW_UP, landing, cached)) == stayed


def test_the_chunks_of_the_cached_tokens_are_all_that_a_follow_up_needs(
    model: Decoder, session: tuple[np.ndarray, int]
) -> None:
    cache, cached = session
    layout = KvLayout(
        CONFIG.layers, CONFIG.blocks, CONFIG.block_tokens, CONFIG.kv_heads, CONFIG.head_dim, "float32"
    )
    assert layout.shape == cache.shape
    source, landing = cache.tobytes(), bytearray(b"\xff" * layout.total_bytes)
    for chunk in chunks_of(layout, range(cached), model="test", salt=b""):
        for start in (chunk.k_offset, chunk.v_offset):
            landing[start : start + chunk.segment_bytes] = source[start : start + chunk.segment_bytes]
    restored = np.frombuffer(landing, np.float32).reshape(cache.shape)
    assert bits(model.forward(FOLLOW_UP, restored, cached)) == bits(
        model.forward(FOLLOW_UP, cache.copy(), cached)
    )


@pytest.mark.parametrize("half", [0, 1], ids=["K", "V"])
@pytest.mark.parametrize("layer", range(CONFIG.layers))
def test_one_changed_byte_of_the_cache_changes_the_logits(
    model: Decoder, session: tuple[np.ndarray, int], layer: int, half: int
) -> None:
    cache, cached = session
    damaged = cache.copy()
    damaged[layer, half, 1, 3, 1, 5:6].view(np.uint8)[2] ^= 0x40
    assert bits(model.forward(FOLLOW_UP, damaged, cached)) != bits(
        model.forward(FOLLOW_UP, cache.copy(), cached)
    )


def test_positions_after_the_last_token_are_never_read(
    model: Decoder, session: tuple[np.ndarray, int]
) -> None:
    cache, cached = session
    littered = cache.copy()
    littered.reshape(CONFIG.layers, 2, -1, CONFIG.kv_heads, CONFIG.head_dim)[:, :, cached:] = np.nan
    assert bits(model.forward(FOLLOW_UP, littered, cached)) == bits(
        model.forward(FOLLOW_UP, cache.copy(), cached)
    )


def test_going_on_from_the_cache_agrees_with_computing_the_whole_session_at_once(
    model: Decoder, session: tuple[np.ndarray, int]
) -> None:
    cache, cached = session
    answer = model.generate(PROMPT, np.zeros_like(cache), 0, max_new=8)
    incremental = model.forward(FOLLOW_UP, cache.copy(), cached)
    whole_cache = np.zeros_like(cache)
    whole = model.forward([*PROMPT, *answer, *FOLLOW_UP], whole_cache, 0)
    np.testing.assert_allclose(incremental, whole, atol=1e-4)
    filled = np.abs(whole_cache).sum(axis=(0, 1, 4, 5)).reshape(-1) > 0
    assert filled.tolist() == [n < cached + len(FOLLOW_UP) for n in range(filled.size)]


def test_each_layer_writes_its_own_keys_and_values_and_nothing_else(model: Decoder) -> None:
    cache = np.zeros(CONFIG.cache_shape, np.float32)
    hidden = model.start(PROMPT, 0)
    for index in range(CONFIG.layers):
        hidden = model.layer(index, hidden, cache, 0)
        written = np.abs(cache).sum(axis=(2, 3, 4, 5)) > 0
        assert written.tolist() == [[layer <= index] * 2 for layer in range(CONFIG.layers)]


def test_a_seed_decides_the_weights_and_the_answer(model: Decoder) -> None:
    def answer(seed: int) -> list[int]:
        cache = np.zeros(CONFIG.cache_shape, np.float32)
        tokens: list[int] = decoder.Decoder(CONFIG, seed).generate(PROMPT, cache, 0, max_new=3)
        return tokens

    assert answer(7) == answer(7)
    assert answer(7) != answer(8)
    assert all(0 <= token < 256 for token in answer(7))


def test_tokens_that_do_not_fit_the_cache_are_refused(model: Decoder) -> None:
    with pytest.raises(ValueError, match=r"17 tokens at 80 do not fit positions 0 to 95"):
        model.start([0] * 17, 80)
    assert model.start([0] * 16, 80).shape == (16, CONFIG.hidden)
