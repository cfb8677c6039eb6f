# SPDX-License-Identifier: Apache-2.0
"""The KV cache in tiers, and which of its entries go: eviction policies, as a live cache can use them.

Nothing here knows a clock, a socket or a random number; time is passed in as integer nanoseconds.
"""

from .hints import HintPolicy, HintWorth
from .policies import POLICIES, Lfu, Lru, NoCache, Pin, Triggered
from .policy import Hint, Policy, Record
from .tiers import Tier, TieredCache

__all__ = [
    "POLICIES",
    "Hint",
    "HintPolicy",
    "HintWorth",
    "Lfu",
    "Lru",
    "NoCache",
    "Pin",
    "Policy",
    "Record",
    "Tier",
    "TieredCache",
    "Triggered",
]
