# SPDX-License-Identifier: Apache-2.0
"""Checksums: verified behind the parser, updated before the deparser.

Source: p4lang/behavioral-model, "BMv2 JSON input format", "calculations" and "checksums".
"""

from __future__ import annotations

from nicemu.pipeline import ir

from . import numbers
from .document import Json
from .graph import Statements
from .primitives import Primitives
from .scope import Scope

_TRUE = ir.Constant(1, ir.BOOL)


def checksums_of(document: Json, scope: Scope) -> tuple[Statements, Statements]:
    """Return what verifies the checksums of a program, and what updates them."""
    verified: list[ir.Statement] = []
    updated: list[ir.Statement] = []
    for item in document.list("checksums"):
        item["type"].choice(["generic"])
        if _wanted(item, "verify"):
            verified += _verified(item, scope)
        if _wanted(item, "update"):
            updated += _updated(item, scope)
    return tuple(verified), tuple(updated)


def _wanted(item: Json, key: str) -> bool:
    given = item.get(key)
    return given is None or given.flag()


def _verified(item: Json, scope: Scope) -> Statements:
    condition, target = _condition(item, scope), scope.plain.key_of(item["target"])
    found = scope.calculation(item["calculation"])
    name = "verify_checksum_with_payload" if found.with_payload else "verify_checksum"
    return (ir.CallFunction(name, (condition, found.data, target, found.algorithm)),)


def _updated(item: Json, scope: Scope) -> Statements:
    condition = _condition(item, scope)
    place = scope.places.field(item["target"])
    found = scope.calculation(item["calculation"])
    name = "update_checksum_with_payload" if found.with_payload else "update_checksum"
    if place.is_plain:
        return (ir.CallFunction(name, (condition, found.data, place.expression, found.algorithm)),)
    if not place.width_bits:
        raise item["target"].fault("is a field of variable length; a number was expected")
    sum_ = scope.variable("checksum", place.kind)
    call = ir.CallFunction(name, (_TRUE, found.data, sum_, found.algorithm))
    stored = Primitives(scope, scope.plain).stored(place, numbers.held(sum_))
    return (ir.If(condition, (call, stored)),)


def _condition(item: Json, scope: Scope) -> ir.Expression:
    given = item.get("if_cond")
    return _TRUE if given is None else scope.plain.truth(given)
