# SPDX-License-Identifier: Apache-2.0
"""LLVM text to an object file, with LLVM alone.

It runs in the process that asks, or as a script in one of its own, where LLVM may fail: it ends the process
that asks too much of it, and no process that serves others may end so.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from typing import Any

import llvmlite.binding as llvm


def target_machine(level: int) -> Any:  # noqa: ANN401
    """Return what makes code for this processor; `level`: how much it is optimised, 1 to 3."""
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


def object_of(text: str, parts: dict[str, str], level: int) -> bytes:
    """Return the object file of a module, into which functions are taken: their texts, by their names."""
    machine = target_machine(level)
    module = llvm.parse_assembly(text)
    # Without, passes would take LLVM's own layout, in which numbers of 65 to 96 bits are 12 bytes long.
    module.data_layout = str(machine.target_data)
    module.triple = machine.triple
    module.verify()
    for name, part in parts.items():
        taken = llvm.parse_assembly(_without_loop_hints(part.replace("noinline", "nounwind")))
        for function in taken.functions:
            if function.is_declaration:
                continue
            if function.name.startswith(("cfunc.", "_ZN7cpython")):  # numba's ways in for Python
                function.linkage = "internal"
                continue
            function.name = name
            function.add_function_attribute("alwaysinline")
        module.link_in(taken)
    for function in module.functions:
        if not function.is_declaration and function.name not in ("run", "stage"):
            function.linkage = "internal"
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.inlining_threshold = 2000
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    data: bytes = machine.emit_object(module)
    return data


def _without_loop_hints(text: str) -> str:
    """Return a part whose loops may be unrolled once more.

    What numba has optimised forbids it for the rest of an unrolled loop, which is all of it where a key has
    few limbs.
    """
    return re.sub(r", !llvm\.loop !\d+", "", text)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    llvm.set_option("nicemu", "-enable-misched=false")  # of large functions it takes longer than all else
    sys.stdout.buffer.write(object_of(*json.load(sys.stdin)))
