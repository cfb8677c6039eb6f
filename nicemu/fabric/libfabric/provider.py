# SPDX-License-Identifier: Apache-2.0
"""What is known of the libfabric providers that have deferred work, as far as a program can notice it."""

from __future__ import annotations

from dataclasses import dataclass, field

from nicemu.abi import FiringOrder, Limits, Opcode

_INT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Provider:
    """What a provider can do. `limits`: without what it says of itself, the number of counters.

    `node`: what it listens at if nothing is asked for. `lacks`: operations that it does not defer.
    `counters_are_more`: it can open more counters than it says; `limits` has how many. `reads_lag`: a read
    returns what an earlier one has asked for. `errors_fire`: they count towards thresholds. `failures_count`:
    a failed operation moves its completion counter. `cycles_hang`: counts that lead back to their counter
    hang the process. `deviations`: by rule, what it does instead. `is_verified`: all this was seen, not only
    read.
    """

    name: str
    limits: Limits
    node: str | None = None
    lacks: frozenset[Opcode] = frozenset()
    single_cancel: bool = True
    flush: bool = True
    counters_are_more: bool = False
    reads_lag: bool = False
    errors_fire: bool = True
    failures_count: bool = True
    cycles_hang: bool = False
    deviations: dict[str, str] = field(default_factory=dict)
    is_verified: bool = False


SOCKETS = Provider(
    "sockets",
    Limits(
        max_success=_INT_MAX,
        max_errors=_INT_MAX,
        profile="sockets",
        single_cancel=False,
        order=FiringOrder.ISSUE,
    ),
    node="127.0.0.1",
    single_cancel=False,
    flush=False,
    errors_fire=False,
    failures_count=False,
    cycles_hang=True,
    deviations={
        "R2": "values and thresholds have 31 bits; more is refused here, the provider would misread it",
        "R3": "a value wraps; a count from this process that would lead there is refused here",
        "R22": "errors do not count towards thresholds",
        "R24": "what is due together fires in the order of arming",
        "R27": "a failed operation moves neither value of its completion counter, so its dependents wait",
        "R28": "an operation that ends well leaves no completion, also if one was asked for",
        "R31": "counts that lead back to their counter hang it; they are refused here",
        "R32": "it stops in the middle of much due work; this library makes it go on",
        "R37": "no operation can be cancelled",
        "R38": "nothing can be flushed",
    },
    is_verified=True,
)
"""Measured with libfabric 1.17 of Debian."""

CXI = Provider(
    "cxi",
    Limits.named("cassini", waits_take_slots=False),
    lacks=frozenset({Opcode.RDMA_WRITE_WITH_IMM}),
    single_cancel=False,
    counters_are_more=True,
    reads_lag=True,
    deviations={
        "R8": "a read returns what the NIC wrote back last, and asks it to write back once more",
        "R38": "a flush is one of the whole domain, and sleeps a second",
        "R40": "what it does with work that waits for a closed counter is not known",
    },
)
"""Read in the provider's manual page and sources; nothing of it was run.

Waits poll here, so they take no slots. The 16 counters that it tells of are no limit: fi_domain(3) calls them
"the optimal number". It takes no writes with remote data. Source: fi_cxi(7).
"""

_KNOWN = {provider.name: provider for provider in (SOCKETS, CXI)}


def provider_named(name: str) -> Provider:
    """Return what is known of a provider; of one that is not known, the best is assumed.

    libfabric does not tell upper and lower case apart.
    """
    return _KNOWN.get(name.lower()) or Provider(name, Limits(profile=name))
