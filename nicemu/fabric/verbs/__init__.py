# SPDX-License-Identifier: Apache-2.0
"""A transport over an RDMA device, which takes work, not frames: by pyverbs. Manual: docs/softroce.md."""

from .library import Pyverbs, load_pyverbs, require_rdma_device
from .transport import VerbsTransport

__all__ = [
    "Pyverbs",
    "VerbsTransport",
    "load_pyverbs",
    "require_rdma_device",
]
