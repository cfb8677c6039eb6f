# SPDX-License-Identifier: Apache-2.0
"""Checks which annotations may stand before one declaration, and what is in square brackets behind them.

Source: P4-16 Language Specification 1.2.5, "Annotations", "Bodies of Structured Annotations",
"Control-plane API annotations".
"""

from __future__ import annotations

from collections.abc import Sequence

from . import syntax
from .diagnostics import Reporter

_ONCE = ("name", "hidden", "id")
_OPENING, _CLOSING = "([{", ")]}"


def check_annotation(
    added: syntax.Annotation, before: Sequence[syntax.Annotation], reporter: Reporter
) -> None:
    """Report an annotation that cannot stand behind those `before` it, or whose body is wrong."""
    of_name = [item for item in before if item.name == added.name]
    if any(item.structured != added.structured for item in of_name):
        what = f"@{added.name} stands here with square brackets and without"
        reporter.error(added.at, what, "call one of them otherwise")
    elif of_name and (added.structured or added.name in _ONCE):
        reporter.error(added.at, f"@{added.name} stands here twice", "remove one")
    if added.structured:
        _check_body(added, reporter)


def _check_body(annotation: syntax.Annotation, reporter: Reporter) -> None:
    """Report a body that names a key twice, or of which only some values have one."""
    parts = _parts(annotation.tokens)
    keys = [part[0] for part in parts if part[1:2] == ["="]]
    if keys and len(keys) != len(parts):
        what = f"@{annotation.name} has values with a key and values without"
        reporter.error(annotation.at, what, "give all of them keys, or none")
    for key in dict.fromkeys(keys):
        if keys.count(key) > 1:
            reporter.error(annotation.at, f"@{annotation.name} has the key {key} twice")


def _parts(tokens: Sequence[str]) -> list[list[str]]:
    """Return the tokens between the commas that stand in no brackets; behind the last one may be nothing."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in _OPENING) - (token in _CLOSING)
        if token == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if parts[-1] else parts[:-1]
