# SPDX-License-Identifier: Apache-2.0
"""What a packet leaves behind: where in the program an effect comes from, and what its record says.

A record is words: the number of its site, then the values of the call's arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nicemu.pipeline import (
    CounterAdd,
    Effect,
    EventPosted,
    Layouts,
    Program,
    WorkArmed,
    digest_of,
    ir,
    message_of,
)

from .value_words import decoded

PASSES = 3
"""Passes of a packet, each with its effects: ingress, egress, and what follows."""


@dataclass(frozen=True, slots=True)
class Site:
    """A call that leaves an effect: of which extern, its values' types, the words of its records, a text."""

    instance: str
    name: str
    types: tuple[ir.Type, ...]
    words: int
    text: str = ""


def effect_of(program: Program, layouts: Layouts, site: Site, words: Iterator[int]) -> Effect:
    """Return the effect whose record goes on with these words."""
    values = [decoded(layouts, kind, words) for kind in site.types]
    match site.name:
        case "add":
            return CounterAdd(*values)
        case "digest":
            return digest_of(layouts, site.types[1], *values)
        case "log_msg":
            return message_of(site.text, *values)
    if site.name == "arm":
        return WorkArmed(name_of(program, site), *values)
    return EventPosted(name_of(program, site), values[0])


def name_of(program: Program, site: Site) -> str:
    """Return the name of the event that a site posts, or of the work that it arms."""
    declared = next(item for item in program.externs if item.name == site.instance)
    return str(declared.arguments[0])
