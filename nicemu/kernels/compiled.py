# SPDX-License-Identifier: Apache-2.0
"""Kernels as machine code: LLVM's optimiser, and object files under a digest of all that they are made of."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from nicemu.hot import own_cache_folder
from nicemu.kept_files import keep, kept

from . import machine_code
from .kernel import Generated
from .machine_code import object_of, target_machine
from .not_compiled import NotCompiled
from .parts import part_text

LIBRARY = (b"__udivti3", b"__umodti3", b"__divti3", b"__modti3", b"__multi3", b"__udivmodti4")
"""Functions that compiled code may ask a compiler's library for, which is not there."""

APART_FROM = 300
"""Conditional branches from which a module is compiled apart; LLVM's passes give up at a thousand turns."""
OF_LLVM = (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGILL)
"""How a process ends in which LLVM fails: each time, for the same text."""
MAX_KEPT = 256
"""Object files that are kept."""


class MachineCode:
    """A kernel's `run`, callable without the interpreter's lock: context, packets, count, fetch ahead."""

    def __init__(self, generated: Generated, optimised: bool = True) -> None:
        level = 3 if optimised else 1
        path = _path(generated, level)
        data = kept(path)
        if data is not None:
            with contextlib.suppress(OSError):
                os.utime(path)
        else:
            data = _compiled(generated, level)
            if any(name in data for name in LIBRARY):
                raise NotCompiled("its arithmetic needs a library")
            _keep(path, data)
        if not data:
            raise NotCompiled("LLVM cannot make machine code of it")
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(level))
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()
        self.run_at = self._engine.get_function_address("run")
        self.run = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 4)(self.run_at)
        self.stage = None
        """Takes a packet through one block: context, packet, state, and which of `STAGES`."""
        if generated.makes_copies:
            self.stage_at = self._engine.get_function_address("stage")
            self.stage = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 4)(self.stage_at)


def _compiled(generated: Generated, level: int) -> bytes:
    """Return an object file, nothing where LLVM fails. Raises: NotCompiled."""
    parts = {part.name: part_text(part, llvm.get_host_cpu_name()) for part in generated.parts}
    if generated.text.count("br i1") >= APART_FROM:
        return _object_apart(generated.text, parts, level)
    return object_of(generated.text, parts, level)


def _object_apart(text: str, parts: dict[str, str], level: int) -> bytes:
    """Return what `object_of` does, from a process of its own; nothing if LLVM ended that.

    Raises: NotCompiled if something else did, such as a lack of memory.
    """
    given = json.dumps([text, parts, level]).encode()
    command = [sys.executable, "-P", machine_code.__file__]
    done = subprocess.run(
        command, input=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    if done.returncode in OF_LLVM:
        return b""
    if done.returncode != 0:
        raise NotCompiled(f"the process that compiles it has ended with status {done.returncode}")
    return done.stdout


def _path(generated: Generated, level: int) -> Path:
    digest = blake2b(digest_size=16)
    parts = [llvmlite.__version__, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    parts += [str(level), Path(machine_code.__file__).read_text(encoding="utf-8"), generated.text]
    for part in parts:
        digest.update(f"{len(part)} {part}".encode())
    return own_cache_folder() / "kernels" / f"{digest.hexdigest()}.o"


def _keep(path: Path, data: bytes) -> None:
    """Keep an object file, and the ones that were used last."""
    keep(path, data)
    with contextlib.suppress(OSError):
        kept = sorted(path.parent.glob("*.o"), key=lambda item: item.stat().st_mtime, reverse=True)
        for old in kept[MAX_KEPT:]:
            old.unlink(missing_ok=True)
