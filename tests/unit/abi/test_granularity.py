# SPDX-License-Identifier: Apache-2.0
"""Per layer, per token, per block of tokens: which thresholds, and what it costs in entries."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from nicemu.abi import Condition, Granularity, Limits, Program
from nicemu.errors import UsageError


@dataclass(frozen=True)
class Numbered:
    index: int = 3
    name: str = "ready"


@pytest.mark.parametrize(
    ("granularity", "thresholds"),
    [
        (Granularity.layers(4), (1, 2, 3, 4)),
        (Granularity.tokens(3), (1, 2, 3)),
        (Granularity.blocks(40, 16), (16, 32, 40)),
        (Granularity.blocks(32, 16), (16, 32)),
        (Granularity.blocks(5, 16), (5,)),
    ],
)
def test_a_step_ends_at_the_count_of_its_last_layer_or_token(
    granularity: Granularity, thresholds: tuple[int, ...]
) -> None:
    program = Program("steps")
    for _, step in granularity.steps(program, Numbered(), start=100):
        step.add(Numbered(4, "done"))
    assert [work.threshold for work in program.work] == [100 + threshold for threshold in thresholds]
    assert {work.trigger for work in program.work} == {3}
    assert program.counter_names == {3: "ready", 4: "done"}


@pytest.mark.parametrize("start", [7, Condition(3, 8, "ready")], ids=["a value", "the first count"])
def test_a_counter_that_has_counted_before_starts_from_there(start: int | Condition) -> None:
    program = Program("steps")
    for _, step in Granularity.blocks(40, 16).steps(program, Numbered(), start):
        step.add(Numbered(4, "done"))
    assert [work.threshold for work in program.work] == [7 + 16, 7 + 32, 7 + 40]


def test_steps_of_one_counter_do_not_start_where_another_one_does() -> None:
    with pytest.raises(UsageError, match="steps of ready cannot start where done does"):
        Granularity.layers(2).condition(Numbered(), 0, Condition(4, 1, "done"))


def test_what_it_costs_in_entries() -> None:
    """The sizing example: 80 layers, a read and a notification each: 3 requests in Cassini's 504 entries."""
    layers = Granularity.layers(80)
    assert layers.entries(operations=2) == 160
    assert layers.programs(Limits.named("cassini"), operations=2) == 3
    assert Granularity.tokens(1000).programs(Limits.named("cassini")) == 0


@pytest.mark.parametrize("counts", [(0, 1), (-1, 1), (5, 0)])
def test_no_tokens_and_blocks_of_none_are_refused(counts: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match=r"the number of .* is a whole number, 1 or more"):
        Granularity.blocks(*counts)


@pytest.mark.parametrize("layers", [1.5, "3", True, None])
def test_layers_are_counted_in_whole_numbers(layers: object) -> None:
    with pytest.raises(UsageError, match="the number of layers or tokens is a whole number"):
        Granularity.layers(layers)  # type: ignore[arg-type]


def test_a_step_that_is_not_there_has_no_condition() -> None:
    with pytest.raises(UsageError, match="the number of a step is a whole number, 0 to 1, not 99"):
        Granularity.layers(2).condition(Numbered(), 99)
