# SPDX-License-Identifier: Apache-2.0
"""What nicemu can use where it is there: SoftRoCE, here or in a guest, libfabric, a GPU.

Sources: rxe(7), fi_version(3), fi_getinfo(3), CUDA Driver API "Initialization" and "Device Management".
"""

from __future__ import annotations

import ctypes
import platform
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
    cure = "install the distribution's kernel modules (Ubuntu: linux-modules-extra), or: nicemu vm run"
    return Finding(check, False, f"kernel {release} comes without the module rdma_rxe", cure)


def verbs_bindings() -> Finding:
    """Return whether Python can speak verbs."""
    from nicemu.fabric import load_pyverbs

    try:
        place = load_pyverbs().device.__file__
    except ResourceError as error:
        reason, _, cure = str(error).partition("; ")
        return Finding("pyverbs", False, reason, cure)
    return Finding("pyverbs", True, str(place))


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


def guests() -> Finding:
    """Return whether `nicemu vm run` and `make rxe` can start a guest, which has SoftRoCE in any case."""
    from nicemu.fabric import install_command, missing_packages, newest_kernel

    check = "guest (QEMU)"
    missing = [package for package in missing_packages() if package.boots]
    if missing:
        names = ", ".join(f"{package.name} ({package.use})" for package in missing)
        return Finding(check, False, f"missing: {names}", f"as root: {install_command(missing)}")
    try:
        kernel = newest_kernel()
    except ResourceError as error:
        reason, _, cure = str(error).rpartition("; ")
        return Finding(check, False, reason, cure)
    return Finding(check, True, f"QEMU, emulated; Linux {kernel.release} with rdma_rxe")


def guest_programs() -> Finding:
    """Return whether what tests run in a guest is installed on this machine, whose root the guest sees."""
    from nicemu.fabric import install_command, missing_packages

    missing = [package for package in missing_packages() if not package.boots]
    if missing:
        names = ", ".join(package.name for package in missing)
        return Finding("RDMA tools", False, f"missing: {names}", f"as root: {install_command(missing)}")
    return Finding("RDMA tools", True, "all that tests run in a guest")


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


DEVICE_CHECKS: tuple[Callable[[], Finding], ...] = (
    soft_roce,
    verbs_bindings,
    guests,
    guest_programs,
    libfabric,
    gpu,
)
