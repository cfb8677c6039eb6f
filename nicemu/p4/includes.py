# SPDX-License-Identifier: Apache-2.0
"""Which file to include for a name that nothing declares."""

from __future__ import annotations

from collections.abc import Container

from nicemu.pipeline import ARCHITECTURES, Architecture

_CORE = ("packet_in", "packet_out", "verify", "static_assert", "NoAction", "exact", "ternary", "lpm")
_MATCH_KINDS = ("range", "optional", "selector")


def include_of(name: str, present: Container[str] = ()) -> str:
    """Return the hint to include the file that declares a name, "" for a name that none of ours does.

    `present`: what there is already; two architectures cannot stand together.
    """
    if name in _CORE:
        return "#include <core.p4>"
    declare = [known for known in ARCHITECTURES.values() if name in _names(known)]
    if not declare:
        return ""
    here = next((known for known in ARCHITECTURES.values() if known.package in present), None)
    if here is not None and here not in declare:
        return f"{name} is of {declare[0].include}; {here.include} has none"
    return f"#include <{declare[-1].include}>"  # v1model's, of what both have: most programs are for it


def _names(known: Architecture) -> tuple[str, ...]:
    named = (*known.objects, *known.functions, *known.enums, *_MATCH_KINDS)
    return (*named, known.metadata.name, known.package)
