# SPDX-License-Identifier: Apache-2.0
"""The P4 compiler: a program's text to the IR that the pipeline runs.

Specification: P4-16 Language Specification 1.2.5, the part that NIC programs need; what is missing is refused
with a located "not supported by nicemu yet". The programs and the architecture's declarations are in the
folder p4/.
"""

from nicemu.pipeline import P4Info

from .compiler import Compiled, compile_program, compile_text
from .diagnostics import CompileError, Diagnostic, Location, Severity, SourceFile

__all__ = [
    "CompileError",
    "Compiled",
    "Diagnostic",
    "Location",
    "P4Info",
    "Severity",
    "SourceFile",
    "compile_program",
    "compile_text",
]
