# SPDX-License-Identifier: Apache-2.0
"""What the replay of a trace may be told, and what it stands on: a hardware profile, and a server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nicemu.errors import UsageError
from nicemu.model import Profile, Serving, read_profile, read_server
from nicemu.study.contract import Settings, choice, number, one_of, several, text, whole
from nicemu.study.traces import BLOCK_TOKENS, FORMATS

DRIVE_BYTES = 3_840_000_000_000
_MOST_PAIRS = 1 << 14
"""Each pair of a GPU and a storage node has its own way."""


class ReplayWay(StrEnum):
    """What happens to the KV of a prompt."""

    NONE = "none"
    CPU = "cpu"
    TRIGGERED = "triggered"


class Detail(StrEnum):
    """How a transfer is followed: as one, or every message of it as an event of its own."""

    TRANSFER = "transfer"
    CHUNK = "chunk"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings(Settings):
    """What is replayed, on what."""

    trace: str = text("")
    format: str = choice("auto", "auto", *FORMATS)
    first: int = whole(0, 0, 10**12)
    requests: int = whole(12_000, 1, 10**9)
    rate: float = number(1.0, 1e-6, 1e6)
    ways: tuple[str, ...] = several(tuple(ReplayWay), one_of(*ReplayWay))
    profile: str = text("physical")
    server: str = text("h100_llama31_8b")
    storage_nodes: int = whole(4, 1, 1024)
    storage_nics: int = whole(2, 1, 64)
    drives: int = whole(4, 1, 64)
    nvme_request_bytes: int = whole(8 << 20, 4096, 1 << 30)
    store_bytes: float = number(4 * 4 * DRIVE_BYTES)
    least_blocks: int = whole(1, 1, 1 << 20)
    placement: str = choice("block", "block", "prefix")
    cores: int = whole(8, 1, 1024)
    message: str = choice("chunk", "token_layer", "chunk", "block")
    detail: str = choice("transfer", *Detail)


@dataclass(frozen=True, slots=True)
class Ground:
    """What a replay stands on, read and checked."""

    hardware: Profile
    serving: Serving
    block_bytes: int
    message_bytes: int
    held_blocks: int
    """Blocks that the storage nodes hold, 0 if they hold all."""


def ground_of(settings: ReplaySettings) -> Ground:
    """Return what settings stand on.

    KV lies on the drives, if the user does not say otherwise of `transfer.completion`. A field that the
    user sets goes into the profile that has it.
    Raises: UsageError if a field is in neither, the store holds no block, or GPUs and nodes are too many.
    """
    hardware = read_profile(settings.profile)
    hardware = hardware.having({"transfer.completion": "durable"}, "the study: KV lies on the drives")
    server = read_server(settings.server)
    known = {**hardware.fields, **server.fields}
    of_hardware = {name: value for name, value in settings.values.items() if name not in server.fields}
    of_server = {name: value for name, value in settings.values.items() if name in server.fields}
    unknown = [name for name in of_hardware if name not in known]
    if unknown:
        raise UsageError(
            f"there is no field {unknown[0]}, neither in the profile {hardware.name} nor in the server "
            f"{server.name}; `nicemu model show` and `nicemu model show --server` list them"
        )
    hardware, serving = (
        hardware.having(of_hardware, "the user"),
        Serving(server.having(of_server, "the user")),
    )
    block_bytes = BLOCK_TOKENS * serving.kv_token_bytes
    message_bytes = {
        "token_layer": serving.kv_token_bytes // serving.layers,
        "chunk": block_bytes // serving.layers,
        "block": block_bytes,
    }[settings.message]
    gpus = hardware.whole("node.gpus")
    if gpus * settings.storage_nodes > _MOST_PAIRS:
        raise UsageError(
            f"node.gpus is {gpus:,} and storage_nodes {settings.storage_nodes:,}; {_MOST_PAIRS:,} pairs of "
            "them at most were expected"
        )
    held_blocks = int(settings.store_bytes // block_bytes)
    if settings.store_bytes and not held_blocks:
        raise UsageError(
            f"store_bytes is {settings.store_bytes:g}; a block of {BLOCK_TOKENS} tokens has {block_bytes:,} "
            "bytes, and one at least was expected, or 0 for a store without bound"
        )
    return Ground(hardware, serving, block_bytes, message_bytes, held_blocks)
