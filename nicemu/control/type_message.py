# SPDX-License-Identifier: Apache-2.0
"""Types of registers and digests as P4Info's messages, and back.

A type that the pipeline does not know by itself, such as an enum of another compiler's P4Info, comes back as
a name without a layout.
Source: P4Runtime Specification 1.4, "P4DataTypeSpec"; p4types.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from nicemu.pipeline import ir, width_of

from .annotation_message import annotations_of, fill_annotations
from .byte_string import encode_bytes
from .messages import Message

DataLayout: TypeAlias = ir.Layout | ir.EnumType
"""What a type of data may be by its name."""
_NAMED = ("struct", "header", "header_union", "enum", "serializable_enum", "new_type")


def is_tuple(kind: ir.Type) -> bool:
    """Return whether a struct of the pipeline is a tuple or array, which P4Info has no name for."""
    return isinstance(kind, ir.Named) and _is_unnamed(kind.name)


def _is_unnamed(name: str) -> bool:
    return name.startswith((ir.TUPLE, ir.ARRAY))


def fill_type(spec: Message, kind: ir.Type, layouts: Sequence[DataLayout], type_name: str = "") -> None:
    """Set a P4DataTypeSpec; `layouts` are the headers, unions, structs and enums that there are, `type_name`
    is that of a new type.
    """
    if type_name:
        spec.new_type.name = type_name
        return
    forms = {layout.name: _form_of(layout) for layout in layouts}
    match kind:
        case ir.Bits() | ir.Varbit():
            _fill_bitstring(spec.bitstring, kind)
        case ir.Bool():
            spec.bool.SetInParent()
        case ir.Named(name) if is_tuple(kind):
            spec.tuple.SetInParent()
            made = next(layout for layout in layouts if layout.name == name)
            assert isinstance(made, ir.StructType)
            for part in made.fields:
                fill_type(spec.tuple.members.add(), part.type, layouts, part.type_name)
        case ir.Named(name):
            getattr(spec, forms[name]).name = name
        case ir.Stack(element, size):
            if forms[element] == "header":
                spec.header_stack.header.name, spec.header_stack.size = element, size
            else:
                stack = spec.header_union_stack
                stack.header_union.name, stack.size = element, size
        case _:
            spec.error.SetInParent()


def encode_member(value: int, listed: ir.EnumType) -> bytes:
    """Return the byte string of a serializable enum's value: P4Info knows none with a sign, so as bit<W>."""
    return encode_bytes(value & (1 << width_of(listed.type)) - 1)


def fill_type_info(message: Message, layouts: Sequence[DataLayout], errors: Sequence[str] = ()) -> None:
    """Set a P4TypeInfo, but for its new types."""
    if errors:
        message.error.members.extend(errors)
    for layout in layouts:
        match layout:
            case ir.EnumType(serializable=True):
                listed = message.serializable_enums[layout.name]
                listed.underlying_type.bitwidth = width_of(layout.type)
                for one in layout.members:
                    listed.members.add(name=one.name, value=encode_member(one.value, layout))
            case ir.EnumType():
                for one in layout.members:
                    message.enums[layout.name].members.add(name=one.name)
            case ir.HeaderType():
                header = message.headers[layout.name]
                for name, kind in _flat(layout, layouts):
                    _fill_bitstring(header.members.add(name=name).type_spec, kind)
            case ir.UnionType():
                for part in layout.fields:
                    assert isinstance(part.type, ir.Named)
                    member = message.header_unions[layout.name].members.add(name=part.name)
                    member.header.name = part.type.name
            case _ if not _is_unnamed(layout.name):
                struct = message.structs[layout.name]
                for part in layout.fields:
                    member = struct.members.add(name=part.name)
                    fill_type(member.type_spec, part.type, layouts, part.type_name)


def fill_new_types(message: Message, new_types: Sequence[ir.NewType]) -> None:
    """Set the new types of a P4TypeInfo."""
    for new in new_types:
        spec = message.new_types[new.name]
        fill_annotations(spec, new.annotations)
        if not new.translated:
            fill_type(spec.original_type, new.type, ())
            continue
        spec.translated_type.uri = new.uri
        if new.controller_bits:
            spec.translated_type.sdn_bitwidth = new.controller_bits
        else:
            spec.translated_type.sdn_string.SetInParent()


def new_types_of_message(message: Message) -> tuple[ir.NewType, ...]:
    """Return the new types of a P4TypeInfo, by name; translated ones have the values of the controller."""
    found = []
    for name, spec in sorted(message.new_types.items()):
        if spec.WhichOneof("representation") == "translated_type":
            given = spec.translated_type
            kind = ir.Bits(given.sdn_bitwidth) if given.sdn_bitwidth else ir.STRING
            new = ir.NewType(name, kind, True, given.uri, given.sdn_bitwidth)
        else:
            new = ir.NewType(name, type_of_message(spec.original_type))
        found.append(replace(new, annotations=annotations_of(spec)))
    return tuple(found)


