# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from nicemu.errors import UsageError
from nicemu.model import PROFILES, Provenance, read_profile, read_server


@pytest.mark.parametrize("name", PROFILES)
def test_every_value_of_a_shipped_profile_says_where_it_comes_from(name: str) -> None:
    fields = read_profile(name).fields.values()
    assert all(field.source and field.provenance is not Provenance.GIVEN for field in fields)


def test_a_profile_stands_on_another_one() -> None:
    seed, physical = read_profile("seed"), read_profile("physical")
    assert physical.fields.keys() == seed.fields.keys()
    assert physical.number("vram.s_per_byte") == seed.number("vram.s_per_byte")
    assert 1 / physical.number("pcie.s_per_byte") == pytest.approx(55e9)


def test_units_are_those_that_the_names_end_in() -> None:
    fields = read_profile("seed").fields
    units = {
        "vram.s_per_byte": "s/byte",
        "pcie.latency_s": "s",
        "nvme.write_bytes_per_s": "bytes/s",
        "nvme.write_bytes_per_s_per_byte": "bytes/s per byte",
        "transfer.packet_bytes": "bytes",
        "node.gpus": "",
        "nvme.reading": "",
    }
    assert {name: fields[name].unit for name in units} == units


def test_a_user_s_file_changes_some_fields_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(
        'title = "ours"\nbased_on = "physical"\n'
        '[pcie]\nlatency_s = 7e-7\n[link]\ns_per_byte = [2e-11, "fitted", "a sweep"]\n'
    )
    profile = read_profile(path)
    assert (profile.name, profile.title) == ("ours", "ours")
    assert (profile.number("pcie.latency_s"), profile.number("link.s_per_byte")) == (7e-7, 2e-11)
    provenance = [profile.fields[name].provenance for name in ("pcie.latency_s", "link.s_per_byte")]
    assert provenance == [Provenance.GIVEN, Provenance.FITTED]
    (tmp_path / "more.toml").write_text('based_on = "ours.toml"\n[node]\ngpus = 4\n')
    assert read_profile(tmp_path / "more.toml").number("pcie.latency_s") == 7e-7


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[pcie]\nlatency = 1", r"there is no field pcie\.latency; did you mean pcie\.latency_s"),
        ("[pcie]\nlatency_s = 1e31", r"pcie\.latency_s is 1e\+31; 1e-30 to 1e\+06 was expected, or 0"),
        ("[link]\ns_per_byte = 1e-300", r"link\.s_per_byte is 1e-300; 1e-30 to 1 was expected, or 0"),
        ("[pcie]\nlatency_s = -1", r"pcie\.latency_s is -1; it is a finite number, 0 at least"),
        ("[pcie]\nlatency_s = nan", r"pcie\.latency_s is nan"),
        ("[pcie]\nlatency_s = inf", r"pcie\.latency_s is inf"),
        ("[pcie]\nlatency_s = true", r"pcie\.latency_s is True"),
        (
            "[pcie]\nlatency_s = [1, 2]",
            r"pcie\.latency_s is \[1, 2\]; a value, or \[value, provenance, source\]",
        ),
        (
            '[pcie]\nlatency_s = [1, "guessed", "me"]',
            r"one of printed, corrected, fitted, measured, assumed, given",
        ),
        ("[node]\ngpus = 0", r"node\.gpus is 0; it is a whole number from 1"),
        ("[node]\ngpus = 1.5", r"node\.gpus is 1\.5; it is a whole number"),
        (
            "[nvme]\nwrite_bytes_per_s = 0",
            r"nvme\.write_bytes_per_s is 0; it is a finite number, more than 0",
        ),
        ("[pcie]\nlatency_s = 1e7", r"pcie\.latency_s is 10000000\.0; 1e-30 to 1e\+06 was expected"),
        ("[link]\ns_per_byte = 2", r"link\.s_per_byte is 2; 1e-30 to 1 was expected"),
        ("[nvme]\nread_intercept = 1e300", r"nvme\.read_intercept is 1e\+300; 1e-30 to 1e\+18 was expected"),
        ("[nic]\ntrigger_slots = 0", r"nic\.trigger_slots is 0; it is a whole number from 1 to 2048"),
        ('[nvme]\nreading = "ms"', r"nvme\.reading is 'ms'; one of fixed_and_rate, latency_alone"),
        ('[nic]\nstages = "serial, serial"', r"nic\.stages is 'serial, serial'; some of memory, alu, serial"),
        ('[nic]\nstages = ""', r"nic\.stages is ''"),
        ("pcie = 3", r"pcie is 3; a table of fields was expected"),
        ("[pcie", r"ours\.toml: "),
        ("title = 1", r"title and based_on are texts"),
    ],
)
def test_what_cannot_be_is_refused_with_file_and_field(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(text if text.startswith(("title", "pcie =")) else f'based_on = "seed"\n{text}\n')
    if text.startswith(("pcie =",)):
        path.write_text(f'based_on = "seed"\n{text}\n')
    with pytest.raises(UsageError, match=told) as raised:
        read_profile(path)
    assert "ours.toml" in str(raised.value)


def test_a_profile_that_is_not_there_or_stands_on_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no profile nowhere; seed, physical or a TOML file"):
        read_profile("nowhere")
    (tmp_path / "a.toml").write_text('based_on = "b.toml"\n')
    (tmp_path / "b.toml").write_text('based_on = "a.toml"\n')
    with pytest.raises(UsageError, match="it is based on itself"):
        read_profile(tmp_path / "a.toml")
    (tmp_path / "c.toml").write_text('based_on = "d.toml"\n')
    with pytest.raises(UsageError, match=r"there is no profile d\.toml; seed, physical or a file"):
        read_profile(tmp_path / "c.toml")
    (tmp_path / "e.toml").write_text("[node]\ngpus = 2\n")
    with pytest.raises(
        UsageError, match=r'e\.toml lacks vram\.s_per_byte.*; give them, or based_on = "seed"'
    ):
        read_profile(tmp_path / "e.toml")


def test_a_server_is_no_profile_and_that_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"there is no profile h100_llama31_8b.* \(h100_llama31_8b is a server"
    ):
        read_profile("h100_llama31_8b")
    with pytest.raises(UsageError, match=r"there is no server seed; .* \(seed is a profile\)"):
        read_server("seed")
    (tmp_path / "a.toml").write_text('based_on = "h100_llama31_8b"\n')
    with pytest.raises(UsageError, match=r"a\.toml: there is no profile h100_llama31_8b.* is a server\)"):
        read_profile(tmp_path / "a.toml")


def test_a_field_that_is_not_there_is_to_be_looked_for_where_its_like_are() -> None:
    with pytest.raises(UsageError, match=r"no field colour; `nicemu model show` lists them"):
        read_profile("seed").having({"colour": 1})
    with pytest.raises(UsageError, match=r"no field colour; `nicemu model show --server` lists them"):
        read_server("h100_llama31_8b").having({"colour": 1})


def test_fields_are_set_by_name() -> None:
    profile = read_profile("seed").having({"node.gpus": 4})
    assert (profile.whole("node.gpus"), profile.fields["node.gpus"].provenance) == (4, Provenance.GIVEN)
    with pytest.raises(UsageError, match=r"seed: there is no field node\.gpu; did you mean node\.gpus"):
        profile.having({"node.gpu": 4})
