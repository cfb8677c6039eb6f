# SPDX-License-Identifier: Apache-2.0
"""The hardware of a replay as stages that transfers contend for: GPUs, NICs, links, cores, drives.

The stages of a way between GPU memory and drives are those of the model (`stages_of`); here each is given to
the one that owns it. A GPU has its PCIe slot and, as far as the profile's NICs go, its NIC; cores and DRAM
are the node's. The NICs of a storage node, each with a link, are for a part of the GPUs each. Both directions
of PCIe, NICs and links work on their own, and so do reads and writes of drives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nicemu.model import BusyStage, Operation, Stage, Way, nvme_s, software_s, stages_of

from .settings import Detail, Ground, ReplaySettings


class _Owner(NamedTuple):
    """What a stage belongs to: a kind that is told together, and which one of it."""

    kind: str
    number: int = 0


GROUPS = (
    "NIC, link in",
    "NIC, link out",
    "storage NIC, in",
    "storage NIC, out",
    "NVMe read",
    "NVMe write",
    "compute cores",
    "storage cores",
)
"""The kinds of stages whose use is told."""


class Cluster:
    """The stages of one way, idle at first.

    `grain_bytes` is what a stage hands on: a message where the profile stores and forwards, else a packet.
    """

    def __init__(self, ground: Ground, settings: ReplaySettings, way: Way) -> None:
        hardware = ground.hardware
        self.way = way
        self.gpus = hardware.whole("node.gpus")
        self.nodes = settings.storage_nodes
        self.grain_bytes = ground.message_bytes
        if hardware.text(f"transfer.{way}") == "pipelined" and settings.detail == Detail.TRANSFER:
            self.grain_bytes = min(ground.message_bytes, hardware.whole("transfer.packet_bytes"))
        self._ground, self._settings = ground, settings
        shared = way is Way.CPU and hardware.text("transfer.cpu_shares") != "none"
        self._nics = 1 if shared else min(hardware.whole("node.nics"), self.gpus)
        self._alone = hardware.having({"transfer.cpu_shares": "none"})
        self._stages: dict[_Owner, BusyStage] = {}
        self._paths = {
            (operation, gpu, node): tuple(self._path(operation, gpu, node))
            for operation in Operation
            for gpu in range(self.gpus)
            for node in range(self.nodes)
        }

    def path(self, operation: Operation, gpu: int, node: int) -> tuple[BusyStage, ...]:
        """Return the stages between a GPU and a storage node, in the order in which bytes pass."""
        return self._paths[operation, gpu, node]

    def use(self, span_s: float) -> dict[str, tuple[float, float]]:
        """Return for each group which part of a span its members work, on average and the busiest."""
        found = {}
        for group in GROUPS:
            busy = [stage.busy_s for owner, stage in self._stages.items() if owner.kind == group]
            if busy:
                found[group] = (sum(busy) / len(busy) / span_s, max(busy) / span_s) if span_s else (0.0, 0.0)
        return found

    def core_s(self) -> tuple[float, float]:
        """Return the seconds that cores worked, all of the compute node's and all of the storage nodes'."""
        found = {
            kind: self._settings.cores
            * sum(stage.busy_s for owner, stage in self._stages.items() if owner.kind == kind)
            for kind in ("compute cores", "storage cores")
        }
        return found["compute cores"], found["storage cores"]

    def _path(self, operation: Operation, gpu: int, node: int) -> Iterator[BusyStage]:
        found: dict[_Owner, BusyStage] = {}
        for owner, stage in self._owned(operation, gpu, node):
            if owner in found:  # a second pass through the same: DRAM is written, then read
                continue
            if owner not in self._stages:
                self._stages[owner] = BusyStage(owner.kind, stage.latency_s, stage.s_per_byte)
            found[owner] = self._stages[owner]
        stages = list(found.values())
        yield from stages if operation is Operation.STORE else reversed(stages)

    def _owned(self, operation: Operation, gpu: int, node: int) -> Iterator[tuple[_Owner, Stage]]:
        """Yield the stages of a way from GPU memory to the drives, each with its owner."""
        stages = stages_of(self._alone, self.way, operation, self._settings.nvme_request_bytes)
        nic, storage_nic = (
            gpu % self._nics,
            node * self._settings.storage_nics + gpu % self._settings.storage_nics,
        )
        # Which way bytes go: out of the compute node and into a storage node, or back.
        here, there = ("out", "in") if operation is Operation.STORE else ("in", "out")
        link = next(stage for stage in stages if stage.name == "link")
        at_link = stages.index(link)
        passes = [
            sum(stage.name == "DRAM" for stage in side) for side in (stages[at_link:], stages[:at_link])
        ]
        if self.way is Way.TRIGGERED:
            match_s = self._alone.number("nic.trigger_match_s")
            at = gpu if operation is Operation.STORE else storage_nic
            yield (
                _Owner(f"match {operation}", at),
                Stage("match", match_s, match_s / self._ground.message_bytes),
            )
        slots = 0
        for place, stage in enumerate(stages):
            is_here = place < at_link
            slots = 0 if place == at_link else slots + (stage.name == "PCIe")
            number = gpu if is_here else node
            if stage.name == "PCIe" and is_here:
                yield _Owner(f"PCIe {slots} {here}", gpu if slots == 1 else nic), stage
            elif stage.name == "PCIe":
                yield _Owner(f"storage PCIe {slots} {there}", storage_nic if slots == 1 else node), stage
            elif stage.name == "NIC" and is_here:
                yield _Owner(f"NIC, stages {here}", nic), stage
            elif stage.name == "NIC":
                rate = max(stage.s_per_byte, link.s_per_byte)
                yield _Owner(f"storage NIC, {there}", storage_nic), Stage("NIC", 0.0, rate)
            elif stage is link:
                yield _Owner(f"NIC, link {here}", nic), stage
            elif stage.name == "DRAM":
                yield self._dram(is_here, node, stage, passes[is_here])
                yield self._cores(is_here, node, sum(map(bool, passes)))
            elif stage.name == "NVMe":
                yield self._drives(operation, node, stage)
            elif stage.name == "request":
                yield _Owner("request", gpu * self.nodes + node), stage
            elif stage.name != "copy":
                yield _Owner(f"{'' if is_here else 'storage '}{stage.name}", number), stage

    @staticmethod
    def _dram(is_here: bool, node: int, stage: Stage, passes: int) -> tuple[_Owner, Stage]:
        owner = _Owner("DRAM") if is_here else _Owner("storage DRAM", node)
        return owner, Stage(stage.name, stage.latency_s, passes * stage.s_per_byte)

    def _cores(self, is_here: bool, node: int, ends: int) -> tuple[_Owner, Stage]:
        """Return the cores of a node, which take a transfer's messages in turn, as one stage.

        A message costs a core its copies and its part of the software, half where CPUs work at both `ends`;
        the first one takes as long as one core needs, further ones come as fast as all cores together work.
        """
        owner = _Owner("compute cores") if is_here else _Owner("storage cores", node)
        hardware, message = self._alone, self._ground.message_bytes
        chunk = hardware.whole("software.chunk_bytes")
        chunks = -(-message // chunk) if chunk else 1
        copy = hardware.whole("cpu.copies") * hardware.number("cpu.copy_s_per_byte")
        software = (software_s(hardware) + chunks * hardware.number("software.chunk_s")) / ends
        s_per_byte = (copy + software / message) / self._settings.cores
        first_s = self.grain_bytes * copy + software
        return owner, Stage("cores", first_s - self.grain_bytes * s_per_byte, s_per_byte)

    def _drives(self, operation: Operation, node: int, stage: Stage) -> tuple[_Owner, Stage]:
        """Return the drives of a node, over which every block is striped, as one stage."""
        kind = "NVMe read" if operation is Operation.FETCH else "NVMe write"
        fixed_s = nvme_s(self._alone, operation, 0)
        return _Owner(kind, node), Stage(kind, fixed_s, stage.s_per_byte / self._settings.drives)
