# SPDX-License-Identifier: Apache-2.0
"""Keys of tables as the control plane has them.

Source: P4-16 Language Specification 1.2.5, "Control plane names", "Keys".
"""

from __future__ import annotations

from . import syntax
from .annotations import given_name
from .symbols import CallKind


def is_compared(key: syntax.KeyElement) -> bool:
    """Return whether entries have a value for a key; a selector's are hashed."""
    return key.match_kind != "selector"


def key_name(key: syntax.KeyElement) -> str:
    """Return the control plane's name of a key: its @name, or the expression as written; "" if it has
    none.
    """
    return given_name(key.annotations) or _written(key.expression)


def _written(node: syntax.Expression) -> str:
    """Return the name of a simple expression."""
    match node:
        case syntax.NameRef():
            return node.name
        case syntax.MemberRef():
            base = _written(node.base)
            return f"{base}.{node.name}" if base else ""
        case syntax.IndexRef() if node.index.value is not None:
            base = _written(node.base)
            return f"{base}[{node.index.value}]" if base else ""
        case syntax.SliceRef() if node.low.value is not None:
            base = _written(node.base)
            return f"{base}[{node.high.value}:{node.low.value}]" if base else ""
        case syntax.Number():
            return str(node.value)
        case syntax.BinaryOp(op="&"):
            sides = [
                f"{side.value:#x}" if isinstance(side.value, int) else _written(side)
                for side in (node.left, node.right)
            ]
            return " & ".join(sides) if all(sides) else ""
        case syntax.Call() if isinstance(node.callee, syntax.MemberRef) and node.symbol:
            base = _written(node.callee.base)
            return f"{base}.$valid$" if base and node.symbol.kind is CallKind.IS_VALID else ""
    return ""
