# SPDX-License-Identifier: Apache-2.0
"""What nicemu can use where it is there: SoftRoCE, libfabric, a GPU, QEMU.

Sources: rxe(7), fi_version(3), fi_getinfo(3), CUDA Driver API "Initialization" and "Device Management".
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

from nicemu.errors import ResourceError

from .finding import Finding

_SYS = Path("/sys")
_DEV = Path("/dev")
_MODULES = Path("/lib/modules")


def soft_roce(sys: Path = _SYS, modules: Path = _MODULES) -> Finding:
    """Return whether there is an RDMA device, SoftRoCE or a real one."""
    check = "RDMA device (SoftRoCE)"
    found = sorted(place.name for place in (sys / "class" / "infiniband").glob("*"))
    if found:
        return Finding(check, True, ", ".join(found))
    if (sys / "module" / "rdma_rxe").exists():
        cure = "as root: rdma link add rxe0 type rxe netdev eth0 (the name of your network interface)"
        return Finding(check, False, "module rdma_rxe is loaded; no link uses it", cure)
    release = platform.release()
    if any((modules / release).rglob("rdma_rxe.ko*")):
        cure = "as root: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0"
        return Finding(check, False, "module rdma_rxe is there and not loaded", cure)
    cure = (
        "install the distribution's kernel modules (linux-modules-extra on Ubuntu), or use a virtual machine"
    )
    return Finding(check, False, f"kernel {release} comes without the module rdma_rxe", cure)


def verbs_bindings() -> Finding:
    """Return whether Python can speak verbs."""
    if importlib.util.find_spec("pyverbs") is not None:
        return Finding("pyverbs", True, "importable")
    cure = "install the distribution's python3-pyverbs, and make the environment with --system-site-packages"
    return Finding("pyverbs", False, "not importable here", cure)


def libfabric() -> Finding:
    """Return whether programs of deferred work can run on libfabric, and on which of its providers."""
    from nicemu.fabric import libfabric_version, trigger_providers

    check = "libfabric"
    cure = "install the distribution's libfabric1, which brings the provider `sockets` (Fedora: libfabric)"
    try:
        version, names = ".".join(map(str, libfabric_version())), trigger_providers()
    except ResourceError as error:
        return Finding(check, False, str(error).partition(";")[0], cure)
    if not names:
        return Finding(check, False, f"libfabric {version}, no provider with triggered operations", cure)
    return Finding(check, True, f"libfabric {version}; triggered operations: {', '.join(names)}")


def gpu(dev: Path = _DEV) -> Finding:
    """Return whether the CUDA driver has a device."""
    check = "GPU (CUDA)"
    nodes = sorted(node.name for node in dev.glob("nvidia[0-9]*"))
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        if nodes:
            cure = "install the NVIDIA driver's user libraries of the same version as its kernel module"
            return Finding(check, False, f"{', '.join(nodes)} without libcuda.so.1", cure)
        cure = "nothing: streams run in a process or a thread of the host instead"
        return Finding(check, False, "no /dev/nvidia* and no libcuda.so.1", cure)
    error = int(driver.cuInit(0))
    if error:
        return Finding(check, False, f"cuInit failed with CUDA error {error}", "see nvidia-smi and dmesg")
    names = _cuda_devices(driver)
    return Finding(check, bool(names), ", ".join(names) or "the driver has no device", "")


def qemu(dev: Path = _DEV) -> Finding:
    """Return whether a virtual machine can be started, for SoftRoCE where the kernel has none."""
    program = shutil.which(f"qemu-system-{platform.machine()}")
    if program is None:
        cure = "install the distribution's qemu-system-x86 (Fedora: qemu-kvm)"
        return Finding("QEMU", False, f"no qemu-system-{platform.machine()} on the path", cure)
    fast = os.access(dev / "kvm", os.R_OK | os.W_OK)
    return Finding("QEMU", True, f"{program}, {'with KVM' if fast else 'without KVM (emulated, slower)'}")


def _cuda_devices(driver: ctypes.CDLL) -> list[str]:
    count = ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    names = []
    for number in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(128)
        if not driver.cuDeviceGet(ctypes.byref(device), number) and not driver.cuDeviceGetName(
            name, 128, device
        ):
            names.append(name.value.decode(errors="replace"))
    return names


DEVICE_CHECKS: tuple[Callable[[], Finding], ...] = (soft_roce, verbs_bindings, libfabric, gpu, qemu)
