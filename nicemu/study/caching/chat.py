# SPDX-License-Identifier: Apache-2.0
"""`nicemu study chat`: what prefix caching gains a multi-turn chat, by policy and by number of chatters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nicemu.cache import POLICIES
from nicemu.errors import UsageError
from nicemu.model import Serving, read_server
from nicemu.study.contract import (
    Progress,
    Settings,
    Table,
    choice,
    number,
    number_from,
    one_of,
    several,
    text,
    whole,
    whole_from,
)

from .chat_run import THRESHOLDS, TIERS, ChatRow, ChatRun
from .chat_server import ServerLimits
from .chat_workload import ChatWorkload, conversations

_GIB: Final = 1 << 30
_ORDER: Final = ("none", "lru", "lfu", "hint", "pin", "triggered")
assert set(_ORDER) == set(POLICIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings(ChatWorkload):
    """What is compared, on which server. GPU, CPU and NVMe tiers are fields of the server."""

    server: str = text("a6000_llama2_7b")
    chatters: tuple[int, ...] = several((1, 8, 32, 64), whole_from(1, 100_000))
    policies: tuple[str, ...] = several(_ORDER, one_of(*_ORDER))
    shared_percent: tuple[float, ...] = several((0.0,), number_from(0, 100))
    block_tokens: int = whole(16, 1, 4096)
    prefill_tokens: int = whole(4096, 1, 1 << 20)
    remote: str = choice("triggered", "triggered", "all")
    remote_gib: float = number(1024.0, 0, 1e6)


@dataclass(frozen=True, slots=True)
class ChatResult:
    """The rows, and what they rest on."""

    rows: tuple[ChatRow, ...]
    conditions: tuple[str, ...]

    def headline(self) -> dict[str, float]:
        """Return hit rate, time to first byte and messages a second of each row."""
        several_shares = len({row.shared_percent for row in self.rows}) > 1
        found = {}
        for row in self.rows:
            name = f"{row.policy}_{row.chatters}" + f"_{row.shared_percent:g}" * several_shares
            found[f"{name}_hit_rate"] = row.hit_rate
            found[f"{name}_first_byte_s"] = row.first_byte_s
            found[f"{name}_messages_per_s"] = row.messages_per_s
        return found

    def as_data(self) -> dict[str, object]:
        """Return the rows for JSON."""
        return {"conditions": list(self.conditions), "rows": [_row_data(row) for row in self.rows]}

    def tables(self) -> list[Table]:
        """Return a table of the benchmark, and one of the tiers."""
        case = ("shared %", "chatters", "policy")
        above = tuple(f">={100 * limit:.0f} %" for limit in THRESHOLDS)
        speed = Table(
            "Chat: mean times, throughput, and how much of the prompts was cached",
            (*case, "end to end s", "first byte s", "messages/s", "hit rate %", "none %", *above),
            [_speed_cells(row) for row in self.rows],
            (
                *self.conditions,
                "hit rate: of the prompts' tokens; none to 75 %: requests with so much cached",
            ),
        )
        names = [name for name in TIERS if any(name in row.hits_by_tier for row in self.rows)]
        below = tuple(f"to {name}" for name in names[1:])
        tiers = Table(
            "Chat: where hits lay, in % of the prompts' tokens, and what moved down, in GiB",
            (*case, *names, *below, "dropped", "GPU busy %"),
            [_tier_cells(row, names) for row in self.rows],
        )
        return [speed, tiers]

    def plot(self, folder: Path) -> list[Path]:
        """Draw latency and throughput, and the shares. Raises: UsageError."""
        from .chat_plots import plot_chat

        return plot_chat(self.rows, self.conditions, folder)


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 1)


def _gib(length_bytes: int | None) -> float | None:
    return None if length_bytes is None else round(length_bytes / _GIB, 1)


def _speed_cells(row: ChatRow) -> tuple[object, ...]:
    times = round(row.end_to_end_s, 2), round(row.first_byte_s, 3), round(row.messages_per_s, 3)
    shares = map(_percent, (row.hit_rate, row.none_cached, *row.above.values()))
    return row.shared_percent, row.chatters, row.policy, *times, *shares


def _tier_cells(row: ChatRow, names: Sequence[str]) -> tuple[object, ...]:
    hits = [_percent(row.hits_by_tier.get(name)) for name in names]
    down = [_gib(row.down_bytes.get(name)) for name in names[1:]]
    dropped, busy = _gib(row.dropped_bytes), _percent(row.gpu_busy)
    return row.shared_percent, row.chatters, row.policy, *hits, *down, dropped, busy


def _row_data(row: ChatRow) -> dict[str, object]:
    return {
        "shared_percent": row.shared_percent,
        "chatters": row.chatters,
        "policy": row.policy,
        "messages": row.messages,
        "makespan_s": row.makespan_s,
        "end_to_end_s": row.end_to_end_s,
        "first_byte_s": row.first_byte_s,
        "messages_per_s": row.messages_per_s,
        "hit_rate": row.hit_rate,
        "requests_with_none": row.none_cached,
        **{f"requests_from_{100 * limit:.0f}_percent": share for limit, share in row.above.items()},
        "hits_by_tier": dict(row.hits_by_tier),
        "down_bytes": dict(row.down_bytes),
        "dropped_bytes": row.dropped_bytes,
        "gpu_busy": row.gpu_busy,
    }


class ChatStudy:
    """Multi-turn chat in a closed loop."""

    name: str = "chat"
    about: str = """Compare eviction policies for prefix caching, in a multi-turn chat of many at once.

    \b
    nicemu study chat
    nicemu study chat --set chatters=32 --set tier.cpu_bytes=17179869184 --set tier.ssd_bytes=0
    nicemu study chat --set policies=lru,hint --set wrong_hints=0.2 --plot plots
    nicemu study chat --set shared_percent=0,25,50,75 --set policies=none,lru,pin

    CONFIG is a TOML file: chatters, policies, the workload (conversations, mean_turns, think_s, ...), and
    [set.TABLE] of the server's fields. docs/prefix-caching.md has all settings.
    """
    standard: Settings = ChatSettings()

    def run(self, settings: ChatSettings, seed: int, progress: Progress) -> ChatResult:
        """Run every policy with every number of chatters. Raises: UsageError."""
        serving = Serving(read_server(settings.server).having(settings.values, "the user"))
        talks = {
            percent: conversations(settings, serving.context_tokens, percent, seed)
            for percent in settings.shared_percent
        }
        cases = [
            (percent, chatters, policy)
            for percent in settings.shared_percent
            for chatters in settings.chatters
            for policy in settings.policies
        ]
        rows = []
        for place, (percent, chatters, policy) in enumerate(cases):
            progress(place / len(cases), f"{policy}, {chatters} chatters")
            limits = ServerLimits(settings.block_tokens, settings.prefill_tokens, policy == "triggered")
            run = ChatRun(
                serving, tiers_of(settings, serving, policy), policy, limits, settings.think_s, talks[percent]
            )
            rows.append(run.measure(percent, chatters, policy))
        return ChatResult(tuple(rows), _conditions(settings, serving))


def tiers_of(settings: ChatSettings, serving: Serving, policy: str) -> dict[str, int]:
    """Return the capacities in bytes of the tiers that a policy has: triggered offload has GPU and remote."""
    remote_bytes = int(settings.remote_gib * _GIB)
    sizes = {"GPU": int(serving.server.number("gpu.kv_bytes"))}
    if policy != "triggered":
        sizes["CPU"] = int(serving.server.number("tier.cpu_bytes"))
        sizes["NVMe"] = int(serving.server.number("tier.ssd_bytes"))
    if policy == "triggered" or settings.remote == "all":
        sizes["remote"] = remote_bytes
    if sizes["GPU"] < 1:
        raise UsageError("gpu.kv_bytes is 0; requests need memory for their KV")
    return {name: size for name, size in sizes.items() if size}


def _conditions(settings: ChatSettings, serving: Serving) -> tuple[str, ...]:
    tiers: Mapping[str, int] = tiers_of(settings, serving, "lru")
    told: Sequence[str] = [f"{name} {size / _GIB:.4g} GiB" for name, size in tiers.items()]
    shared = f", {settings.shared_tokens} tokens shared" if any(settings.shared_percent) else ""
    return (
        f"server {serving.server.name}: {', '.join(told)}; triggered: GPU, "
        f"remote {settings.remote_gib:.4g} GiB",
        f"{settings.conversations} conversations, think time {settings.think_s:g} s, blocks of "
        f"{settings.block_tokens} tokens, {100 * settings.wrong_hints:g} % of hints wrong{shared}",
    )
