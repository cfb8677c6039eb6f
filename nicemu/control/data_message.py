# SPDX-License-Identifier: Apache-2.0
"""Values of registers and digests as P4Data, and back.

Source: P4Runtime Specification 1.4, "P4Data".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicemu.pipeline import HeaderValue, Value, Varbits, ir

from .byte_string import decode_bytes, decode_signed, encode_bytes, encode_signed
from .changes import illegal, unimplemented
from .messages import Message


def fill_data(message: Message, value: Value, kind: ir.Type, layouts: Mapping[str, ir.Layout]) -> None:
    """Set a P4Data to a value of a type."""
    match kind:
        case ir.Bits():
            message.bitstring = _bytes_of(value, kind)
        case ir.String():
            message.bitstring = value.encode()
        case ir.Bool():
            message.bool = bool(value)
        case ir.Varbit():
            message.varbit.bitwidth = value.length_bits
            message.varbit.bitstring = encode_bytes(value.number)
        case ir.Named(name) if isinstance(layouts.get(name), ir.HeaderType):
            fields = value.fields if isinstance(value, HeaderValue) else value
            message.header.is_valid = value.valid if isinstance(value, HeaderValue) else True
            if message.header.is_valid:
                message.header.bitstrings.extend(_numbers(fields, kind, layouts))
        case ir.Named(name) if isinstance(layouts.get(name), ir.StructType):
            message.struct.SetInParent()
            for part in layouts[name].fields:
                fill_data(message.struct.members.add(), value[part.name], part.type, layouts)
        case _:
            raise unimplemented(f"values of type {kind} have no P4Data here")


def value_of_data(message: Message, kind: ir.Type, layouts: Mapping[str, ir.Layout], what: str) -> Value:
    """Return the value that a P4Data means for a type.

    Raises: ControlError: INVALID_ARGUMENT for data of another form, OUT_OF_RANGE for a number too wide.
    """
    form = message.WhichOneof("data")
    expected = _form_of(kind, layouts, what)
    if form != expected:
        raise illegal(f"{what} is {kind}; its data is a {expected}, {form or 'nothing'} was given")
    match kind:
        case ir.Bits():
            return _number_of(message.bitstring, kind, what)
        case ir.String():
            return message.bitstring.decode(errors="replace")
        case ir.Bool():
            return int(message.bool)
        case ir.Varbit(width):
            length_bits = message.varbit.bitwidth
            if not 0 <= length_bits <= width:
                raise illegal(f"{what} is {kind}; {length_bits} bits were given")
            return Varbits(length_bits, decode_bytes(message.varbit.bitstring, length_bits, what))
        case _:
            assert isinstance(kind, ir.Named)
    fields = layouts[kind.name].fields
    if form == "header":
        given = list(message.header.bitstrings)
        if not message.header.is_valid:
            given = given or [b"\0"] * len(fields)
        _check_count(given, fields, what)
        parts = {
            part.name: _number_of(data, part.type, f"{what}.{part.name}")
            for part, data in zip(fields, given, strict=True)
        }
        return HeaderValue(parts, bool(message.header.is_valid))
    members = message.struct.members
    _check_count(members, fields, what)
    return {
        part.name: value_of_data(data, part.type, layouts, f"{what}.{part.name}")
        for part, data in zip(fields, members, strict=True)
    }


def has_form(kind: ir.Type, layouts: Mapping[str, ir.Layout]) -> bool:
    """Return whether the bits of a type alone say what its parts are: no stack, union or varbit in it."""
    if not isinstance(kind, ir.Named):
        return isinstance(kind, ir.Bits | ir.Bool)
    layout = layouts.get(kind.name)
    if not isinstance(layout, ir.StructType | ir.HeaderType):
        return False
    nested = isinstance(layout, ir.StructType)
    return all(
        has_form(part.type, layouts) if nested else isinstance(part.type, ir.Bits | ir.Bool)
        for part in layout.fields
    )


def zero_of(kind: ir.Type, layouts: Mapping[str, ir.Layout]) -> Value:
    """Return the value that a place of a type starts with."""
    if isinstance(kind, ir.Varbit):
        return Varbits()
    if not isinstance(kind, ir.Named):
        return 0
    layout = layouts[kind.name]
    parts = {part.name: zero_of(part.type, layouts) for part in layout.fields}
    return HeaderValue(parts) if isinstance(layout, ir.HeaderType) else parts


def plain(value: Value) -> Any:  # noqa: ANN401 - what JSON has
    """Return a value as JSON has it: a number, or an object of such; a header that is not there is None."""
    if isinstance(value, HeaderValue):
        return plain(value.fields) if value.valid else None
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return value.number if isinstance(value, Varbits) else value


def _form_of(kind: ir.Type, layouts: Mapping[str, ir.Layout], what: str) -> str:
    match kind:
        case ir.Bits() | ir.String():  # what a translated type is to a client
            return "bitstring"
        case ir.Bool():
            return "bool"
        case ir.Varbit():
            return "varbit"
        case ir.Named(name) if isinstance(layouts.get(name), ir.StructType | ir.HeaderType):
            return "struct" if isinstance(layouts[name], ir.StructType) else "header"
        case _:
            raise unimplemented(f"{what}: values of type {kind} have no P4Data here")


def _numbers(fields: Mapping[str, Value], kind: ir.Named, layouts: Mapping[str, ir.Layout]) -> list[bytes]:
    found = []
    for part in layouts[kind.name].fields:
        if not isinstance(part.type, ir.Bits | ir.Bool):
            raise unimplemented(f"a field of type {part.type} of header {kind} has no P4Data here")
        found.append(_bytes_of(fields[part.name], part.type))
    return found


def _bytes_of(number: int, kind: ir.Type) -> bytes:
    return encode_signed(number) if isinstance(kind, ir.Bits) and kind.signed else encode_bytes(number)


def _number_of(data: bytes, kind: ir.Type, what: str) -> int:
    if not isinstance(kind, ir.Bits | ir.Bool):
        raise unimplemented(f"{what}: a field of type {kind} has no P4Data here")
    if isinstance(kind, ir.Bits) and kind.signed:
        return decode_signed(data, kind.width, what)
    return decode_bytes(data, kind.width if isinstance(kind, ir.Bits) else 1, what)


def _check_count(given: Any, fields: tuple[ir.Field, ...], what: str) -> None:  # noqa: ANN401
    if len(given) != len(fields):
        raise illegal(f"{what} has {len(fields)} members; {len(given)} were given")
