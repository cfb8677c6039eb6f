# SPDX-License-Identifier: Apache-2.0
"""What things cost: profiles of hardware and software, and the time of a transfer by them.

Every value says where it comes from; docs/models.md has them all.
"""

from .fields import CHOICES, STAGES, Field, Provenance, Value
from .flow import BusyStage, send
from .nvme import Operation, nvme_s
from .profile import PROFILES, SERVERS, Profile, read_profile, read_server, write_profile
from .serving import Serving
from .timings import timings_of
from .transfer import SOFTWARE, Stage, Way, software_s, speedup, stages_of, transfer_s

__all__ = [
    "CHOICES",
    "PROFILES",
    "SERVERS",
    "SOFTWARE",
    "STAGES",
    "BusyStage",
    "Field",
    "Operation",
    "Profile",
    "Provenance",
    "Serving",
    "Stage",
    "Value",
    "Way",
    "nvme_s",
    "read_profile",
    "read_server",
    "send",
    "software_s",
    "speedup",
    "stages_of",
    "timings_of",
    "transfer_s",
    "write_profile",
]
