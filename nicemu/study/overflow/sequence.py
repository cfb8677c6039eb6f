# SPDX-License-Identifier: Apache-2.0
"""Requests, and the sequences of tokens that they become in a serving engine."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import exp


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt that wants so many tokens. `number` is its place among those that came."""

    number: int
    prompt_tokens: int
    output_tokens: int
    arrival_s: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens of prompt and output together: as long as its sequence gets."""
        return self.prompt_tokens + self.output_tokens


@dataclass(slots=True, eq=False)
class Sequence:
    """A request in the engine: what it has generated, the blocks that it holds, and what it waited for."""

    request: Request
    generated: int = 0
    blocks: int = 0
    preempted_at_s: float | None = None
    first_token_s: float = 0.0
    finished_s: float = 0.0

    @property
    def order(self) -> tuple[float, int]:
        """Who came first."""
        return self.request.arrival_s, self.request.number

    @property
    def tokens(self) -> int:
        """Tokens of the prompt, and those that are generated."""
        return self.request.prompt_tokens + self.generated

    @property
    def remaining(self) -> int:
        """Tokens that are still to be generated."""
        return self.request.output_tokens - self.generated

    @property
    def ttft_s(self) -> float:
        """Time to first token, from arrival."""
        return self.first_token_s - self.request.arrival_s

    @property
    def tpot_s(self) -> float:
        """Time per output token after the first."""
        return (self.finished_s - self.first_token_s) / max(1, self.request.output_tokens - 1)


def alike(count: int, prompt_tokens: int, output_tokens: int) -> list[Request]:
    """Return requests that are all alike and come at once."""
    return [Request(number, prompt_tokens, output_tokens) for number in range(count)]


def drawn(
    requests: list[Request], arrivals_per_s: float, sigma: float, most_tokens: int, chance: random.Random
) -> list[Request]:
    """Return requests with arrivals and lengths drawn by chance around those that they have.

    Arrivals are a Poisson process (0 a second: all at once). Lengths are lognormal, `sigma` the deviation of
    their logarithm (0: as they are), their mean what they have; cut so that no request has more than
    `most_tokens` in all.
    """
    found, now_s = [], 0.0
    for request in requests:
        prompt, output = request.prompt_tokens, request.output_tokens
        if arrivals_per_s:
            now_s += chance.expovariate(arrivals_per_s)
        if sigma:
            prompt = min(_length(prompt, sigma, chance), most_tokens - 1)
            output = min(_length(output, sigma, chance), most_tokens - prompt)
        found.append(Request(request.number, prompt, output, now_s))
    return found


def _length(mean: int, sigma: float, chance: random.Random) -> int:
    return max(1, round(mean * exp(chance.gauss(-sigma * sigma / 2, sigma))))
