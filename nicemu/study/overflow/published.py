# SPDX-License-Identifier: Apache-2.0
"""What was measured of recompute and swap, in seconds, by policy: on an A100 of 40 GB under vLLM.

Source: the figures that the artefact (Jye-525/UnBoxKV-IO) of "Characterizing the Behavior and Impact of KV
Caching on Transformer Inferences under Concurrency", IPDPS 2025, publishes; Yarn-Llama-2-7B-64k. It is by the
authors of the poster, whose own figures 4 to 6 are known by what its sentences say of them alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BY_BLOCK_TOKENS: Final[Mapping[str, Mapping[int, float]]] = {
    "recompute": {2: 0.249826, 4: 0.249350, 8: 0.253190, 16: 0.257227, 32: 0.258577, 64: 0.261759},
    "swap_pinned": {2: 0.806272, 4: 0.506584, 8: 0.334184, 16: 0.254355, 32: 0.210494, 64: 0.180777},
    "swap_pageable": {2: 1.809973, 4: 1.168730, 8: 0.833906, 16: 0.692600, 32: 0.605931, 64: 0.560972},
}
"""4,096 tokens out and back, by the tokens of a block."""

BY_EVICTED_TOKENS: Final[Mapping[str, Mapping[int, float]]] = {
    "recompute": {1024: 0.067540, 2048: 0.128356, 4096: 0.257509, 8192: 0.543983, 16384: 1.216800},
    "swap_pinned": {1024: 0.069011, 2048: 0.129981, 4096: 0.253230, 8192: 0.500126, 16384: 0.993508},
}
"""Some tokens out and back, in blocks of 16."""

TOTALS_POLICIES: Final = ("recompute", "swap_pinned")
_TOTALS = {
    (64, 1024): (0.936, 0.867),
    (128, 1024): (3.10, 3.06),
    (32, 2048): (1.02, 0.99),
    (64, 2048): (4.05, 3.33),
    (128, 2048): (7.97, 7.22),
    (32, 4096): (4.58, 3.56),
    (64, 4096): (10.17, 7.68),
    (128, 4096): (19.54, 15.36),
    (32, 8192): (11.52, 8.31),
    (64, 8192): (20.44, 15.71),
    (128, 8192): (43.10, 33.84),
}
TOTALS: Final[Mapping[tuple[int, int], Mapping[str, float]]] = {
    case: dict(zip(TOTALS_POLICIES, figures, strict=True)) for case, figures in _TOTALS.items()
}
"""Overheads of whole workloads, by requests and tokens of each, half prompt and half output; 24 GiB of KV."""