def enums_of_message(message: Message) -> tuple[ir.EnumType, ...]:
    """Return the enums of a P4TypeInfo, by name."""
    found = []
    for name, spec in message.enums.items():
        members = tuple(ir.EnumMember(one.name, place) for place, one in enumerate(spec.members))
        found.append(ir.EnumType(name, ir.Bits(32), members))
    for name, spec in message.serializable_enums.items():
        members = tuple(ir.EnumMember(one.name, int.from_bytes(one.value, "big")) for one in spec.members)
        found.append(ir.EnumType(name, ir.Bits(spec.underlying_type.bitwidth), members, True))
    return tuple(sorted(found, key=lambda listed: listed.name))


def typed_of_message(spec: Message, new_types: Mapping[str, ir.NewType]) -> tuple[ir.Type, str]:
    """Return the type that a P4DataTypeSpec means, and the name of the new type that it is, "" for none."""
    name = spec.new_type.name if spec.WhichOneof("type_spec") == "new_type" else ""
    return (new_types[name].type, name) if name in new_types else (type_of_message(spec), "")


def type_of_message(spec: Message) -> ir.Type:
    """Return the type that a P4DataTypeSpec means, without a look at new types."""
    form = spec.WhichOneof("type_spec")
    if form == "bitstring":
        return _bits_of(spec.bitstring)
    if form == "bool":
        return ir.BOOL
    if form == "error":
        return ir.ERROR
    if form == "tuple":
        return ir.Named(_tuple_of(spec).name)
    if form == "header_stack":
        return ir.Stack(spec.header_stack.header.name, spec.header_stack.size)
    if form == "header_union_stack":
        return ir.Stack(spec.header_union_stack.header_union.name, spec.header_union_stack.size)
    return ir.Named(getattr(spec, form).name if form in _NAMED else form or "")


def _tuple_of(spec: Message) -> ir.StructType:
    """Return the layout of a tuple, whose name says of which types it is."""
    kinds = [type_of_message(member) for member in spec.tuple.members]
    fields = tuple(ir.Field(f"f{place}", kind) for place, kind in enumerate(kinds))
    return ir.StructType(f"{ir.TUPLE}({', '.join(map(str, kinds))})", fields)


def tuples_of_message(specs: Iterable[Message]) -> tuple[ir.StructType, ...]:
    """Return the layouts of tuples among types, and of those in them, by name."""
    found: dict[str, ir.StructType] = {}
    pending = list(specs)
    while pending:
        spec = pending.pop()
        if spec.WhichOneof("type_spec") == "tuple":
            made = _tuple_of(spec)
            found[made.name] = made
            pending += spec.tuple.members
    return tuple(found[name] for name in sorted(found))


def layouts_of_message(message: Message) -> tuple[ir.Layout, ...]:
    """Return the headers, unions and structs of a P4TypeInfo, by name, and the tuples in structs."""
    new_types = {new.name: new for new in new_types_of_message(message)}
    found: list[ir.Layout] = []
    for name, header in message.headers.items():
        fields = tuple(ir.Field(part.name, _bits_of(part.type_spec)) for part in header.members)
        found.append(ir.HeaderType(name, fields))
    for name, union in message.header_unions.items():
        members = tuple(ir.Field(part.name, ir.Named(part.header.name)) for part in union.members)
        found.append(ir.UnionType(name, members))
    for name, struct in message.structs.items():
        parts = tuple(
            ir.Field(part.name, *typed_of_message(part.type_spec, new_types)) for part in struct.members
        )
        found.append(ir.StructType(name, parts))
    specs = (part.type_spec for struct in message.structs.values() for part in struct.members)
    return (*sorted(found, key=lambda layout: layout.name), *tuples_of_message(specs))


def _flat(layout: ir.Layout, layouts: Sequence[DataLayout]) -> Iterator[tuple[str, ir.Type]]:
    """Yield the numbers of a header; those of a struct in it have a dot in their names."""
    known = {other.name: other for other in layouts}
    for part in layout.fields:
        inner = known[part.type.name] if isinstance(part.type, ir.Named) else None
        if isinstance(inner, ir.EnumType):
            yield part.name, inner.type
        elif inner is not None:
            for name, kind in _flat(inner, layouts):
                yield f"{part.name}.{name}", kind
        else:
            yield part.name, part.type


def _fill_bitstring(message: Message, kind: ir.Type) -> None:
    match kind:
        case ir.Varbit(width):
            message.varbit.max_bitwidth = width
        case ir.Bits(width, signed=True):
            message.int.bitwidth = width
        case ir.Bits(width):
            message.bit.bitwidth = width
        case _:
            message.bit.bitwidth = 1


def _bits_of(message: Message) -> ir.Type:
    form = message.WhichOneof("type_spec")
    if form == "varbit":
        return ir.Varbit(message.varbit.max_bitwidth)
    return ir.Bits(message.int.bitwidth, True) if form == "int" else ir.Bits(message.bit.bitwidth)


def _form_of(layout: DataLayout) -> str:
    match layout:
        case ir.EnumType(serializable=is_serializable):
            return "serializable_enum" if is_serializable else "enum"
        case ir.HeaderType():
            return "header"
        case ir.UnionType():
            return "header_union"
        case _:
            return "struct"
