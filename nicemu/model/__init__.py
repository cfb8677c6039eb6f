# SPDX-License-Identifier: Apache-2.0
"""What things cost: profiles of hardware and software, and the time of a transfer by them.

Every value says where it comes from; docs/models.md has them all.
"""

from .nvme import Operation, nvme_s
from .profile import CHOICES, PROFILES, STAGES, Field, Profile, Provenance, Value, read_profile
from .transfer import SOFTWARE, Stage, Way, software_s, speedup, stages_of, transfer_s

__all__ = [
    "CHOICES",
    "PROFILES",
    "SOFTWARE",
    "STAGES",
    "Field",
    "Operation",
    "Profile",
    "Provenance",
    "Stage",
    "Value",
    "Way",
    "nvme_s",
    "read_profile",
    "software_s",
    "speedup",
    "stages_of",
    "transfer_s",
]
