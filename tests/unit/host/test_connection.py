# SPDX-License-Identifier: Apache-2.0
"""Which NIC `open_nic` means, among those that are up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nicemu.errors import UsageError
from nicemu.host import open_nic


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what is up: compute0 in two topologies, storage0 in one of them; nobody serves."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for folder, topology, nics in (
        ("a1", "first", ("compute0", "storage0")),
        ("b2", "second", ("compute0",)),
    ):
        place = tmp_path / "nicemu" / folder
        place.mkdir(parents=True)
        (place / "state").write_text(json.dumps({"topology": topology}))
        for nic in nics:
            (place / f"{nic}.sock").touch()
    return tmp_path / "nicemu"


def test_a_name_that_two_topologies_have_is_refused_with_the_cure(up: Path) -> None:
    said = (
        r"2 NICs called compute0 are up, of the topologies first, second; choose one: "
        r"open_nic\('compute0', topology='first'\)"
    )
    with pytest.raises(UsageError, match=said):
        open_nic("compute0")


@pytest.mark.parametrize(("topology", "folder"), [("first", "a1"), ("second", "b2")])
def test_the_topology_chooses_among_nics_of_one_name(up: Path, topology: str, folder: str) -> None:
    with pytest.raises(UsageError, match=f"no NIC serves at {up / folder / 'compute0.sock'}"):
        open_nic("compute0", topology=topology)


def test_a_name_that_one_topology_has_needs_no_other(up: Path) -> None:
    with pytest.raises(UsageError, match=f"no NIC serves at {up / 'a1' / 'storage0.sock'}"):
        open_nic("storage0")
    (up / "a1" / "state").unlink()
    with pytest.raises(UsageError, match=f"no NIC serves at {up / 'a1' / 'storage0.sock'}"):
        open_nic("storage0", topology="a1")


def test_a_name_that_is_not_up_is_refused_with_those_that_are(up: Path) -> None:
    known = r"up are compute0 \(first\), storage0 \(first\), compute0 \(second\)"
    with pytest.raises(UsageError, match=f"no NIC called gpu0 is up; {known}"):
        open_nic("gpu0")
    with pytest.raises(UsageError, match=f"no NIC called storage0 of topology second is up; {known}"):
        open_nic("storage0", topology="second")


def test_a_nic_has_a_name_and_a_host_a_time_to_spin(up: Path) -> None:
    with pytest.raises(UsageError, match="a NIC is named by text or by the path of its socket, not 3"):
        open_nic(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="spin_s is a number of seconds"):
        open_nic("storage0", spin_s=-1)
