# SPDX-License-Identifier: Apache-2.0
"""Writes the IR as JSON: one object a dataclass, "kind" where several could stand, types as P4 writes them.

Driven by the annotations of the dataclasses, so a new node needs no code here; `ir_json` reads it.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import re
import types
import typing
from typing import Any

from .ir_types import Type

_KIND = re.compile(r"(?<!^)(?=[A-Z])")


def encode_text(program: Any, indent: int | None = None) -> str:  # noqa: ANN401
    """Return `program` as JSON text, keys in the order of the dataclasses."""
    return json.dumps(_encode(program, False), indent=indent, separators=None if indent else (",", ":"))


def kind_of(node_class: type) -> str:
    """Return the "kind" of a class of node: Binary is "binary", KeyMask is "key_mask"."""
    return _KIND.sub("_", node_class.__name__).lower()


def _encode(value: Any, with_kind: bool) -> Any:  # noqa: ANN401
    if isinstance(value, Type):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple):
        return [_encode(item, with_kind) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    document: dict[str, Any] = {"kind": kind_of(type(value))} if with_kind else {}
    for name, (_, union, default) in fields_of(value.__class__).items():
        item = getattr(value, name)
        if item != default:
            document[name] = _encode(item, union)
    return document


@functools.cache
def fields_of(node_class: Any) -> dict[str, tuple[Any, bool, Any]]:  # noqa: ANN401
    """Return for each field its annotation, whether several classes may stand there, and its default."""
    hints = typing.get_type_hints(node_class)
    described = {}
    for field in dataclasses.fields(node_class):
        hint = hints[field.name]
        element = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint
        union = isinstance(element, types.UnionType)
        described[field.name] = (hint, union, field.default)
    return described
