# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from nicemu import calibration
from nicemu.calibration import Calibration, Curve, DriveFolder, measure_copy, measure_drive, plot_calibration
from nicemu.calibration.curve import ROUNDS
from nicemu.cli import main
from nicemu.errors import UsageError
from nicemu.model import Operation, Provenance, Way, nvme_s, read_profile, transfer_s, write_profile

SIZES = [1 << power for power in range(12, 23, 2)]


def line(name: str, latency_s: float, s_per_byte: float) -> Curve:
    return Curve(name, tuple((size, latency_s + s_per_byte * size) for size in SIZES))


MEASURED = Calibration(
    {
        "copy": line("memory copy", 0.0, 2e-10),
        "drive write": line("drive write", 5e-5, 3e-10),
        "drive read": line("drive read", 6e-5, 5e-10),
        "drive randread": line("drive randread", 7e-5, 6e-10),
        "link shm": line("link shm", 9e-5, 4e-10),
    },
    "shm",
    {"link udp": "it is not here"},
)


def test_a_transfer_under_the_profile_takes_what_the_link_took() -> None:
    profile = MEASURED.profile("here")
    for size in SIZES:
        wanted_s = MEASURED.curves["link shm"].fit.of(size)
        assert transfer_s(profile, Way.TRIGGERED, Operation.STORE, size) == pytest.approx(wanted_s)


def test_a_drive_under_the_profile_takes_what_writes_and_random_reads_took() -> None:
    profile = MEASURED.profile("here")
    for operation, name in ((Operation.STORE, "drive write"), (Operation.FETCH, "drive randread")):
        for size in SIZES:
            assert nvme_s(profile, operation, size) == pytest.approx(MEASURED.curves[name].fit.of(size))


def test_what_was_measured_says_so_with_its_residual_and_the_rest_is_physical() -> None:
    profile, physical = MEASURED.profile("here"), read_profile("physical")
    link = profile.fields["link.latency_s"]
    assert link.provenance is Provenance.MEASURED
    assert link.source == "link shm, 6 sizes from 4 KiB to 4 MiB, residual 0.0%"
    assert profile.fields["software.copy_launch_s"] == physical.fields["software.copy_launch_s"]


def test_a_drive_that_was_not_measured_stays_the_physical_one() -> None:
    curves = {name: curve for name, curve in MEASURED.curves.items() if not name.startswith("drive")}
    profile = Calibration(curves, "shm", {"drive": "no folder"}).profile("here")
    assert profile.fields["nvme.read_intercept"] == read_profile("physical").fields["nvme.read_intercept"]


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    profile = MEASURED.profile("here")
    write_profile(profile, tmp_path / "here.toml")
    found = read_profile(tmp_path / "here.toml")
    assert (found.name, found.title, dict(found.fields)) == (
        profile.name,
        profile.title,
        dict(profile.fields),
    )
    with pytest.raises(UsageError, match="cannot be written"):
        write_profile(profile, tmp_path / "none" / "here.toml")


def test_its_plot_is_drawn_the_same_twice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    first, second = (plot_calibration(MEASURED, tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in first] == ["calibration.png", "calibration.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_copy_of_more_takes_longer() -> None:
    curve = measure_copy([1 << 16, 1 << 24], lambda text: None)
    assert [size for size, _ in curve.points] == [1 << 16, 1 << 24]
    assert 0 < curve.points[0][1] < curve.points[1][1]


def test_a_drive_s_file_is_read_and_written_and_gone_afterwards(tmp_path: Path) -> None:
    try:
        drive = DriveFolder(tmp_path, 1 << 20)
    except UsageError as error:
        pytest.skip(f"no O_DIRECT here: {error}")
    told: list[str] = []
    with drive:
        assert not list(tmp_path.iterdir()), "also if this process is killed"
        curves = measure_drive(drive, 1 << 20, [4096, 65536], told.append)
    assert list(curves) == ["write", "read", "randread"]
    assert all(seconds > 0 for curve in curves.values() for _, seconds in curve.points)
    assert len(told) == 3 * ROUNDS * 2
    assert not list(tmp_path.iterdir())


def test_memory_is_no_drive() -> None:
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    if not any(line.split()[1:3] == ["/dev/shm", "tmpfs"] for line in mounts):
        pytest.skip("there is no tmpfs at /dev/shm")
    with pytest.raises(UsageError, match=r"tmpfs is memory; give a folder on a drive|Invalid argument; give"):
        DriveFolder(Path("/dev/shm"), 4096)
    assert not Path(f"/dev/shm/.nicemu-calibrate-{os.getpid()}").exists()


class _Failing(DriveFolder):
    def write(self, size: int, offset: int) -> None:
        raise OSError(5, "Input/output error")


def test_a_drive_that_fails_from_the_start_is_told(tmp_path: Path) -> None:
    try:
        drive = _Failing(tmp_path, 1 << 20)
    except UsageError as error:
        pytest.skip(f"no O_DIRECT here: {error}")
    with drive, pytest.raises(UsageError, match="the drive: Input/output error"):
        measure_drive(drive, 1 << 20, [4096], lambda text: None)


def test_a_folder_that_cannot_hold_the_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a file without the page cache: No such file"):
        DriveFolder(tmp_path / "none", 4096)
    with pytest.raises(UsageError, match=r"bytes: |page cache"):
        DriveFolder(tmp_path, 1 << 60)
    assert not list(tmp_path.iterdir())


def test_the_command_prints_writes_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    monkeypatch.setattr(calibration, "calibrate", lambda disk, link, progress: MEASURED)
    out = tmp_path / "here.toml"
    words = ["calibrate", "--out", str(out), "--plot", str(tmp_path), "--disk", str(tmp_path)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "link shm" in result.output
    assert "left out: link udp: it is not here" in result.output
    assert read_profile(out).number("link.latency_s") == pytest.approx(9e-5)
    data = json.loads(CliRunner().invoke(main, ["calibrate", "--json"]).output)
    assert data["curves"]["link shm"]["latency_s"] == pytest.approx(9e-5)
    assert data["profile"]["link.s_per_byte"] == pytest.approx(4e-10)


def test_a_place_that_cannot_be_written_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(*_: object) -> None:
        pytest.fail("it was measured")

    monkeypatch.setattr(calibration, "calibrate", measure)
    result = CliRunner().invoke(main, ["calibrate", "--out", str(tmp_path / "none" / "here.toml")])
    assert result.exit_code == 1
    assert "here.toml cannot be written; give another place" in f"{result.output} {result.exception}"


def test_a_calibration_that_is_terminated_ends_as_one_that_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = []

    def measure(*_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            stopped.append("NICs")

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    monkeypatch.setattr(calibration, "calibrate", measure)
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # should the command not take it
        result = CliRunner().invoke(main, ["calibrate"])
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), before, strict=True):
            signal.signal(number, handler)
    assert result.exit_code == 130
    assert "interrupted; everything was stopped" in result.output
    assert stopped == ["NICs"]
