# SPDX-License-Identifier: Apache-2.0
"""Reads the IR from JSON, as `ir_encode` writes it. Nothing is trusted: every fault names its path."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import re
import types
import typing
from typing import Any

from nicemu.errors import ControlError, P4RuntimeCode

from . import ir
from .ir_encode import fields_of, kind_of

MAX_DEPTH = 220
"""Deepest nesting of nodes that a program may have; it bounds every recursion over the IR."""

_PARTS = frozenset((int, str))
"""What `ir.Given` may be, besides lists of such."""
_BITS = re.compile(r"(bit|int|varbit)<([1-9][0-9]{0,4})>")
_STACK = re.compile(r"([A-Za-z_][A-Za-z0-9_.$]*)\[([1-9][0-9]{0,3})\]")
_LIST = re.compile(r"list<(.+)>")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*")


def decode_text(text: str | bytes) -> ir.Program:
    """Return the program in `text`, of the right shape; `verify` checks what it means.

    Raises: ControlError(INVALID_ARGUMENT).
    """
    try:
        document = json_of(text)
    except RecursionError:
        raise fault("$", "is nested too deeply") from None
    except ValueError as error:
        raise fault("$", f"is not JSON: {error}") from None
    program = _decode(document, ir.Program, "$", 0)
    assert isinstance(program, ir.Program)
    return program


def json_of(text: str | bytes) -> Any:  # noqa: ANN401 - whatever JSON has
    """Return what JSON says. Raises: ValueError, also for half characters, which nothing can write again;
    RecursionError.
    """
    value = json.loads(text)
    if b"\\u" in (text.encode() if isinstance(text, str) else text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def fault(path: str, sentence: str) -> ControlError:
    """Return the error for a fault at `path`."""
    return ControlError(P4RuntimeCode.INVALID_ARGUMENT, f"program IR: {path} {sentence}")


@functools.cache
def _kinds_of(union: Any) -> dict[str, Any]:  # noqa: ANN401
    return {kind_of(member): member for member in typing.get_args(union)}


def _decode(value: Any, hint: Any, path: str, depth: int) -> Any:  # noqa: ANN401
    if depth > MAX_DEPTH:
        raise fault(path, f"lies deeper than {MAX_DEPTH} levels; break the expression up")
    if hint == ir.Type:
        return _decode_type(value, path)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise fault(path, f"is {_described(value)}; a list was expected")
        element = typing.get_args(hint)[0]
        return tuple(
            _decode(item, element, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)
        )
    if hint in (str, int, bool) or hint == int | str:
        return _decode_scalar(value, hint, path)
    if set(typing.get_args(hint)) >= _PARTS:
        return _decode_given(value, path, depth)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        allowed = [member.value for member in hint]
        if value not in allowed:
            raise fault(path, f"is {_described(value)}; one of {', '.join(map(repr, allowed))} was expected")
        return hint(value)
    return _decode_node(value, hint, path, depth)


def _decode_node(value: Any, hint: Any, path: str, depth: int) -> Any:  # noqa: ANN401
    if not isinstance(value, dict):
        raise fault(path, f"is {_described(value)}; an object was expected")
    node_class = hint
    allowed = {"kind"} if isinstance(hint, types.UnionType) else set()
    if allowed:
        kind = value.get("kind")
        kinds = _kinds_of(hint)
        if not isinstance(kind, str) or kind not in kinds:
            raise fault(f"{path}.kind", f"is {_described(kind)}; one of {', '.join(kinds)} was expected")
        node_class = kinds[kind]
    fields = fields_of(node_class)
    unknown = sorted(set(value) - set(fields) - allowed)
    if unknown:
        raise fault(f"{path}.{unknown[0]}", f"is unknown; {kind_of(node_class)} has {', '.join(fields)}")
    given = {}
    for name, (field_hint, _, default) in fields.items():
        if name in value:
            given[name] = _decode(value[name], field_hint, f"{path}.{name}", depth + 1)
        elif default is dataclasses.MISSING:
            raise fault(f"{path}.{name}", "is missing")
    return node_class(**given)


def _decode_given(value: Any, path: str, depth: int) -> ir.Given:  # noqa: ANN401
    """Return what a constructor is given, however many levels it has."""
    if depth > MAX_DEPTH:
        raise fault(path, f"lies deeper than {MAX_DEPTH} levels")
    if not isinstance(value, list):
        scalar: int | str = _decode_scalar(value, int | str, path)
        return scalar
    return tuple(_decode_given(item, f"{path}[{place}]", depth + 1) for place, item in enumerate(value))


def _decode_scalar(value: Any, hint: Any, path: str) -> Any:  # noqa: ANN401
    if hint is bool:
        right = isinstance(value, bool)
    elif hint is int:
        right = isinstance(value, int) and not isinstance(value, bool)
    elif hint is str:
        right = isinstance(value, str)
    else:
        right = isinstance(value, int | str) and not isinstance(value, bool)
    if not right:
        raise fault(path, f"is {_described(value)}; {getattr(hint, '__name__', 'int or str')} was expected")
    return value


def _decode_type(value: Any, path: str) -> ir.Type:  # noqa: ANN401
    if isinstance(value, str):
        if value == "bool":
            return ir.BOOL
        if value == "error":
            return ir.ERROR
        if value == "string":
            return ir.STRING
        if value == "int":
            return ir.INTEGER
        listed = _LIST.fullmatch(value)
        if listed and value.count("<") <= ir.MAX_TYPE_DEPTH:
            return ir.List(_decode_type(listed[1], path))
        if value == "bit<0>":
            return ir.Bits(0)
        if value == "varbit<0>":
            return ir.Varbit(0)
        bits = _BITS.fullmatch(value)
        if bits and bits[1] == "varbit" and int(bits[2]) <= ir.MAX_VARBIT_BITS:
            return ir.Varbit(int(bits[2]))
        if bits and int(bits[2]) <= ir.MAX_WIDTH_BITS:
            return ir.Bits(int(bits[2]), bits[1] == "int")
        stack = _STACK.fullmatch(value)
        if stack:
            return ir.Stack(stack[1], int(stack[2]))
        if not bits and _NAME.fullmatch(value):
            return ir.Named(value)
    raise fault(
        path,
        f"is {_described(value)}; a type was expected: bit<N> or int<N> with N up to {ir.MAX_WIDTH_BITS}, "
        "varbit<N>, bool, error, string, int, list<...>, the name of a header or struct, or a header stack "
        "NAME[SIZE]",
    )


def _described(value: Any) -> str:  # noqa: ANN401
    text = json.dumps(value, default=str) if not isinstance(value, dict | list) else type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."
