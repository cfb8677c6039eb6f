# SPDX-License-Identifier: Apache-2.0
"""A guest: a virtual machine with the distribution's kernel, for its SoftRoCE. Manual: docs/softroce.md."""

from .channel import GuestProcess, GuestResult, GuestTimeoutError
from .guest import Guest
from .initramfs import SHARE
from .kernel import newest_kernel
from .machine import GuestLink
from .packages import PACKAGES, Package, install_command, missing_packages
from .rxe import LOOPBACK_DEVICE, rdma_devices, rxe_here

__all__ = [
    "LOOPBACK_DEVICE",
    "PACKAGES",
    "SHARE",
    "Guest",
    "GuestLink",
    "GuestProcess",
    "GuestResult",
    "GuestTimeoutError",
    "Package",
    "install_command",
    "missing_packages",
    "newest_kernel",
    "rdma_devices",
    "rxe_here",
]
