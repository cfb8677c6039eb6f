# SPDX-License-Identifier: Apache-2.0
"""Values of registers and digests as P4Data, and back.

Source: P4Runtime Specification 1.4, "P4Data".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from nicemu.pipeline import HeaderValue, P4Info, StackValue, UnionValue, Value, Varbits, ir, width_of

from .byte_string import decode_bytes, decode_signed, encode_bytes, encode_signed
from .messages import Message
from .refusals import illegal, unimplemented
from .type_message import DataLayout, encode_member, is_tuple

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
            message.enum_value = encode_member(value, listed)
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
            _fill_header(message.header, value, kind, layouts)
        case ir.Named(name) if isinstance(layouts.get(name), ir.UnionType):
            _fill_union(message.header_union, value, kind, layouts)
        case ir.Stack(element):
            of, form = ir.Named(element), _form_of(kind, layouts, "")
            fill = _fill_header if form == "header_stack" else _fill_union
            held = getattr(message, form)
            for item in value.elements:
                fill(held.entries.add(), item, of, layouts)
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
            return _member_of(message.enum_value, listed, what)
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
        case ir.Stack(element, size):
            given = getattr(message, expected).entries
            if len(given) != size:
                raise illegal(f"{what} has {size} elements; {len(given)} were given")
            read = _header_of if expected == "header_stack" else _union_of
            of = ir.Named(element)
            return StackValue([read(one, of, layouts, f"{what}[{at}]") for at, one in enumerate(given)])
        case _:
            assert isinstance(kind, ir.Named)
    if form == "header":
        return _header_of(message.header, kind, layouts, what)
    if form == "header_union":
        return _union_of(message.header_union, kind, layouts, what)
    fields = _fields_of(kind, layouts)
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


def zero_of(kind: ir.Type, layouts: Layouts) -> Value:
    """Return the value that a place of a type starts with."""
    if isinstance(kind, ir.Varbit):
        return Varbits()
    if not isinstance(kind, ir.Named) or _listed(kind, layouts) is not None:
        return 0
    layout = layouts[kind.name]
    parts = {part.name: zero_of(part.type, layouts) for part in _fields_of(kind, layouts)}
    return HeaderValue(parts) if isinstance(layout, ir.HeaderType) else parts


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
        case ir.Named(name) if isinstance(layouts.get(name), ir.UnionType):
            return "header_union"
        case ir.Stack(element) if element in layouts:
            is_union = isinstance(layouts[element], ir.UnionType)
            return "header_union_stack" if is_union else "header_stack"
        case _:
            raise unimplemented(f"{what}: values of type {kind} have no P4Data here")


def _fill_header(message: Message, value: Value, kind: ir.Named, layouts: Layouts) -> None:
    fields = value.fields if isinstance(value, HeaderValue) else value
    message.is_valid = value.valid if isinstance(value, HeaderValue) else True
    if message.is_valid:
        message.bitstrings.extend(_numbers(fields, kind, layouts))


def _fill_union(message: Message, value: UnionValue, kind: ir.Named, layouts: Layouts) -> None:
    message.SetInParent()
    for part in _fields_of(kind, layouts):
        if value.headers[part.name].valid:
            assert isinstance(part.type, ir.Named)
            message.valid_header_name = part.name
            _fill_header(message.valid_header, value.headers[part.name], part.type, layouts)


def _header_of(message: Message, kind: ir.Named, layouts: Layouts, what: str) -> HeaderValue:
    fields = _fields_of(kind, layouts)
    if not message.is_valid:
        return HeaderValue({part.name: zero_of(part.type, layouts) for part in fields})
    _check_count(message.bitstrings, fields, what)
    parts: dict[str, Value] = {}
    for part, data in zip(fields, message.bitstrings, strict=True):
        if isinstance(part.type, ir.Varbit):
            length_bits = min(8 * len(data), part.type.width)
            number = decode_bytes(data, length_bits, f"{what}.{part.name}") if data else 0
            parts[part.name] = Varbits(length_bits, number)
        else:
            parts[part.name] = _number_of(data, part.type, f"{what}.{part.name}")
    return HeaderValue(parts, True)


def _union_of(message: Message, kind: ir.Named, layouts: Layouts, what: str) -> UnionValue:
    headers = {part.name: zero_of(part.type, layouts) for part in _fields_of(kind, layouts)}
    name = message.valid_header_name
    if name and name not in headers:
        raise illegal(f"{what} is {kind}, which has no header {name!r}; it has {', '.join(headers)}")
    for part in _fields_of(kind, layouts):
        if part.name == name:
            assert isinstance(part.type, ir.Named)
            headers[name] = _header_of(message.valid_header, part.type, layouts, f"{what}.{name}")
    return UnionValue(headers)


def _numbers(fields: Mapping[str, Value], kind: ir.Named, layouts: Layouts) -> list[bytes]:
    """Return the byte strings of a header, whose inner structs P4Info has as so many fields; those of a
    varbit are as many as it has.
    """
    found = []
    for part in _fields_of(kind, layouts):
        value = fields[part.name]
        listed = _listed(part.type, layouts)
        if isinstance(part.type, ir.Varbit):
            found.append(value.number.to_bytes(-(-value.length_bits // 8), "big"))
        elif listed is not None:
            found.append(_bytes_of(value, listed.type))
        elif isinstance(part.type, ir.Named):
            found += _numbers(value, part.type, layouts)
        else:
            found.append(_bytes_of(value, part.type))
    return found


def _bytes_of(number: int, kind: ir.Type) -> bytes:
    return encode_signed(number) if isinstance(kind, ir.Bits) and kind.signed else encode_bytes(number)


def _member_of(data: bytes, listed: ir.EnumType, what: str) -> int:
    """Return the value that a serializable enum's byte string means."""
    width = width_of(listed.type)
    number = decode_bytes(data, width, what)
    is_negative = isinstance(listed.type, ir.Bits) and listed.type.signed and number >> width - 1
    return number - (1 << width) if is_negative else number


def _number_of(data: bytes, kind: ir.Type, what: str) -> int:
    if not isinstance(kind, ir.Bits | ir.Bool):
        raise unimplemented(f"{what}: a field of type {kind} has no P4Data here")
    if isinstance(kind, ir.Bits) and kind.signed:
        return decode_signed(data, kind.width, what)
    return decode_bytes(data, kind.width if isinstance(kind, ir.Bits) else 1, what)


def _check_count(given: Any, fields: tuple[ir.Field, ...], what: str) -> None:  # noqa: ANN401
    if len(given) != len(fields):
        raise illegal(f"{what} has {len(fields)} members; {len(given)} were given")
