# SPDX-License-Identifier: Apache-2.0
"""What serving a model costs: its key/value cache in bytes, prefills, decode steps and swaps in seconds.

Source: the costs' form is that of the fits in "Characterizing the Behavior and Impact of KV Caching on
Transformer Inferences under Concurrency", IPDPS 2025; docs/models.md has the constants.
"""

from __future__ import annotations

from collections.abc import Iterable

from nicemu.errors import UsageError

from .profile import Profile


class Serving:
    """A server's costs, ready to be asked often. `server` is a profile of `read_server`.

    Raises: UsageError if the model's geometry is impossible.
    """

    def __init__(self, server: Profile) -> None:
        number, whole = server.number, server.whole
        self.server = server
        self.layers, self.latent = whole("model.layers"), whole("model.latent_dim")
        heads, kv_heads, head_dim = (whole(f"model.{name}") for name in ("heads", "kv_heads", "head_dim"))
        if heads % kv_heads:
            raise UsageError(
                f"{server.name}: model.heads is {heads} and model.kv_heads {kv_heads}; each key/value head "
                "serves as many heads as any other, so that the first is a multiple of the second"
            )
        elements = self.latent or 2 * kv_heads * head_dim
        self.kv_token_bytes = self.layers * elements * whole("model.dtype_bytes")
        self.context_tokens = whole("model.context_tokens")
        flops = number("gpu.flops_per_s")
        self.linear_s = 2 * number("model.parameters") / (flops * number("gpu.linear_efficiency"))
        self.attention_s = 2 * self.layers * heads * head_dim / (flops * number("gpu.attention_efficiency"))
        self.prefill_fixed_s = number("gpu.prefill_fixed_s")
        self.decode_fixed_s = number("gpu.decode_fixed_s")
        self.decode_sequence_s = number("gpu.decode_sequence_s")
        self.decode_token_s = number("gpu.decode_token_s")

    @property
    def block_copies(self) -> int:
        """Copies that move one block: K and V of every layer lie apart, a latent is one."""
        return self.layers * (1 if self.latent else 2)

    def prompt_s(self, tokens: int, cached: int = 0) -> float:
        """Return the seconds that one prompt adds to a prefill, `cached` of its tokens having KV already.

        Every new token passes the weights, and attends to all tokens up to itself.
        """
        return self.linear_s * (tokens - cached) + self.attention_s * (tokens * tokens - cached * cached)

    def prefill_s(self, prompts: Iterable[int]) -> float:
        """Return the seconds of one prefill step over prompts of so many tokens."""
        return self.prefill_fixed_s + sum(self.prompt_s(tokens) for tokens in prompts)

    def decode_s(self, sequences: int, cached_tokens: int) -> float:
        """Return the seconds of one decode step over sequences that have so many tokens in the cache."""
        step_s = self.decode_fixed_s + self.decode_sequence_s * sequences
        return step_s + self.decode_token_s * cached_tokens

    def swap_s(self, blocks: int, block_tokens: int, memory: str = "pinned") -> float:
        """Return the seconds to copy blocks one way between GPU and host memory, pinned or pageable.

        K and V of every layer of a block are copies of their own, as in vLLM's first scheduler.
        """
        launch_s = self.server.number(f"copy.{memory}_launch_s")
        rate = self.server.number(f"copy.{memory}_bytes_per_s")
        return blocks * self.block_copies * launch_s + blocks * block_tokens * self.kv_token_bytes / rate

    @property
    def offload_bytes_per_s(self) -> float:
        """The rate of an offload, and of a fetch: that of the slower of NIC and remote store."""
        nic = self.server.number("offload.nic_bytes_per_s")
        store = self.server.number("offload.store_bytes_per_s")
        return min(nic, store) if store else nic

    def fetch_s(self, tokens: int) -> float:
        """Return the seconds until NICs have brought the KV of so many tokens from a remote store."""
        request_s = self.server.number("offload.request_s")
        return request_s + tokens * self.kv_token_bytes / self.offload_bytes_per_s
