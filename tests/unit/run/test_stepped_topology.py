# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from nicemu.errors import UsageError
from nicemu.model import read_profile, timings_of
from nicemu.programs import programs_root
from nicemu.run import load_topology, simulate

PHYSICAL = read_profile("physical")
NIC = '[nic.a]\np4 = "p4/kvserve.p4"\nfirmware = "firmware/kv_storage.py"\nlimits = "{limits}"\n'


def test_a_topology_s_nics_run_their_programs_in_virtual_time() -> None:
    simulation = simulate(load_topology("examples/two_storage_nodes.toml"), PHYSICAL)
    assert list(simulation.nics) == ["compute0", "storage0", "storage1"]
    for nic in simulation.nics.values():
        assert nic.config.timings == timings_of(PHYSICAL)
        assert nic.pipeline.program is not None
        assert nic.firmware.names()
    assert simulation.nics["storage1"].config.namespaces[0].block_count == (64 << 20) // 4096


def test_a_topology_may_name_its_own_profile(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('profile = "ours.toml"\n' + NIC.format(limits="unlimited"))
    (tmp_path / "ours.toml").write_text('based_on = "physical"\n[link]\nlatency_s = 1e-3\n')
    (nic,) = simulate(load_topology(tmp_path / "one.toml")).nics.values()
    assert nic.config.timings.link.latency_ns == pytest.approx(1e6)
    assert simulate(load_topology(tmp_path / "one.toml"), PHYSICAL).nics["a"].config.timings == timings_of(
        PHYSICAL
    )


def test_a_nic_s_program_finds_includes_and_macros_that_the_topology_names(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "part.p4").write_text("#if LANES == 4\n#include <p4/kvserve.p4>\n#endif\n")
    (tmp_path / "parts" / "p4").symlink_to(programs_root() / "p4")
    (tmp_path / "own.p4").write_text("#include <part.p4>\n")
    own = 'include = ["parts"]\ndefine = { LANES = 4 }\n'
    text = NIC.format(limits="unlimited").replace("p4/kvserve.p4", "own.p4") + own
    (tmp_path / "one.toml").write_text(text)
    (nic,) = simulate(load_topology(tmp_path / "one.toml")).nics.values()
    assert nic.pipeline.program is not None
    assert [table.name for table in nic.pipeline.tables()] == ["KvServe.chunk"]


@pytest.mark.parametrize(("limits", "slots"), [("cassini", 37), ("unlimited", 1 << 20)])
def test_a_trigger_unit_of_hardware_has_the_slots_that_the_profile_says(
    limits: str, slots: int, tmp_path: Path
) -> None:
    (tmp_path / "one.toml").write_text(NIC.format(limits=limits))
    profile = PHYSICAL.having({"nic.trigger_slots": 37})
    (nic,) = simulate(load_topology(tmp_path / "one.toml"), profile).nics.values()
    assert nic.unit.limits.host_slots == slots


def test_an_rdma_device_has_a_time_of_its_own() -> None:
    with pytest.raises(UsageError, match="verbs:rxe0 has a time of its own"):
        simulate(load_topology("examples/two_storage_nodes.toml"), PHYSICAL, fabric="verbs:rxe0")
