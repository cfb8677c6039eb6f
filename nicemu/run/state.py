# SPDX-License-Identifier: Apache-2.0
"""What a topology's folder says of it once its NICs serve: how it was started, and which NICs it has here."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from .folders import STATE


@dataclass(frozen=True, slots=True)
class NicState:
    """A NIC that was started: its process, its address, its programs."""

    name: str
    pid: int
    ip: str
    program: str
    firmware: str


@dataclass(frozen=True, slots=True)
class TopologyState:
    """A topology that is up, or was. `data`: where relative paths of namespaces start."""

    topology: str
    fabric: str
    data: str
    pcap: str | None
    trace: str | None
    nics: tuple[NicState, ...]

    def write(self, folder: Path) -> None:
        """Put it into the topology's folder, all at once."""
        scratch = folder / f"{STATE}.new"
        scratch.write_text(json.dumps(asdict(self)), encoding="utf-8")
        scratch.rename(folder / STATE)

    @classmethod
    def read(cls, folder: Path) -> TopologyState | None:
        """Return what a folder says; None if nothing has come up there."""
        try:
            told = json.loads((folder / STATE).read_text(encoding="utf-8"))
            return cls(**{**told, "nics": tuple(NicState(**nic) for nic in told["nics"])})
        except (OSError, ValueError, KeyError, TypeError):
            return None
