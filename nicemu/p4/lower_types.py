# SPDX-License-Identifier: Apache-2.0
"""Types of the checker to types of the IR: each struct, header, tuple and array that a program uses, once, by
a name that no other has.
"""

from __future__ import annotations

from nicemu.pipeline import ir

from .type_sizes import lacking, scalar_of
from .types import (
    INTEGER,
    TEXT,
    CompositeType,
    EnumType,
    NewType,
    P4ListType,
    StackType,
    Type,
    VarbitType,
)


class TypeTable:
    """The composite types of a program, in an order in which each stands behind those that it holds, and the
    new types and enums that something has, by name.
    """

    def __init__(self, metadata: ir.StructType) -> None:
        self._metadata = metadata
        self.layouts: list[ir.Layout] = []
        self.new_types: dict[str, ir.NewType] = {}
        self.enums: dict[str, ir.EnumType] = {}
        self._named: dict[CompositeType, ir.Named] = {}

    def of(self, kind: Type) -> ir.Type:
        """Return the IR's type for a value, or for what constructors of a program's own externs take."""
        scalar = scalar_of(kind)
        if scalar is not None:
            return scalar
        if isinstance(kind, VarbitType):
            return ir.Varbit(kind.width)
        if kind is TEXT:  # of an argument of a program's own extern
            return ir.STRING
        if kind is INTEGER:
            return ir.INTEGER
        if isinstance(kind, P4ListType):
            return ir.List(self.of(kind.element))
        if isinstance(kind, StackType):
            return ir.Stack(self._composite(kind.element).name, kind.size)
        assert isinstance(kind, CompositeType), kind
        return self._composite(kind)

    def name_of(self, kind: Type | None) -> str:
        """Return the name of a new type or enum, "" for others."""
        if isinstance(kind, EnumType):
            members = tuple(ir.EnumMember(name, value) for name, value in kind.members.items())
            is_serializable = kind.underlying is not None
            self.enums[kind.name] = ir.EnumType(kind.name, self.of(kind), members, is_serializable)
            return kind.name
        if not isinstance(kind, NewType):
            return ""
        uri, bits = kind.translation or ("", 0)
        is_translated = kind.translation is not None
        self.new_types[kind.name] = ir.NewType(kind.name, self.of(kind), is_translated, uri, bits, kind.notes)
        return kind.name

    def added_to(self, kind: Type) -> tuple[ir.Field, ...]:
        """Return the fields that a struct has in the IR behind its own: what the architecture's metadata has
        that the program's own declaration of it lacks.
        """
        return lacking(kind, self._metadata)

    def _composite(self, kind: CompositeType) -> ir.Named:
        if kind not in self._named:
            fields = tuple(
                ir.Field(name, self.of(part), self.name_of(part), *_field_facts(kind, name))
                for name, part in kind.fields.items()
            )
            name = kind.name
            if kind.family is not None:  # a dot keeps it apart from all names of the program
                count = sum(other.family is kind.family for other in self._named)
                name = f"{kind.family.name}.{count + 1}"
            self._named[kind] = ir.Named(name)
            match kind.kind:
                case "header":
                    notes = kind.notes if kind.controller else ()
                    self.layouts.append(ir.HeaderType(name, fields, kind.controller, notes))
                case "header_union":
                    self.layouts.append(ir.UnionType(name, fields))
                case _:
                    self.layouts.append(ir.StructType(name, (*fields, *self.added_to(kind))))
        return self._named[kind]


def _field_facts(kind: CompositeType, field: str) -> tuple[int, tuple[ir.Annotation, ...], str]:
    """Return what controllers are told of a field: its number, 0 for none, annotations, another name."""
    shown_name = kind.field_names.get(field, "")
    if not kind.controller:
        return 0, (), shown_name
    return kind.field_ids.get(field, 0), kind.field_notes.get(field, ()), shown_name
