# SPDX-License-Identifier: Apache-2.0
"""Conversations as people have them with a chat service: turns, tokens, and what is known of their end.

Everything that chance decides is drawn here, so that every policy sees the same conversations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

from nicemu.errors import UsageError
from nicemu.study.contract import Settings, number, whole

_FEWEST_TOKENS = 4
_MOST_TRIES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatWorkload(Settings):
    """The settings of the workload. Tokens are log-normal: a mean, the logarithm's sigma, a largest number.

    Source: docs/prefix-caching.md says where each value comes from.
    """

    conversations: int = whole(200, 1, 1_000_000)
    single_turn: float = number(0.27, 0, 1)
    mean_turns: float = number(5.75, 1, 1_000)
    prompt_mean: float = number(161.0, 1, 1e6)
    prompt_sigma: float = number(1.5, 0, 5)
    prompt_most: int = whole(2048, 4, 1 << 20)
    answer_mean: float = number(338.0, 1, 1e6)
    answer_sigma: float = number(1.0, 0, 5)
    answer_most: int = whole(1024, 4, 1 << 20)
    think_s: float = number(0.0, 0, 1e6)
    wrong_hints: float = number(0.0, 0, 1)
    shared_tokens: int = whole(512, 1, 1 << 20)

    def __post_init__(self) -> None:
        if not self.single_turn < 1 and self.mean_turns != 1:
            raise UsageError(f"single_turn is 1, so that mean_turns is 1, and not {self.mean_turns:g}")
        if self.single_turn < 1 and self.more_turns < 0:
            least = 2 - self.single_turn
            raise UsageError(
                f"mean_turns is {self.mean_turns:g}; with single_turn {self.single_turn:g} the other "
                f"conversations have two turns at least, so that it is {least:g} at least"
            )

    @property
    def more_turns(self) -> float:
        """The mean number of turns beyond the second, of conversations that have a second one."""
        if self.single_turn == 1:
            return 0.0
        return (self.mean_turns - self.single_turn) / (1 - self.single_turn) - 2


@dataclass(frozen=True, slots=True)
class Turn:
    """A user's message and the answer, in tokens; the time until then since the answer before; and whether
    the hint that is given at its end is wrong.
    """

    prompt: int
    answer: int
    think_s: float
    misled: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns, behind as many tokens of a prompt that conversations share."""

    shared: int
    turns: tuple[Turn, ...] = field(default_factory=tuple)


def conversations(
    workload: ChatWorkload, window: int, shared_percent: float, seed: int
) -> list[Conversation]:
    """Return the conversations of a seed, each ended when its tokens would not fit the window.

    `shared_percent` of them begin with the shared prompt. Raises: UsageError if no turn fits the window.
    """
    draw = Random(f"chat workload {seed}")
    found: list[Conversation] = []
    tries = 0
    while len(found) < workload.conversations:
        begins_shared = draw.random() * 100 < shared_percent
        shared = workload.shared_tokens if begins_shared else 0
        tries += 1
        if turns := _turns(workload, window - shared, draw):
            found.append(Conversation(shared, turns))
            tries = 0
        if tries > _MOST_TRIES:
            raise UsageError(
                f"of {tries} conversations none had a first turn that fits the model's window of {window} "
                f"tokens, {shared} of them shared"
            )
    return found


def _turns(workload: ChatWorkload, room: int, draw: Random) -> tuple[Turn, ...]:
    count = 1 if draw.random() < workload.single_turn else 2 + _geometric(workload.more_turns, draw)
    found = []
    for _ in range(count):
        prompt = tokens_of(workload.prompt_mean, workload.prompt_sigma, workload.prompt_most, draw)
        answer = tokens_of(workload.answer_mean, workload.answer_sigma, workload.answer_most, draw)
        think_s = -workload.think_s * math.log(1 - draw.random())
        misled = draw.random() < workload.wrong_hints
        room -= prompt + answer
        if room < 0:
            break
        found.append(Turn(prompt, answer, think_s, misled))
    return tuple(found)


def _geometric(mean: float, draw: Random) -> int:
    """Return how many turns follow, 0 or more, each with the same chance."""
    chance = draw.random()
    return int(math.log(1 - chance) / math.log(mean / (1 + mean))) if mean else 0


def tokens_of(mean: float, sigma: float, most: int, draw: Random) -> int:
    """Return a log-normal number of tokens, by its mean and the sigma of its logarithm."""
    tokens = draw.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma)
    return int(min(most, max(_FEWEST_TOKENS, tokens)))
