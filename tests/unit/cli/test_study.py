# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Cli = Callable[..., Result]


def test_the_study_tells_rows_with_their_conditions_and_where_19_holds(nicemu: Cli) -> None:
    result = nicemu("study", "hpe", "--operation", "store")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("store, row")] == [
        "store, row 1: the tables alone",
        "store, row 2: the tables and a CPU's software",
        "store, row 5: a node by the tables alone",
        "store, row 9: hardware as it is, both ways pipelined",
    ]
    assert [line.strip() for line in lines if " holds " in line] == [
        "19 ± 0.5 holds nowhere",
        "19 ± 0.5 holds from 4.21 KiB to 6.01 KiB",
        "19 ± 0.5 holds from 238 KiB to 663 KiB",
        "19 ± 0.5 holds nowhere",
    ]
    assert any("44.15" in line and "2.25" in line and "19.62" in line for line in lines)
    assert "consistent with the talk under the conditions where it holds, no more" in lines[-2]


def test_json_has_the_same_and_the_same_bytes_whatever_the_seed(nicemu: Cli) -> None:
    words = ("study", "hpe", "--size", "4KiB", "--json")
    told = json.loads(nicemu(*words).stdout)
    assert nicemu(*words, "--seed", "7").stdout == nicemu(*words).stdout
    assert [(row["operation"], row["row"]) for row in told["rows"]] == [
        (operation, row) for operation in ("store", "fetch") for row in "1259"
    ]
    (point,) = told["rows"][1]["points"]
    assert (point["bytes"], round(point["speedup"], 2)) == (4096, 19.62)
    assert told["rows"][1]["holds"] == [[4307, 6158]]


def test_a_file_sets_what_the_study_is_about(nicemu: Cli, tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(
        'sizes = ["1 MiB"]\noperations = ["fetch"]\ntarget = 3\n[set.transfer]\ncompletion = "durable"\n'
    )
    told = json.loads(nicemu("study", "hpe", str(path), "--json").stdout)
    assert {row["operation"] for row in told["rows"]} == {"fetch"}
    assert told["target"] == 3
    assert all("transfer.completion = durable, as given" in row["conditions"] for row in told["rows"])
    path.write_text("sizes = 3")
    result = nicemu("study", "hpe", str(path))
    assert (result.exit_code, "sizes is 3" in result.stderr) == (1, True)


def test_plots_are_drawn_and_named(nicemu: Cli, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    folder = tmp_path / "plots"
    result = nicemu("study", "hpe", "--operation", "fetch", "--plot", str(folder))
    assert result.exit_code == 0, result.output
    assert str(folder / "hpe_fetch_speedup.svg") in result.stdout
    assert len(list(folder.iterdir())) == 6


def test_without_matplotlib_a_sentence_says_what_to_install(
    nicemu: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = nicemu("study", "hpe", "--plot", str(tmp_path / "plots"))
    assert result.exit_code == 1
    assert "pip install 'nicemu[plots]'" in result.stderr


def test_a_profile_is_shown_with_the_source_of_every_value(nicemu: Cli) -> None:
    plain = nicemu("model", "show").stdout
    assert "lambda_PCIE" not in plain
    told = nicemu("model", "show", "physical", "--explain").stdout
    (line,) = [line for line in told.splitlines() if line.startswith("link.latency_s")]
    assert "1.21e-06" in line
    assert "corrected" in line
    assert "misprint" in line or "digits of beta_DRAM" in line
    fields = json.loads(nicemu("model", "show", "--json", "--set", "node.gpus=4").stdout)["fields"]
    assert fields["node.gpus"]["value"] == 4
    assert fields["node.gpus"]["provenance"] == "given"
    assert fields["vram.s_per_byte"]["unit"] == "s/byte"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("model", "show", "nowhere"), 1, "there is no profile nowhere"),
        (("model", "show", "--set", "node.gpus"), 2, "--set node.gpus: FIELD=VALUE was expected"),
        (("model", "show", "--set", "node.gpu=1"), 1, "did you mean node.gpus?"),
        (("study", "hpe", "--size", "4kB"), 1, "'4kB' is no size"),
        (("study", "hpe", "--set", "pcie.latency_s=fast"), 1, "pcie.latency_s is 'fast'"),
    ],
)
def test_what_cannot_be_is_a_sentence(nicemu: Cli, words: tuple[str, ...], code: int, told: str) -> None:
    result = nicemu(*words)
    assert (result.exit_code, told in result.stderr) == (code, True), result.stderr
