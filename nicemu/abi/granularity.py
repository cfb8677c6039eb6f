# SPDX-License-Identifier: Apache-2.0
"""How finely a program follows a kernel: an operation per layer, per token, or per block of tokens.

The finer, the sooner data leaves, and the more trigger entries it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nicemu.errors import UsageError

from .limits import Limits
from .operands import whole
from .program import Condition, CounterLike, Program, Step


@dataclass(frozen=True, slots=True)
class Granularity:
    """`steps` moments in the life of a counter that counts one for every layer or token.

    `thresholds[i]`: counts from the start at which step `i` is complete. What a program waits for is a value
    of the counter, not counts from when it is armed: a counter that has counted before needs a `start`.
    """

    name: str
    thresholds: tuple[int, ...]

    @classmethod
    def layers(cls, layers: int) -> Granularity:
        """A step for every layer; ring once a layer. Raises: UsageError for none."""
        return cls._counted("layer", layers, 1)

    @classmethod
    def tokens(cls, tokens: int) -> Granularity:
        """A step for every token; ring once a token. Raises: UsageError for none."""
        return cls._counted("token", tokens, 1)

    @classmethod
    def blocks(cls, tokens: int, block_tokens: int) -> Granularity:
        """A step for every block of tokens, the last one perhaps short; ring once a token.

        Raises: UsageError for no tokens, or blocks of none.
        """
        return cls._counted("block of tokens", tokens, block_tokens)

    @classmethod
    def _counted(cls, name: str, count: int, every: int) -> Granularity:
        count = whole(count, "the number of layers or tokens", least=1)
        every = whole(every, "the number of tokens in a block", least=1)
        ends = range(every, count + every, every)
        return cls(f"per {name}", tuple(min(end, count) for end in ends))

    def entries(self, operations: int = 1) -> int:
        """Trigger entries of a program with so many operations in every step."""
        return len(self.thresholds) * operations

    def programs(self, limits: Limits, operations: int = 1) -> int:
        """How many such programs fit the trigger table at a time; 0: arm a window."""
        return limits.host_slots // self.entries(operations)

    def steps(
        self, program: Program, counter: CounterLike, start: int | Condition = 0
    ) -> Iterator[tuple[int, Step]]:
        """Yield each step's number and what `program.when` gives for it; call one method of it an operation.

        `start`: what the counter holds before the first count, or the condition of the first count; that is
        `counter.next()` where the next one is the first. For several operations in a step call
        `program.when(granularity.condition(...))` as often.
        Raises: UsageError for a condition of another counter.
        """
        for number in range(len(self.thresholds)):
            yield number, program.when(self.condition(counter, number, start))

    def condition(self, counter: CounterLike, number: int, start: int | Condition = 0) -> Condition:
        """Return the condition of a step; `start` is as for `steps`.

        `counter.next()` reads the counter: for all steps of a program take one and the same.
        Raises: UsageError for a condition of another counter, what is no count, and a step that is not there.
        """
        if type(number) is not int or not 0 <= number < len(self.thresholds):
            number = whole(number, "the number of a step", most=len(self.thresholds) - 1)
        target = getattr(counter, "target", None)
        if isinstance(start, Condition):
            if (start.counter, start.target) != (counter.index, target):
                raise UsageError(f"steps of {counter.name} cannot start where {start.name} does (EINVAL)")
            start = start.threshold - 1
        threshold = whole(start, "start") + self.thresholds[number]
        source = counter if hasattr(counter, "closed") else None
        return Condition(counter.index, threshold, counter.name, target, source)
