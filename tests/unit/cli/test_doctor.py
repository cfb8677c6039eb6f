# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from nicemu.cli import devices, machine
from nicemu.cli.doctor import examine
from nicemu.cli.finding import Finding

Cli = Callable[..., Result]


def here() -> Finding:
    return Finding("here", True, "it is", needed=True)


def lacking() -> Finding:
    return Finding("lacking", False, "it is not", "get one")


def needed() -> Finding:
    return Finding("needed", False, "it is not", "get one at once", needed=True)


def failing_check() -> Finding:
    raise ValueError("odd machine")


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def choose(*chosen: Callable[[], Finding]) -> None:
        monkeypatch.setattr(machine, "MACHINE_CHECKS", chosen)
        monkeypatch.setattr(devices, "DEVICE_CHECKS", ())

    return choose


def test_what_is_only_useful_may_be_missing(nicemu: Cli, checks: Callable[..., None]) -> None:
    checks(here, lacking)
    result = nicemu("doctor")
    assert result.exit_code == 0
    assert "lacking: get one" in result.stdout


def test_what_nicemu_needs_may_not_be_missing(nicemu: Cli, checks: Callable[..., None]) -> None:
    checks(here, needed)
    result = nicemu("doctor")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "missing: needed"


def test_json_has_the_same_findings(nicemu: Cli, checks: Callable[..., None]) -> None:
    checks(here, needed)
    result = nicemu("doctor", "--json")
    assert result.exit_code == 1
    assert [(item["check"], item["ok"], item["cure"]) for item in json.loads(result.stdout)] == [
        ("here", True, ""),
        ("needed", False, "get one at once"),
    ]


def test_a_check_that_fails_itself_does_not_stop_the_others() -> None:
    findings = examine([failing_check, here])
    assert [finding.ok for finding in findings] == [False, True]
    assert "ValueError: odd machine" in findings[0].reason


def test_every_no_has_a_cure() -> None:
    checks = [
        machine.python,
        machine.packages,
        machine.sealed_memory,
        machine.runtime_folder,
        machine.direct_io,
        machine.spare_cores,
        devices.soft_roce,
        devices.verbs_bindings,
        devices.guests,
        devices.guest_programs,
    ]
    for finding in examine(checks):
        assert finding.ok or finding.cure, finding


@pytest.mark.process
def test_another_process_can_map_the_memory_it_is_sent() -> None:
    assert machine.memory_between_processes().ok


def test_a_folder_where_no_socket_fits_is_a_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    finding = machine.runtime_folder()
    assert not finding.ok
    assert finding.needed


def test_direct_io_needs_a_folder_that_can_be_written(tmp_path: Path) -> None:
    finding = machine.direct_io_in(tmp_path / "missing")
    assert not finding.ok
    assert "No such file or directory" in finding.reason


MOUNTS = r"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
22 21 0:20 / /dev/shm rw - tmpfs tmpfs rw
23 21 0:21 / /mnt/two\040words rw shared:2 master:1 - xfs /dev/sdb rw
24 21 0:22 / /mnt/two\040words rw - btrfs /dev/sdc rw
"""


@pytest.mark.parametrize(
    ("path", "system"),
    [("/home/me", "ext4"), ("/dev/shm/x", "tmpfs"), ("/dev/shmem", "ext4"), ("/mnt/two words/data", "btrfs")],
)
def test_a_path_is_on_the_file_system_mounted_last_at_its_nearest_mount_point(path: str, system: str) -> None:
    assert machine.file_system_of(Path(path), MOUNTS) == system


def test_an_rdma_device_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "class" / "infiniband" / "rxe0").mkdir(parents=True)
    assert devices.soft_roce(tmp_path, tmp_path) == Finding("RDMA device (SoftRoCE)", True, "rxe0")


def test_a_loaded_module_without_a_link_needs_a_link(tmp_path: Path) -> None:
    (tmp_path / "module" / "rdma_rxe").mkdir(parents=True)
    assert "rdma link add" in devices.soft_roce(tmp_path, tmp_path).cure


def test_a_module_that_is_not_loaded_is_to_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.release", lambda: "6.1.0")
    folder = tmp_path / "6.1.0" / "kernel" / "drivers"
    folder.mkdir(parents=True)
    assert "install" in devices.soft_roce(tmp_path, tmp_path).cure
    (folder / "rdma_rxe.ko.xz").touch()
    assert "modprobe rdma_rxe" in devices.soft_roce(tmp_path, tmp_path).cure
