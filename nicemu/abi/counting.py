# SPDX-License-Identifier: Apache-2.0
"""Counts of a program that come round again, and counts that come before what they count. Rule R30."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from .finding import Findings, Severity
from .work import DeferredWork, Opcode

_COUNTER_OPERATIONS = (Opcode.COUNTER_ADD, Opcode.COUNTER_SET)
_TRANSFERS = (
    Opcode.RDMA_WRITE,
    Opcode.RDMA_WRITE_WITH_IMM,
    Opcode.RDMA_READ,
    Opcode.COMPARE_SWAP,
    Opcode.FETCH_ADD,
    Opcode.ATOMIC,
    Opcode.SEND,
    Opcode.SEND_WITH_IMM,
    Opcode.TAGGED_SEND,
)
_ENDS = (
    "a cycle, which ends only because each entry fires once; re-armed in a window or a loop it does not end"
)

_Edges = dict[int, dict[int, list[int]]]
"""By a trigger and the counter that its work counts: the steps that do so."""


def find_cycles(findings: Findings, work: Sequence[DeferredWork], called: Mapping[int, str]) -> None:
    """Find counters whose work counts at them again, directly or by way of others."""
    edges: _Edges = {}
    published = _published(work)
    for step, item in enumerate(work):
        if step in published:
            continue
        changed = item.target if item.opcode in _COUNTER_OPERATIONS else item.completion
        if changed is not None:
            edges.setdefault(item.trigger, {}).setdefault(changed, []).append(step)
    for counter, counts in edges.items():
        if counter in counts:
            findings.say(
                Severity.WARNING,
                "R30",
                counts[counter],
                f"work behind {{name}} counts at the same counter: {_ENDS}",
                name=called[counter],
            )
    for group in _groups(edges):
        steps = [
            step
            for counter in group
            for changed, some in edges[counter].items()
            if changed in group and changed != counter
            for step in some
        ]
        path = _cycle(edges, group)
        pairs = [f"behind {called[one]} counts at {called[other]}" for one, other in pairwise(path)]
        told = pairs[0] + "".join(f", and work {pair}" for pair in pairs[1:])
        if len(group) > len(path) - 1:
            others = sorted(group.difference(path))
            told += f" (so too by way of {', '.join(called[other] for other in others)})"
        findings.say(Severity.WARNING, "R30", steps, f"work {_literal(told)}: {_ENDS}")


def _published(work: Sequence[DeferredWork]) -> set[int]:
    """Return the steps whose end counts at their own trigger only to fire their write-back.

    That is so if it stands behind them, one count later, and nothing else of that counter waits for more.
    """
    highest: dict[int, int] = {}
    for item in work:
        if item.opcode is not Opcode.WRITE_BACK:
            highest[item.trigger] = max(highest.get(item.trigger, 0), item.threshold)
    return {
        step
        for step, (item, after) in enumerate(pairwise(work))
        if item.completion == item.trigger == after.trigger
        and after.opcode is Opcode.WRITE_BACK
        and after.threshold == item.threshold + 1
        and highest[item.trigger] <= item.threshold
    }


def find_early_counts(findings: Findings, work: Sequence[DeferredWork]) -> None:
    """Find neighbours at one threshold of which one moves data and the other counts that it did."""
    for step, item in enumerate(work[1:], start=1):
        before = work[step - 1]
        if (item.trigger, item.threshold) != (before.trigger, before.threshold):
            continue
        if item.opcode is Opcode.COUNTER_ADD and before.opcode in _TRANSFERS:
            findings.say(
                Severity.WARNING,
                "R30",
                (step - 1, step),
                "initiated in this order; the count does not wait for the data. "
                "Trigger the count from the operation's completion counter",
            )


def _literal(text: str) -> str:
    """Return a text as it is to stand in a message, which has places in braces."""
    return text.replace("{", "{{").replace("}", "}}")


def _groups(edges: _Edges) -> list[set[int]]:
    """Return the largest groups of two counters or more that all lead to each other."""
    inner = _inner(edges)
    reached = {counter: _reached(inner, counter) for counter in inner}
    groups: list[set[int]] = []
    for counter in sorted(inner):
        group = {other for other in reached[counter] if counter in reached[other]}
        if len(group) > 1 and group not in groups:
            groups.append(group)
    return groups


def _inner(edges: _Edges) -> dict[int, set[int]]:
    """Return the edges between different counters, without those that begin or end on no cycle."""
    inner = {counter: set(counts) - {counter} for counter, counts in edges.items()}
    while True:
        aimed_at = set[int]().union(*inner.values())
        kept = {
            counter: {other for other in others if other in inner}
            for counter, others in inner.items()
            if counter in aimed_at
        }
        kept = {counter: others for counter, others in kept.items() if others}
        if kept == inner:
            return inner
        inner = kept


def _reached(inner: Mapping[int, set[int]], counter: int) -> set[int]:
    reached, ahead = set[int](), [counter]
    while ahead:
        for following in inner[ahead.pop()]:
            if following not in reached and following in inner:
                reached.add(following)
                ahead.append(following)
    return reached


def _cycle(edges: _Edges, group: set[int]) -> list[int]:
    """Return a shortest way from the first counter of a group back to it, through the group."""
    first = min(group)
    ways = [[first]]
    seen = {first}
    for way in ways:
        for following in sorted(edges[way[-1]]):
            if following == first and len(way) > 1:
                return [*way, first]
            if following in group and following not in seen:
                seen.add(following)
                ways.append([*way, following])
    raise AssertionError("a group has a cycle")
