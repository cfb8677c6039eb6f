# SPDX-License-Identifier: Apache-2.0
"""Header and union types of a BMv2 JSON file as the IR's.

A type of headers becomes a header, and a struct where metadata is of that type.
Source: p4lang/behavioral-model, "BMv2 JSON input format", "header_types" and "header_union_types".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nicemu.pipeline import ir

from .document import Json


class Names:
    """Gives out names that stand there once."""

    def __init__(self, taken: tuple[str, ...] = ()) -> None:
        self._taken = set(taken)

    def unique(self, wanted: str) -> str:
        """Return `wanted`, or that with a number behind it."""
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}.{count}"
        self._taken.add(name)
        return name

    def type_name(self, wanted: str) -> str:
        """Return a name for a type."""
        name = re.sub(r"[^A-Za-z0-9_.$]", "_", wanted)
        return self.unique(name if re.match(r"[A-Za-z_]", name) else f"_{name}")


@dataclass(frozen=True, slots=True)
class Column:
    """A field of a header type; a varbit has no width."""

    name: str
    width_bits: int
    signed: bool
    kind: ir.Type


class Layouts:
    """The types of a file, each made when something is first of it; `names` are those of all types."""

    def __init__(self, document: Json, names: Names) -> None:
        self._names = names
        self._columns: dict[str, tuple[Json, dict[str, Column]]] = {}
        self._made: dict[tuple[str, bool], ir.HeaderType | ir.StructType] = {}
        self._sources: dict[str, str] = {}
        self._unions: dict[str, ir.UnionType] = {}
        self._by_label: dict[str, ir.UnionType] = {}
        for item in document.list("header_types"):
            self._header_type(item)
        for item in document.list("header_union_types"):
            self._union_type(item)

    @property
    def headers(self) -> tuple[ir.HeaderType, ...]:
        """The header types."""
        return tuple(item for item in self._made.values() if isinstance(item, ir.HeaderType))

    @property
    def structs(self) -> tuple[ir.StructType, ...]:
        """The types of metadata."""
        return tuple(item for item in self._made.values() if isinstance(item, ir.StructType))

    @property
    def unions(self) -> tuple[ir.UnionType, ...]:
        """The union types."""
        return tuple(self._unions.values())

    def is_header(self, kind: ir.Type) -> bool:
        """Return whether a type is a header."""
        if not isinstance(kind, ir.Named) or kind.name not in self._sources:
            return False
        found = self._made.get((self._sources[kind.name], False))
        return found is not None and found.name == kind.name

    def union(self, kind: ir.Type) -> ir.UnionType | None:
        """Return the union that a type is."""
        return self._by_label.get(kind.name) if isinstance(kind, ir.Named) else None

    def columns(self, kind: ir.Type) -> dict[str, Column]:
        """Return the fields of a header or struct by their names; there are none of what is neither."""
        if not isinstance(kind, ir.Named) or kind.name not in self._sources:
            return {}
        return self._columns[self._sources[kind.name]][1]

    def of(self, kind: Json, is_metadata: bool) -> ir.Named:
        """Return the header of a header type, or its struct."""
        name = kind.text()
        if name not in self._columns:
            raise kind.fault(f"is {name}, which is none of header_types")
        if (name, is_metadata) not in self._made:
            item, columns = self._columns[name]
            total = sum(column.width_bits for column in columns.values())
            if total % 8 and not is_metadata and all(column.width_bits for column in columns.values()):
                raise item.fault(f"is {total} bits long; a header has whole bytes")
            label = self._names.type_name(name)
            fields = tuple(ir.Field(column.name, column.kind) for column in columns.values())
            self._sources[label] = name
            made = ir.StructType(label, fields) if is_metadata else ir.HeaderType(label, fields)
            self._made[name, is_metadata] = made
        return ir.Named(self._made[name, is_metadata].name)

    def of_union(self, name: Json) -> ir.UnionType:
        """Return the union of a union type."""
        if name.text() not in self._unions:
            raise name.fault(f"is {name.text()}, which is none of header_union_types")
        return self._unions[name.text()]

    def _header_type(self, item: Json) -> None:
        name = item["name"].text()
        if name in self._columns:
            raise item["name"].fault(f"is {name}, which stands there twice")
        if item.get("length_exp") is not None:
            raise item["length_exp"].unsupported("a header that says its own length")
        columns: dict[str, Column] = {}
        varbit: str | None = None
        for field in item["fields"].items():
            parts = field.items()
            if len(parts) not in (2, 3):
                raise field.fault("was expected to be a name, a width and whether it is signed")
            label = parts[0].text()
            if label.isdecimal():
                raise parts[0].fault(f"is {label}; the name of a field begins with a letter or _")
            if label in columns:
                raise parts[0].fault(f"is {label}, which stands there twice")
            if parts[1].value == "*":
                if varbit is not None:
                    raise field.fault("is a second field of variable length; one was expected")
                varbit = label
                columns[label] = Column(label, 0, False, ir.Varbit(1))
                continue
            width = parts[1].number(1, ir.MAX_WIDTH_BITS)
            signed = len(parts) == 3 and parts[2].flag()
            columns[label] = Column(label, width, signed, ir.Bits(width, signed))
        if varbit is not None:
            room = 8 * item["max_length"].number(1) - sum(column.width_bits for column in columns.values())
            if not 0 < room <= ir.MAX_VARBIT_BITS:
                raise item["max_length"].fault("leaves no room for the field of variable length, or too much")
            columns[varbit] = Column(varbit, 0, False, ir.Varbit(room))
        self._columns[name] = (item, columns)

    def _union_type(self, item: Json) -> None:
        name = item["name"].text()
        if name in self._unions:
            raise item["name"].fault(f"is {name}, which stands there twice")
        fields: dict[str, ir.Field] = {}
        for part in item["headers"].items():
            label, kind = part.items(2)
            if label.text() in fields:
                raise label.fault(f"is {label.text()}, which stands there twice")
            fields[label.text()] = ir.Field(label.text(), self.of(kind, False))
        union = ir.UnionType(self._names.type_name(name), tuple(fields.values()))
        self._unions[name] = self._by_label[union.name] = union
