# SPDX-License-Identifier: Apache-2.0
"""Every function of nicemu.lookup.words: what the Python twin does, the compiled one does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nicemu.hot import Int, hot, interpreted
from nicemu.lookup import words
from nicemu.lookup.memory import Memory
from nicemu.pcie import store_u32, store_u64

U64_MAX = (1 << 64) - 1
WORDS = (0, 1, 2, 0x7F, 0xFFFFFFFF, 1 << 32, 0x9E3779B97F4A7C15, 1 << 63, U64_MAX - 1, U64_MAX)


@hot
def load_word(address: Int) -> Int:
    return words.load_word(address)


@hot
def word_of(address: Int, place: Int) -> Int:
    return words.word_of(address, place)


@hot
def fence_loads(address: Int) -> Int:
    first = words.load_word(address)
    words.fence_loads()
    return first ^ words.load_word(address)


@hot
def prefetch(address: Int) -> None:
    words.prefetch(address)


@hot
def multiply_fold(one: Int, other: Int) -> Int:
    return words.multiply_fold(one, other)


@hot
def trailing_zeros(word: Int) -> Int:
    return words.trailing_zeros(word)


@hot
def matching_slots(line: Int, wanted: Int, mask: Int) -> Int:
    return words.matching_slots(line, wanted, mask)


WRAPPED: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        load_word,
        word_of,
        fence_loads,
        prefetch,
        multiply_fold,
        trailing_zeros,
        matching_slots,
    )
}


@pytest.fixture
def call(compiled: bool) -> Callable[..., Any]:
    """Call a function by name, one way or the other; numbers go in as uint64."""

    def run(name: str, *operands: int) -> Any:  # noqa: ANN401
        function = WRAPPED[name] if compiled else interpreted(WRAPPED[name])
        result = function(*(np.uint64(operand) for operand in operands))
        return None if result is None else int(result)

    return run


@pytest.fixture
def memory() -> Iterator[Memory]:
    made = Memory(4096)
    yield made
    made.close()


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_loaded_as_it_was_stored(call: Callable[..., Any], memory: Memory, word: int) -> None:
    store_u64(memory.address + 8, word)
    assert call("load_word", memory.address + 8) == word
    assert [call("word_of", memory.address, place) for place in range(3)] == [0, word, 0]
    assert call("fence_loads", memory.address + 8) == 0


def test_a_prefetch_changes_nothing_and_faults_nowhere(call: Callable[..., Any], memory: Memory) -> None:
    for address in (memory.address, 0, U64_MAX):
        call("prefetch", address)
    assert not any(memory.view)


@pytest.mark.parametrize("one", WORDS)
@pytest.mark.parametrize("other", WORDS)
def test_a_product_is_folded_to_its_halves_xored(call: Callable[..., Any], one: int, other: int) -> None:
    assert call("multiply_fold", one, other) == (one * other >> 64) ^ (one * other & U64_MAX)


@pytest.mark.parametrize("place", [0, 1, 31, 32, 63])
def test_trailing_zeros_give_the_lowest_bit(call: Callable[..., Any], place: int) -> None:
    assert call("trailing_zeros", 1 << place) == place
    assert call("trailing_zeros", 1 << 63 | 1 << place) == place


def test_slots_that_match_under_the_mask_are_found_and_the_sixteenth_word_never(
    call: Callable[..., Any], memory: Memory
) -> None:
    rng = random.Random(1)
    for _ in range(50):
        mask = 0xFFFFFFFF & -1 << rng.randrange(32)
        wanted = rng.getrandbits(32) & mask
        same = [rng.random() < 0.5 for _ in range(16)]
        for place, equal in enumerate(same):
            noise = rng.getrandbits(32) & (mask ^ 0xFFFFFFFF)
            store_u32(memory.address + 64 + 4 * place, (wanted if equal else wanted ^ 1 << 31) | noise)
        expected = sum(1 << place for place, equal in enumerate(same[:15]) if equal)
        assert call("matching_slots", memory.address + 64, wanted, mask) == expected


def test_every_function_is_in_this_contract() -> None:
    own = {name for name in vars(words) if callable(getattr(words, name)) and not name.startswith("_")}
    assert own - {"extend"} - {name for name in own if name[0].isupper()} == set(WRAPPED)
