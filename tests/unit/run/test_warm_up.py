# SPDX-License-Identifier: Apache-2.0
"""Code that another process has compiled is taken into the cache, function by function."""

from __future__ import annotations

from pathlib import Path

from nicemu.rdma import roce_batch
from nicemu.run import warm_up
from nicemu.run.warm_up import adopt


def write(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text)


def texts_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_functions_that_a_cache_lacks_are_taken_with_their_code_and_others_stay_as_they_are(
    tmp_path: Path,
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    write(there / "rdma", a__nbi="index of a", a__1__nbc="one", a__2__nbc="two")
    write(there / "rdma", b__nbi="another index of b", b__1__nbc="other code")
    write(here / "rdma", b__nbi="index of b", b__1__nbc="code of b")
    adopt(there, here)
    assert texts_of(here) == {
        "rdma/a.nbi": "index of a",
        "rdma/a.1.nbc": "one",
        "rdma/a.2.nbc": "two",
        "rdma/b.nbi": "index of b",
        "rdma/b.1.nbc": "code of b",
    }


def test_a_process_that_compiled_nothing_leaves_the_cache_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "here" / "rdma", b__nbi="index of b")
    adopt(tmp_path / "there", tmp_path / "here")
    assert texts_of(tmp_path / "here") == {"rdma/b.nbi": "index of b"}


def test_what_says_that_the_engine_is_compiled_is_one_of_its_ways_in() -> None:
    folder, name = warm_up._OF_ENGINE.split("/")
    assert (folder, name.split(".")[0]) == ("rdma", "roce_batch")
    assert callable(getattr(roce_batch, name.split(".")[1].split("-")[0]))
