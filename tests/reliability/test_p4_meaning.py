# SPDX-License-Identifier: Apache-2.0
"""Random programs do what they mean by the specification: fuzz_meaning."""

from __future__ import annotations

import pytest

from nicemu.hot import JIT
from tests.reliability.fuzz_meaning import Failure, Fuzzer
from tests.reliability.p4_meaning_tree import Tree


def require_nothing_found(fuzzer: Fuzzer, found: tuple[Tree, Failure] | None, seed: int) -> None:
    if found is None:
        return
    program, _ = found
    last = fuzzer.shrink(program, found[1], seed)
    pytest.fail(f"seed {seed}: {last.kind}\n{last.told}\n{program}")


def test_random_programs_do_what_they_mean() -> None:
    fuzzer = Fuzzer()
    for seed in range(40):
        require_nothing_found(fuzzer, fuzzer.case(seed), seed)
    assert fuzzer.seen["packets compared"] > 100


@pytest.mark.slow
def test_a_thousand_random_programs_do_what_they_mean() -> None:
    fuzzer = Fuzzer()
    for seed in range(1_000, 2_000):
        require_nothing_found(fuzzer, fuzzer.case(seed), seed)


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
def test_kernels_do_what_random_programs_mean() -> None:
    fuzzer = Fuzzer(kernels_every=1)
    for seed in range(2_000, 2_020):
        require_nothing_found(fuzzer, fuzzer.case(seed), seed)
