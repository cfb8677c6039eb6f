# SPDX-License-Identifier: Apache-2.0
"""What is refused before anything is started, with nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.run import Instance, supervisor
from nicemu.run.fabrics import makes_interface

TOPOLOGY = "examples/two_storage_nodes.toml"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime folder of the test's own, from which no NIC is started."""

    def compile_datapath(progress: object) -> None:
        raise AssertionError("it was not refused")

    monkeypatch.setattr(supervisor, "compile_datapath", compile_datapath)
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    return tmp_path / "run"


def left_in(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path != root / "nicemu"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"trace": "{tmp}/missing/trace.json"},
            "--trace .*/trace.json: no trace can be written there .No such",
        ),
        ({"trace": "/proc/trace.json"}, "--trace /proc/trace.json: no trace can be written there"),
        ({"trace": "{tmp}"}, "no trace can be written there .Is a directory"),
        ({"trace": "{tmp}/file/trace.json"}, "no trace can be written there .Not a directory"),
        ({"pcap": "/proc/x"}, "--pcap /proc/x: no captures can be written there"),
        ({"pcap": "{tmp}/file"}, "no captures can be written there .File exists"),
    ],
)
def test_a_place_where_nothing_can_be_recorded_is_refused_before_anything_starts(
    root: Path, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    (tmp_path / "file").touch()
    places: dict[str, Any] = {key: Path(place.format(tmp=tmp_path)) for key, place in options.items()}
    with pytest.raises(UsageError, match=sentence):
        Instance.start(TOPOLOGY, data=tmp_path, **places)
    assert left_in(root) == []


def test_a_nic_with_more_memory_than_the_machine_has_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_text(
        '[nic.a]\np4 = "p4/kvserve.p4"\nfirmware = "firmware/kv_storage.py"\nmemory = "1048576 GiB"\n'
    )
    with pytest.raises(UsageError, match=r"large.toml: nic.a.memory is \d+ bytes; this machine has \d+"):
        Instance.start(tmp_path / "large.toml", data=tmp_path)
    assert left_in(root) == []


def test_of_nics_at_two_ends_of_a_tap_interface_the_one_that_makes_it_is_started_first() -> None:
    ends = {"on": "packet:x", "made": "tap:x", "alone": "tap:y", "other": "xdp:z"}
    assert [name for name in ends if makes_interface(ends, name)] == ["made"]
    for end in ("packet:z", "udp"):
        assert not makes_interface({"on": end, "made": "tap:x"}, "made")
