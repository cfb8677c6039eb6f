# SPDX-License-Identifier: Apache-2.0
"""Whether all headers that leave lie where they came, so that a frame leaves where it stands.

They do where they are valid only because the parser has taken them out of the packet, one behind the other in
the order in which they are emitted, and none becomes invalid.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from nicemu.pipeline import MAX_EMITTED_BYTES, Layouts, Program, ir, nodes_of

from .growth import changes_headers, may_grow
from .packets import states_behind
from .paths import part_path
from .writes import path_to

_TAKES = (ir.Extract, ir.ExtractVarbit)


def stays_in_place(program: Program, most_bytes: int) -> bool:
    """Return whether a frame surely leaves where it stands, as long as it came.

    most_bytes: what its deparser emits at most.
    """
    if most_bytes > MAX_EMITTED_BYTES or may_grow(program) or changes_headers(program):
        return False
    if any(True for _ in nodes_of(program, ir.SetValid, ir.Advance)):
        return False
    order = {path: number for number, path in enumerate(_emitted(program))}
    taken: dict[str, list[int]] = {}
    for state in program.parser.states:
        paths = [path_to(node.header) for node in state.body if isinstance(node, _TAKES)]
        if any(path not in order for path in paths):
            return False
        taken[state.name] = [order[path] for path in paths]
    if len(list(nodes_of(program, *_TAKES))) != sum(map(len, taken.values())):
        return False  # some are taken in conditions, loops or functions
    return _rises(program.parser, taken)


def _rises(parser: ir.Parser, taken: dict[str, list[int]]) -> bool:
    """Return whether the numbers that states take rise on each way through a parser."""
    following = {state.name: states_behind(state.transition) for state in parser.states}
    latest: dict[str, int] = {}
    pending = [(parser.start, -1)]
    while pending:
        state, before = pending.pop()
        if state not in taken or latest.get(state, -2) >= before:
            continue
        latest[state] = before
        numbers = [before, *taken[state]]
        if any(one >= other for one, other in pairwise(numbers)):
            return False
        pending += [(upcoming, numbers[-1]) for upcoming in following[state]]
    return True


def _emitted(program: Program) -> Iterator[str]:
    """Yield the paths of headers that are emitted, in order, but for those in stacks and unions."""
    layouts = Layouts(program)
    for node in program.control("deparser").body:
        assert isinstance(node, ir.Emit)
        pending = [(path_to(node.value), node.value.type)]
        while pending:
            path, kind = pending.pop()
            if not isinstance(kind, ir.Named) or kind.name in layouts.unions:
                continue
            if kind.name in layouts.headers:
                yield path
            else:
                parts = reversed(layouts.parts(kind))
                pending += [(part_path(path, part.name), part.type) for part in parts]
