# SPDX-License-Identifier: Apache-2.0
"""A PCIe fabric with an NVMe controller that is not ours: QEMU, without a guest. Manual: docs/nvme.md."""

from .fabric import NIC_BAR, QemuFabric, QemuNamespace, QemuNvme, qemu_missing

__all__ = [
    "NIC_BAR",
    "QemuFabric",
    "QemuNamespace",
    "QemuNvme",
    "qemu_missing",
]
