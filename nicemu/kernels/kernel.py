# SPDX-License-Identifier: Apache-2.0
"""A program as one LLVM module: `run` takes packets through it in groups, each by `process`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir as llvm

from nicemu.pipeline import HOST_PORT, Layouts, Program, ir, nodes_of

from .arrays import MAX_HELD_NUMBERS, MAX_NUMBERS, has_headers, numbers_in
from .effects import Site
from .externs import Externs
from .many_packets import make_run
from .nic_externs import NicExterns
from .nic_packet import NicPacket
from .not_compiled import NotCompiled
from .one_packet import OnePacket
from .packets import BYTE
from .parts import Part
from .places import INDEX, WORD
from .v1_externs import V1Externs
from .v1_stages import V1Stages

_ARCHITECTURES: dict[str, tuple[type[OnePacket], type[Externs]]] = {
    "nicemu": (NicPacket, NicExterns),
    "v1model": (V1Stages, V1Externs),
}


@dataclass(slots=True)
class Generated:
    """A kernel before it is compiled: its module's text, the functions it takes in, its effects."""

    text: str
    parts: tuple[Part, ...]
    sites: tuple[Site, ...]
    headroom_bytes: int
    effect_words: int
    makes_copies: bool
    begins: bool
    """Whether lookups of the first table can begin before they are needed."""


def generate(
    program: Program, parameters_at: Callable[[ir.Table], int], cpu_port: int = HOST_PORT
) -> Generated:
    """Return the kernel of a program; what leaves by `cpu_port` goes to the host, too.

    Raises: NotCompiled where it needs the interpreter.
    """
    if program.architecture not in _ARCHITECTURES:
        raise NotCompiled(f"it is for {program.architecture}")
    own = next((item for item in program.extern_signatures if not item.is_constructor), None)
    if own is not None:
        raise NotCompiled(f"{own.owner or own.declared} is an extern of its own, which Python does")
    layouts = Layouts(program)
    if sum(numbers_in(variable.type, layouts) for variable in program.variables) > MAX_HELD_NUMBERS:
        raise NotCompiled(f"its variables hold more than {MAX_HELD_NUMBERS} numbers")
    for node in nodes_of(program, ir.Element):
        if isinstance(node.base.type, ir.Named) and has_headers(node.type, layouts):
            raise NotCompiled("an index known at run time is of an array with headers in it")
        if isinstance(node.base.type, ir.Named) and numbers_in(node.base.type, layouts) > MAX_NUMBERS:
            raise NotCompiled(f"an index known at run time is of an array of more than {MAX_NUMBERS} numbers")
    module = llvm.Module(name=program.name)
    taken: dict[str, tuple[Part, llvm.Function]] = {}

    def take(part: Part) -> llvm.Function:
        """Return a function that is taken in, declared once."""
        if part.name not in taken:
            pointers = [WORD.as_pointer(), BYTE.as_pointer()]  # numba's: of the values, of an exception
            kind = llvm.FunctionType(INDEX, [*pointers, *[WORD] * part.words])
            taken[part.name] = part, llvm.Function(module, kind, part.name)
        return taken[part.name][1]

    flow, externs = _ARCHITECTURES[program.architecture]
    one = flow(program, module, externs, take, parameters_at, cpu_port)
    ahead = one.ahead()
    make_run(module, one.process(), ahead, one.makes_copies)
    one.stages()
    return Generated(
        str(module),
        tuple(part for part, _ in taken.values()),
        tuple(one.sites),
        one.headroom_bytes,
        one.effect_words,
        one.makes_copies,
        bool(ahead.steps),
    )
