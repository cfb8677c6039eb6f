# SPDX-License-Identifier: Apache-2.0
"""Values of registers and digests as P4Data, and back.

Source: P4Runtime Specification 1.4, "P4Data".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from nicemu.pipeline import HeaderValue, P4Info, Value, Varbits, ir

from .byte_string import decode_bytes, decode_signed, encode_bytes, encode_signed
from .changes import illegal, unimplemented
from .messages import Message
from .type_message import DataLayout, is_tuple

Layouts: TypeAlias = Mapping[str, DataLayout]
"""What types of data are by their names; errors are an enum of the name `error`."""


def data_layouts(p4info: P4Info) -> Layouts:
    """Return the types of a program's data by name."""
    members = tuple(ir.EnumMember(name, number) for number, name in enumerate(p4info.errors))
    errors = ir.EnumType("error", ir.Bits(32), members)
    return {layout.name: layout for layout in (*p4info.types, *p4info.enums, errors)}


def fill_data(message: Message, value: Value, kind: ir.Type, layouts: Layouts) -> None:
    """Set a P4Data to a value of a type."""
    listed = _listed(kind, layouts)
    if listed is not None:
        if listed.serializable:
            message.enum_value = _bytes_of(value, listed.type)
            return
        name = next((one.name for one in listed.members if one.value == value), "")
        setattr(message, _form_of(kind, layouts, listed.name), name)
        return
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
            held = message.tuple if is_tuple(kind) else message.struct
            held.SetInParent()
            for part in _fields_of(kind, layouts):
                fill_data(held.members.add(), value[part.name], part.type, layouts)
        case _:
            raise unimplemented(f"values of type {kind} have no P4Data here")


def value_of_data(message: Message, kind: ir.Type, layouts: Layouts, what: str) -> Value:
    """Return the value that a P4Data means for a type.

    Raises: ControlError: INVALID_ARGUMENT for data of another form, OUT_OF_RANGE for a number too wide.
    """
    form = message.WhichOneof("data")
    expected = _form_of(kind, layouts, what)
    if form != expected:
        raise illegal(f"{what} is {kind}; its data is a {expected}, {form or 'nothing'} was given")
    listed = _listed(kind, layouts)
    if listed is not None:
        if listed.serializable:
            return _number_of(message.enum_value, listed.type, what)
        return member_value(getattr(message, expected), listed, what)
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
    fields = _fields_of(kind, layouts)
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
    members = getattr(message, expected).members
    _check_count(members, fields, what)
    return {
        part.name: value_of_data(data, part.type, layouts, f"{what}.{part.name}")
        for part, data in zip(fields, members, strict=True)
    }


def member_value(name: str, listed: ir.EnumType, what: str) -> int:
    """Return the value of a member of an enum. Raises: ControlError(INVALID_ARGUMENT)."""
    for one in listed.members:
        if one.name == name:
            return one.value
    have = ", ".join(one.name for one in listed.members)
    raise illegal(f"{what}: {listed.name} has no member {name!r}; it has {have}")


def has_form(kind: ir.Type, layouts: Layouts) -> bool:
    """Return whether the bits of a type alone say what its parts are: no stack, union or varbit in it."""
    if _listed(kind, layouts) is not None:
        return True
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


def zero_of(kind: ir.Type, layouts: Layouts) -> Value:
    """Return the value that a place of a type starts with."""
    if isinstance(kind, ir.Varbit):
        return Varbits()
    if not isinstance(kind, ir.Named) or _listed(kind, layouts) is not None:
        return 0
    layout = layouts[kind.name]
    parts = {part.name: zero_of(part.type, layouts) for part in _fields_of(kind, layouts)}
    return HeaderValue(parts) if isinstance(layout, ir.HeaderType) else parts


def plain(value: Value) -> Any:  # noqa: ANN401 - what JSON has
    """Return a value as JSON has it: a number, or an object of such; a header that is not there is None."""
    if isinstance(value, HeaderValue):
        return plain(value.fields) if value.valid else None
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return value.number if isinstance(value, Varbits) else value


def _listed(kind: ir.Type, layouts: Layouts) -> ir.EnumType | None:
    """Return the enum, or the errors, that a type is."""
    name = "error" if kind == ir.ERROR else getattr(kind, "name", "")
    layout = layouts.get(name)
    return layout if isinstance(layout, ir.EnumType) and layout.members else None


def _fields_of(kind: ir.Named, layouts: Layouts) -> tuple[ir.Field, ...]:
    layout = layouts[kind.name]
    assert not isinstance(layout, ir.EnumType)
    return layout.fields


def _form_of(kind: ir.Type, layouts: Layouts, what: str) -> str:
    listed = _listed(kind, layouts)
    if listed is not None:
        return "error" if kind == ir.ERROR else "enum_value" if listed.serializable else "enum"
    match kind:
        case ir.Bits() | ir.String():  # what a translated type is to a client
            return "bitstring"
        case ir.Bool():
            return "bool"
        case ir.Varbit():
            return "varbit"
        case ir.Named(name) if isinstance(layouts.get(name), ir.StructType | ir.HeaderType):
            struct = "tuple" if is_tuple(kind) else "struct"
            return struct if isinstance(layouts[name], ir.StructType) else "header"
        case _:
            raise unimplemented(f"{what}: values of type {kind} have no P4Data here")


def _numbers(fields: Mapping[str, Value], kind: ir.Named, layouts: Layouts) -> list[bytes]:
    found = []
    for part in _fields_of(kind, layouts):
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
