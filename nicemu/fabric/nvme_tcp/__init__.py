# SPDX-License-Identifier: Apache-2.0
"""An NVMe/TCP target in front of any NVMe controller, so that an unmodified driver can be held against ours.

Specification: NVM Express TCP Transport Specification 1.0; NVM Express Base Specification 2.0, "NVMe over
Fabrics". Manual: docs/nvme.md.
"""

from .association import ServedController
from .ring import TARGET_MEMORY_BYTES
from .target import DEFAULT_SUBSYSTEM, NvmeTcpTarget

__all__ = [
    "DEFAULT_SUBSYSTEM",
    "TARGET_MEMORY_BYTES",
    "NvmeTcpTarget",
    "ServedController",
]
