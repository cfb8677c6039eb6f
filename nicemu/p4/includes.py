# SPDX-License-Identifier: Apache-2.0
"""Which file to include for a name that nothing declares."""

from __future__ import annotations

from collections.abc import Container

from nicemu.pipeline import ARCHITECTURES

_CORE = ("packet_in", "packet_out", "verify", "static_assert", "NoAction")


def include_of(name: str, present: Container[str] = ()) -> str:
    """Return the hint to include the file that declares a name, "" for a name that none of ours does.

    `present`: what there is already; two architectures cannot stand together.
    """
    if name in _CORE:
        return "#include <core.p4>"
    for known in ARCHITECTURES.values():
        if name in (*known.objects, *known.functions, *known.enums, known.metadata.name, known.package):
            for other in ARCHITECTURES.values():
                if other is not known and other.package in present:
                    return f"{name} is of {known.include}; {other.include} has none"
            return f"#include <{known.include}>"
    return ""
