# SPDX-License-Identifier: Apache-2.0
"""Kernels as machine code: LLVM's optimiser, and object files under a digest of all that they are made of."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from hashlib import blake2b
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from nicemu.hot import own_cache_folder
from nicemu.kept_files import keep, kept

from .kernel import Generated
from .not_compiled import NotCompiled
from .parts import part_text

LIBRARY = (b"__udivti3", b"__umodti3", b"__divti3", b"__modti3", b"__multi3", b"__udivmodti4")
"""Functions that compiled code may ask a compiler's library for, which is not there."""

MAX_KEPT = 256
"""Object files that are kept."""


class MachineCode:
    """A kernel's `run`, callable without the interpreter's lock: context, packets, count, fetch ahead."""

    def __init__(self, generated: Generated, optimised: bool = True) -> None:
        machine = _machine(3 if optimised else 1)
        path = _path(generated, optimised)
        data = kept(path)
        if data is not None:
            with contextlib.suppress(OSError):
                os.utime(path)
        else:
            data = machine.emit_object(_linked(generated, machine, optimised))
            if any(name in data for name in LIBRARY):
                raise NotCompiled("its arithmetic needs a library")
            _keep(path, data)
        self._engine = llvm.create_mcjit_compiler(
            llvm.parse_assembly(""), machine
        )  # which has the machine now
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()
        self.run_at = self._engine.get_function_address("run")
        self.run = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 4)(self.run_at)
        self.stage = None
        """Takes a packet through one block: context, packet, state, and which of `STAGES`."""
        if generated.makes_copies:
            self.stage_at = self._engine.get_function_address("stage")
            self.stage = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 4)(self.stage_at)


def _machine(level: int) -> Any:  # noqa: ANN401
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=features,
        opt=level,
        reloc="pic",
        codemodel="jitdefault",
        jit=True,
    )


def _linked(generated: Generated, machine: Any, optimised: bool) -> Any:  # noqa: ANN401
    module = llvm.parse_assembly(generated.text)
    module.verify()
    for part in generated.parts:
        text = part_text(part, llvm.get_host_cpu_name())
        taken = llvm.parse_assembly(_without_loop_hints(text.replace("noinline", "nounwind")))
        for function in taken.functions:
            if function.is_declaration:
                continue
            if function.name.startswith(("cfunc.", "_ZN7cpython")):  # numba's ways in for Python
                function.linkage = "internal"
                continue
            function.name = part.name
            function.add_function_attribute("alwaysinline")
        module.link_in(taken)
    for function in module.functions:
        if not function.is_declaration and function.name not in ("run", "stage"):
            function.linkage = "internal"
    options = llvm.create_pipeline_tuning_options(speed_level=3 if optimised else 1)
    options.inlining_threshold = 2000
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    return module


def _path(generated: Generated, optimised: bool) -> Path:
    digest = blake2b(digest_size=16)
    parts = [llvmlite.__version__, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    parts += [str(optimised), Path(__file__).read_text(), generated.text]
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


def _without_loop_hints(text: str) -> str:
    """Return a part whose loops may be unrolled once more.

    What numba has optimised forbids it for the rest of an unrolled loop, which is all of it where a key has
    few limbs.
    """
    return re.sub(r", !llvm\.loop !\d+", "", text)
