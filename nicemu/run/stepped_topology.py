# SPDX-License-Identifier: Apache-2.0
"""A topology in the stepper: its NICs in one process, in virtual time, with what they run loaded."""

from __future__ import annotations

from nicemu.abi import Limits
from nicemu.errors import UsageError
from nicemu.model import Profile, read_profile, timings_of
from nicemu.nic import NamespaceConfig, NicConfig
from nicemu.timing import Timings

from .fabrics import transport_of
from .simulation import Simulation
from .topology import NicEntry, Topology

BLOCK_BYTES = 4096


def simulate(
    topology: Topology,
    profile: Profile | None = None,
    *,
    fabric: str | None = None,
    compiled: bool = False,
    seed: int = 1,
) -> Simulation:
    """Return a simulation of a topology's NICs, their programs and firmware loaded, in virtual time.

    They cost what `profile` says, or the topology's own. Over a fabric of RDMA frames every frame is
    modelled; what a topology says of faults, machines and interfaces is of no concern here. Namespaces are
    empty. Trigger units that are Cassini's have the slots that the profile says.
    Raises: UsageError for a fabric that there is no model of; what loading a program or firmware raises.
    """
    if profile is None and topology.profile is not None:
        profile = read_profile(topology.profile)
    transport = transport_of(fabric or topology.fabric)
    if transport == "verbs":
        raise UsageError(
            f"{fabric or topology.fabric} has a time of its own; direct, udp or shm was expected"
        )
    timings = Timings() if profile is None else timings_of(profile)
    configs = [
        NicConfig(
            nic.name,
            f"127.0.1.{number}",
            number,
            nic.memory_bytes,
            limits=_limits(nic, profile),
            namespaces=tuple(
                NamespaceConfig(space.nsid, space.size_bytes // BLOCK_BYTES, BLOCK_BYTES)
                for space in nic.namespaces
            ),
            transport=transport,
            path_mtu=topology.path_mtu,
            timings=timings,
            seed=seed,
            selective_retransmission=topology.selective_retransmission,
            congestion_control=topology.congestion_control,
        )
        for number, nic in enumerate(topology.nics, start=1)
    ]
    simulation = Simulation(configs, compiled=compiled, seed=seed)
    for nic in topology.nics:
        simulation.load_program(nic.name, nic.p4, nic.include_paths, nic.defines)
        simulation.load_firmware(nic.name, nic.firmware)
    return simulation


def _limits(nic: NicEntry, profile: Profile | None) -> Limits:
    if profile is None or nic.limits != "cassini":
        return Limits.named(nic.limits)
    return Limits.named(nic.limits, service_slots=profile.whole("nic.trigger_slots"))
