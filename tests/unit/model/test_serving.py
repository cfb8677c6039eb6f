# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nicemu.errors import UsageError
from nicemu.model import SERVERS, Provenance, Serving, read_server

A100 = Serving(read_server("a100_llama2_7b"))


@pytest.mark.parametrize("name", SERVERS)
def test_every_value_of_a_server_says_where_it_comes_from(name: str) -> None:
    fields = read_server(name).fields.values()
    assert all(field.source and field.provenance is not Provenance.GIVEN for field in fields)


@pytest.mark.parametrize(
    ("layers", "heads", "kv_heads", "latent_dim", "token_bytes"),
    [(32, 32, 32, 0, 524_288), (80, 64, 8, 0, 327_680), (28, 28, 4, 0, 57_344), (61, 128, 128, 576, 70_272)],
    ids=["Llama-2-7B", "Llama-2-70B", "Qwen2.5-7B", "DeepSeek-V3"],
)
def test_a_token_has_two_vectors_a_layer_and_key_value_head_or_one_latent(
    layers: int, heads: int, kv_heads: int, latent_dim: int, token_bytes: int
) -> None:
    shape = {"layers": layers, "heads": heads, "kv_heads": kv_heads, "latent_dim": latent_dim}
    server = read_server("a100_llama2_7b").having({f"model.{name}": value for name, value in shape.items()})
    assert Serving(server).kv_token_bytes == token_bytes


def test_heads_share_key_value_heads_evenly() -> None:
    with pytest.raises(UsageError, match=r"model\.heads is 32 and model\.kv_heads 6"):
        Serving(read_server("a100_llama2_7b").having({"model.kv_heads": 6}))


@pytest.mark.parametrize(
    ("tokens", "published_s"),
    [(1024, 0.067540), (2048, 0.128356), (4096, 0.257509), (8192, 0.543983), (16384, 1.216800)],
)
def test_a_prefill_costs_what_was_measured_on_an_a100(tokens: int, published_s: float) -> None:
    assert A100.prefill_s([tokens]) == pytest.approx(published_s, rel=0.01)


@pytest.mark.parametrize(
    ("block_tokens", "pinned_s", "pageable_s"),
    [
        (2, 0.806272, 1.809973),
        (4, 0.506584, 1.168730),
        (8, 0.334184, 0.833906),
        (16, 0.254355, 0.692600),
        (32, 0.210494, 0.605931),
        (64, 0.180777, 0.560972),
    ],
)
def test_a_swap_out_and_back_costs_what_was_measured(
    block_tokens: int, pinned_s: float, pageable_s: float
) -> None:
    blocks = 4096 // block_tokens
    assert 2 * A100.swap_s(blocks, block_tokens) == pytest.approx(pinned_s, rel=0.05)
    assert 2 * A100.swap_s(blocks, block_tokens, "pageable") == pytest.approx(pageable_s, rel=0.02)


def test_a_cached_prefix_leaves_its_own_work_undone() -> None:
    whole = A100.prompt_s(4096)
    assert A100.prompt_s(1024) + A100.prompt_s(4096, cached=1024) == pytest.approx(whole)
    assert A100.prompt_s(4096, cached=4096) == 0


def test_a_fetch_is_as_fast_as_the_slower_of_nic_and_store() -> None:
    assert A100.fetch_s(1000) == pytest.approx(5e-6 + 1000 * 524_288 / 12.5e9)
    slow = Serving(read_server("a100_llama2_7b").having({"offload.store_bytes_per_s": 5e9}))
    assert slow.fetch_s(1000) == pytest.approx(5e-6 + 1000 * 524_288 / 5e9)
