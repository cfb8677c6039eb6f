# SPDX-License-Identifier: Apache-2.0
"""Compiles every hot function that a NIC process calls, and the shipped programs, so that the processes only
load code.

The RDMA engine has little in common with the rest, so it is compiled by a process of its own meanwhile, where
there is a second processor: into a folder of its own, for numba's index of a function is not for two writers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nicemu.fabric import load_ports
from nicemu.hot import own_cache_folder
from nicemu.kernels import CompiledEngine
from nicemu.nic import NicConfig, SmartNic, run_datapath
from nicemu.programs import programs_root
from nicemu.rdma import load_engine

from .program_file import read_program

_OF_ENGINE = "rdma/roce_batch.take_in-*.nbi"
"""What is in the cache where the engine is."""
_COMPILE_ENGINE = "from nicemu.rdma import load_engine; load_engine()"


def compile_everything() -> None:
    """Run a NIC with nothing to do through each compiled way in; the code lands in the cache."""
    with _engine_compiled_meanwhile():
        nic = SmartNic(NicConfig("warm-up", "127.0.0.1", memory_bytes=1 << 20))
        owner = nic.open_owner()
        counter = nic.unit.allocate()
        nic.unit.add(counter, 1)
        nic.unit.set(counter, 0)
        nic.unit.flush(owner.number)
        nic.unit.cancel_counter(counter)
        nic.unit.close(counter, force=True)
        nic.settle()
        nic.close_owner(owner, 0)
        nic.rings.stop()
        run_datapath(nic.arena, 50_000, 200)
    load_engine()
    load_ports()
    for path in sorted(programs_root().glob("p4/*.p4")):
        CompiledEngine().load(read_program(path).program)


@contextmanager
def _engine_compiled_meanwhile() -> Iterator[None]:
    """Have another process compile the engine; its code is in the cache behind this, unless it failed."""
    cache = own_cache_folder()
    if len(os.sched_getaffinity(0)) == 1 or any(cache.glob(_OF_ENGINE)):
        yield
        return
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
    inside = cache if os.access(cache, os.W_OK) else None  # what a killed process leaves goes with the cache
    with tempfile.TemporaryDirectory(dir=inside) as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", _COMPILE_ENGINE],
            env=os.environ | {"XDG_CACHE_HOME": folder},
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
            process.wait()
        finally:
            process.kill()
            process.wait()
        with suppress(OSError):  # a cache that cannot be written
            adopt(Path(folder) / "nicemu" / cache.name, cache)


def adopt(source: Path, target: Path) -> None:
    """Move numba's files of functions into a cache that has none of them yet.

    A function that has some there keeps those: what is missing is compiled when it is called.
    """
    for index in sorted(source.rglob("*.nbi")):
        place = target / index.parent.relative_to(source)
        if (place / index.name).exists():
            continue
        place.mkdir(parents=True, exist_ok=True)
        for code in index.parent.glob(f"{index.stem}.*.nbc"):
            shutil.move(code, place / code.name)
        shutil.move(index, place / index.name)  # last: it names the others
