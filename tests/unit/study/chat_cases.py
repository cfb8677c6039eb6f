# SPDX-License-Identifier: Apache-2.0
"""Runs of the chat benchmark that several tests look at; each is run once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from nicemu.study import STUDIES
from nicemu.study.caching.chat import ChatResult, ChatSettings
from nicemu.study.caching.chat_run import ChatRow

GIB = 1 << 30
STANDARD = ChatSettings()
TIERS = ((10, 4), (10, 8), (10, 16), (16, 16), (10, 32))
"""GiB of GPU and CPU memory for KV."""


def small(gpu_gib: float, cpu_gib: float, **changed: Any) -> ChatSettings:  # noqa: ANN401 - settings
    """Return settings with two tiers, 32 chatters, 20 s of thinking, and large blocks, which are fast."""
    values = {"gpu.kv_bytes": gpu_gib * GIB, "tier.cpu_bytes": cpu_gib * GIB, "tier.ssd_bytes": 0.0}
    given = {"chatters": (32,), "think_s": 20.0, "block_tokens": 256, **changed}
    return replace(STANDARD, values=values, **given)


@cache
def ran(settings_key: tuple[tuple[str, Any], ...], seed: int) -> ChatResult:
    found = STUDIES["chat"].run(replace(STANDARD, **dict(settings_key)), seed, lambda done, what: None)
    assert isinstance(found, ChatResult)
    return found


def run(settings: ChatSettings, seed: int = 1) -> ChatResult:
    found = STUDIES["chat"].run(settings, seed, lambda done, what: None)
    assert isinstance(found, ChatResult)
    return found


def standard(policy: str, chatters: int, seed: int = 1) -> ChatRow:
    """Return a row of the standard settings."""
    (row,) = ran((("policies", (policy,)), ("chatters", (chatters,))), seed).rows
    return row
