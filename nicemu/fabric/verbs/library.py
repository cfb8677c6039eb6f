# SPDX-License-Identifier: Apache-2.0
"""pyverbs: found in this environment or in the distribution's packages, loaded when it is asked for.

The distribution builds it for its own Python and for the libibverbs beside it, so it is no dependency: the
one of the package index fits no other libibverbs than its own.
Sources: pyverbs of rdma-core 44 ("documentation/pyverbs.md"); the import system of Python, "Submodules".
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from nicemu.errors import ResourceError
from nicemu.fabric.guest import rdma_devices

DISTRIBUTION = Path("/usr/lib/python3/dist-packages")
PACKAGE = "python3-pyverbs"


@dataclass(frozen=True, slots=True)
class Pyverbs:
    """The modules of pyverbs that a program needs, under their own names."""

    addr: ModuleType
    base: ModuleType
    cm_enums: ModuleType
    cmid: ModuleType
    cq: ModuleType
    device: ModuleType
    enums: ModuleType
    mr: ModuleType
    pd: ModuleType
    pyverbs_error: ModuleType
    qp: ModuleType
    srq: ModuleType
    wr: ModuleType


def load_pyverbs(distribution: Path = DISTRIBUTION) -> Pyverbs:
    """Import pyverbs and return its modules; of the distribution's packages this one alone comes into reach.

    Raises: ResourceError, with what to install, where there is none, or none for this Python.
    """
    _find(distribution)
    try:
        return Pyverbs(*(import_module(f"pyverbs.{name}") for name in Pyverbs.__slots__))
    except ImportError as error:
        raise ResourceError(
            f"pyverbs cannot be loaded: {error}; it must be built with the libibverbs that is installed, as "
            f"{PACKAGE} is"
        ) from error


def require_rdma_device() -> list[str]:
    """Return the names of this machine's RDMA devices.

    Raises: ResourceError where there is none, with what makes one.
    """
    names = rdma_devices()
    if not names:
        raise ResourceError(
            "this kernel has no RDMA device; as root: modprobe rdma_rxe ib_uverbs && rdma link add rxe0 type "
            "rxe netdev lo; where it has no rdma_rxe, a guest has: nicemu vm run -- COMMAND"
        )
    return names


def _find(distribution: Path) -> None:
    """Put the package pyverbs among the loaded modules; its own modules are then found beside it."""
    if "pyverbs" in sys.modules or importlib.util.find_spec("pyverbs") is not None:
        return
    spec = importlib.machinery.PathFinder.find_spec("pyverbs", [str(distribution)])
    if spec is None or spec.loader is None:
        raise ResourceError(f"pyverbs is not installed; apt-get install {PACKAGE}")
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    built = sorted(path.name for path in (distribution / "pyverbs").glob("device.*.so"))
    if not any(name == f"device{suffix}" for name in built for suffix in suffixes):
        fits = ".".join(map(str, sys.version_info[:2]))
        raise ResourceError(
            f"pyverbs in {distribution} is {', '.join(built) or 'empty'}, and this is CPython {fits}; make "
            "the environment with the distribution's own python3"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules["pyverbs"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules["pyverbs"]
        raise
