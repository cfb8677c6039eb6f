# SPDX-License-Identifier: Apache-2.0
"""Where the headers and metadata of a BMv2 JSON file lie in the IR.

Header instances, stacks and unions are fields of the struct `headers`, metadata instances of the struct
`metadata`. A field of standard_metadata, or one whose alias is a name that simple_switch knows, lies in the
architecture's metadata.
Source: p4lang/behavioral-model, "BMv2 JSON input format", "header_types" to "header_union_stacks" and
"field_aliases"; "The BMv2 Simple Switch target", "Standard metadata".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nicemu.pipeline import ARCHITECTURES, ir

from .document import Json

V1MODEL = ARCHITECTURES["v1model"]
VALIDITY = "$valid$"
MAX_STACK = ir.MAX_STACK_SIZE

_STANDARD = ir.Name(V1MODEL.place, ir.Named(V1MODEL.metadata.name))
_OTHER_PLACES = {
    "queueing_metadata": ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"),
    "intrinsic_metadata": (
        "ingress_global_timestamp",
        "egress_global_timestamp",
        "mcast_grp",
        "egress_rid",
        "priority",
    ),
}
TARGET_FIELDS = {
    **{f"{V1MODEL.place}.{part.name}": part for part in V1MODEL.metadata.fields},
    **{
        f"{header}.{part.name}": part
        for header, names in _OTHER_PLACES.items()
        for part in V1MODEL.metadata.fields
        if part.name in names
    },
}
"""The fields that simple_switch knows, by its names for them."""


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
class FieldPlace:
    """A field: where it lies, as what, and how many bits BMv2 lets it have (0 for a varbit)."""

    expression: ir.Expression
    width_bits: int
    signed: bool = False

    @property
    def kind(self) -> ir.Bits:
        """What the field holds."""
        return ir.Bits(self.width_bits, self.signed)

    @property
    def is_plain(self) -> bool:
        """Whether the field's place in the IR is a number of just this type."""
        return self.expression.type == self.kind


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    width_bits: int
    signed: bool
    kind: ir.Type


class Places:
    """Everything of the file that holds values."""

    def __init__(self, document: Json) -> None:
        self.type_names = Names((V1MODEL.metadata.name, ir.HEADERS, ir.METADATA, "bool", "error", "string"))
        self._document = document
        self._header_names: set[str] = set()
        self._columns: dict[str, tuple[Json, list[_Column]]] = {}
        self._layouts: dict[tuple[str, bool], ir.Layout] = {}
        self._unions: dict[str, tuple[ir.UnionType, list[str]]] = {}
        self._types: dict[str, str] = {}
        self._headers: dict[str, ir.Expression] = {}
        self._stacks: dict[str, ir.Expression] = {}
        self._union_places: dict[str, ir.Expression] = {}
        self._union_stacks: dict[str, ir.Expression] = {}
        self._parts: dict[bool, list[ir.Field]] = {False: [], True: []}
        self._aliases = self._field_aliases()
        for item in document.list("header_types"):
            self._header_type(item)
        for item in document.list("header_union_types"):
            self._union_type(item)
        self._instances()

    @property
    def headers(self) -> tuple[ir.HeaderType, ...]:
        """The header types."""
        return tuple(item for item in self._layouts.values() if isinstance(item, ir.HeaderType))

    @property
    def unions(self) -> tuple[ir.UnionType, ...]:
        """The union types."""
        return tuple(union for union, _ in self._unions.values())

    @property
    def structs(self) -> tuple[ir.StructType, ...]:
        """The structs, those of all headers and of all metadata last."""
        own = [item for item in self._layouts.values() if isinstance(item, ir.StructType)]
        return (
            V1MODEL.metadata,
            *own,
            ir.StructType(ir.HEADERS, tuple(self._parts[False])),
            ir.StructType(ir.METADATA, tuple(self._parts[True])),
        )

    @property
    def variables(self) -> tuple[ir.Variable, ...]:
        """The variables that the architecture owns."""
        return (
            ir.Variable(ir.HEADERS, ir.Named(ir.HEADERS)),
            ir.Variable(ir.METADATA, ir.Named(ir.METADATA)),
            ir.Variable(V1MODEL.place, _STANDARD.type),
        )

    # Places by their names

    def header(self, name: Json) -> ir.Expression:
        """Return a header or metadata instance."""
        return self._found(self._headers, name, "header")

    def stack(self, name: Json) -> ir.Expression:
        """Return a header stack."""
        return self._found(self._stacks, name, "header stack")

    def union(self, name: Json) -> ir.Expression:
        """Return a header union."""
        return self._found(self._union_places, name, "header union")

    def union_stack(self, name: Json) -> ir.Expression:
        """Return a stack of header unions."""
        return self._found(self._union_stacks, name, "header union stack")

    def is_metadata(self, place: ir.Expression) -> bool:
        """Return whether an instance is one of metadata, which is always valid."""
        return not self.is_header(place.type)

    def is_header(self, kind: ir.Type) -> bool:
        """Return whether a type is a header."""
        return isinstance(kind, ir.Named) and kind.name in self._header_names

    def is_standard(self, place: ir.Expression) -> bool:
        """Return whether an instance is that whose fields lie in the architecture's metadata."""
        return isinstance(place, ir.Member) and self.is_metadata(place) and place.field == V1MODEL.place

    def has_varbit(self, header: ir.Expression) -> bool:
        """Return whether a header has a field of variable length."""
        return any(not column.width_bits for column in self._fields(header))

    def is_union(self, kind: ir.Named) -> bool:
        """Return whether a type is a header union."""
        return any(union.name == kind.name for union in self.unions)

    def field(self, pair: Json) -> FieldPlace:
        """Return the field that [header, field] names."""
        instance, name = pair.items(2)
        header = self.header(instance)
        target = self._aliases.get((instance.text(), name.text()), f"{instance.text()}.{name.text()}")
        standard = TARGET_FIELDS.get(target) if self.is_metadata(header) else None
        found = self.field_of(header, name)
        if standard is not None:
            return FieldPlace(
                ir.Member(_STANDARD, standard.name, standard.type), found.width_bits, found.signed
            )
        return found

    def field_of(self, header: ir.Expression, name: Json) -> FieldPlace:
        """Return a field of a header."""
        column = next((item for item in self._fields(header) if item.name == name.text()), None)
        if column is None:
            raise name.fault(f"is {name.text()}, which is no field of {header.type}")
        return FieldPlace(ir.Member(header, column.name, column.kind), column.width_bits, column.signed)

    def field_at(self, header: ir.Expression, index: Json) -> FieldPlace:
        """Return a field of a header by its number."""
        columns = self._fields(header)
        column = columns[index.number(0, len(columns) - 1)]
        return FieldPlace(ir.Member(header, column.name, column.kind), column.width_bits, column.signed)

    def validity(self, header: ir.Expression) -> ir.Expression:
        """Return whether a header is valid."""
        return ir.Constant(1, ir.BOOL) if self.is_metadata(header) else ir.IsValid(header)

    def member(self, union: ir.Expression, name: Json) -> ir.Expression:
        """Return a header of a union by its name."""
        assert isinstance(union.type, ir.Named)
        layout = next(item for item, _ in self._unions.values() if item.name == union.type.name)
        for part in layout.fields:
            if part.name == name.text():
                return ir.Member(union, part.name, part.type)
        raise name.fault(f"is {name.text()}, which is no header of {layout.name}")

    def member_at(self, union: ir.Expression, index: Json) -> ir.Expression:
        """Return a header of a union by its number."""
        assert isinstance(union.type, ir.Named)
        layout = next(item for item, _ in self._unions.values() if item.name == union.type.name)
        part = layout.fields[index.number(0, len(layout.fields) - 1)]
        return ir.Member(union, part.name, part.type)

    def _found(self, known: dict[str, ir.Expression], name: Json, noun: str) -> ir.Expression:
        if name.text() not in known:
            raise name.fault(f"is {name.text()}, which is no {noun} of the program")
        return known[name.text()]

    def _fields(self, header: ir.Expression) -> list[_Column]:
        assert isinstance(header.type, ir.Named)
        return self._columns[self._types[header.type.name]][1]

    # Types

    def _field_aliases(self) -> dict[tuple[str, str], str]:
        aliases = {}
        for item in self._document.list("field_aliases"):
            target, place = item.items(2)
            header, name = place.items(2)
            aliases[header.text(), name.text()] = target.text()
        return aliases

    def _header_type(self, item: Json) -> None:
        name = item["name"].text()
        if name in self._columns:
            raise item["name"].fault(f"is {name}, which stands there twice")
        if item.get("length_exp") is not None:
            raise item["length_exp"].unsupported("a header that says its own length")
        columns: list[_Column] = []
        varbit = None
        for field in item["fields"].items():
            parts = field.items()
            if len(parts) not in (2, 3):
                raise field.fault("was expected to be a name, a width and whether it is signed")
            label = parts[0].text()
            if any(column.name == label for column in columns):
                raise parts[0].fault(f"is {label}, which stands there twice")
            if parts[1].value == "*":
                if varbit is not None:
                    raise field.fault("is a second field of variable length; one was expected")
                varbit = len(columns)
                columns.append(_Column(label, 0, False, ir.Varbit(1)))
                continue
            width = parts[1].number(1, ir.MAX_WIDTH_BITS)
            signed = len(parts) == 3 and parts[2].flag()
            columns.append(_Column(label, width, signed, ir.Bits(width, signed)))
        if varbit is not None:
            room = 8 * item["max_length"].number(1) - sum(column.width_bits for column in columns)
            if not 0 < room <= ir.MAX_VARBIT_BITS:
                raise item["max_length"].fault("leaves no room for the field of variable length, or too much")
            columns[varbit] = _Column(columns[varbit].name, 0, False, ir.Varbit(room))
        self._columns[name] = (item, columns)

    def _union_type(self, item: Json) -> None:
        name = item["name"].text()
        if name in self._unions:
            raise item["name"].fault(f"is {name}, which stands there twice")
        fields: list[ir.Field] = []
        for part in item["headers"].items():
            label, kind = part.items(2)
            if any(field.name == label.text() for field in fields):
                raise label.fault(f"is {label.text()}, which stands there twice")
            fields.append(ir.Field(label.text(), self._layout(kind, False)))
        union = ir.UnionType(self.type_names.type_name(name), tuple(fields))
        self._unions[name] = (union, [field.name for field in fields])

    def _layout(self, kind: Json, is_metadata: bool) -> ir.Named:
        """Return the header or struct of a header type."""
        name = kind.text()
        if name not in self._columns:
            raise kind.fault(f"is {name}, which is none of header_types")
        if (name, is_metadata) not in self._layouts:
            item, columns = self._columns[name]
            total = sum(column.width_bits for column in columns)
            if total % 8 and not is_metadata and not any(not column.width_bits for column in columns):
                raise item.fault(f"is {total} bits long; a header has whole bytes")
            label = self.type_names.type_name(name)
            fields = tuple(ir.Field(column.name, column.kind) for column in columns)
            self._types[label] = name
            if not is_metadata:
                self._header_names.add(label)
            made = ir.StructType(label, fields) if is_metadata else ir.HeaderType(label, fields)
            self._layouts[name, is_metadata] = made
        return ir.Named(self._layouts[name, is_metadata].name)

    # Instances

    def _instances(self) -> None:
        """Name the place of every instance: stacks first, then unions, then what belongs to neither."""
        headers = self._by_id("headers")
        unions = self._by_id("header_unions")
        placed: dict[int, ir.Expression] = {}
        placed_unions: dict[int, ir.Expression] = {}
        for item in self._document.list("header_stacks"):
            kind = self._layout(item["header_type"], False)
            ids = self._ids(item["header_ids"], headers, placed, kind)
            stack = self._part(item, ir.Stack(kind.name, len(ids)))
            self._stacks[item["name"].text()] = stack
            placed |= {number: _element(stack, place, kind) for place, number in enumerate(ids)}
        for item in self._document.list("header_union_stacks"):
            kind = self._union_kind(item["union_type"])
            ids = self._ids(item["header_union_ids"], unions, placed_unions, kind)
            stack = self._part(item, ir.Stack(kind.name, len(ids)))
            self._union_stacks[item["name"].text()] = stack
            placed_unions |= {number: _element(stack, place, kind) for place, number in enumerate(ids)}
        for number, item in unions.items():
            kind = self._union_kind(item["union_type"])
            union = placed_unions.get(number)
            if union is None:
                union = self._part(item, kind)
            layout, names = self._unions[item["union_type"].text()]
            self._union_places[item["name"].text()] = union
            members = item["header_ids"].items(len(names))
            for part, member in zip(layout.fields, members, strict=True):
                self._ids_of([member], headers, placed, part.type)
                placed[member.number()] = ir.Member(union, part.name, part.type)
        for number, item in headers.items():
            name = item["name"].text()
            if name in self._headers:
                raise item["name"].fault(f"is {name}, which stands there twice")
            is_metadata = item["metadata"].flag()
            if number not in placed:
                placed[number] = self._part(item, self._layout(item["header_type"], is_metadata), is_metadata)
            self._headers[name] = placed[number]

    def _by_id(self, key: str) -> dict[int, Json]:
        found: dict[int, Json] = {}
        for item in self._document.list(key):
            number = item["id"].number()
            if number in found:
                raise item["id"].fault(f"is {number}, which stands there twice")
            found[number] = item
        return found

    def _ids(
        self, listed: Json, known: dict[int, Json], placed: dict[int, ir.Expression], kind: ir.Named
    ) -> list[int]:
        items = listed.items()
        if not 0 < len(items) <= MAX_STACK:
            raise listed.fault(f"has {len(items)} items; 1 to {MAX_STACK} were expected")
        return self._ids_of(items, known, placed, kind)

    def _ids_of(
        self, items: list[Json], known: dict[int, Json], placed: dict[int, ir.Expression], kind: ir.Type
    ) -> list[int]:
        numbers: list[int] = []
        for item in items:
            number = item.number()
            if number not in known or number in placed or number in numbers:
                raise item.fault(f"is {number}, which is no instance, or is part of something already")
            named = known[number]
            is_union = named.get("union_type") is not None
            own = (
                self._union_kind(named["union_type"])
                if is_union
                else self._layout(named["header_type"], False)
            )
            if own != kind:
                raise item.fault(f"is {number}, a {own}; a {kind} was expected")
            numbers.append(number)
        return numbers

    def _union_kind(self, name: Json) -> ir.Named:
        if name.text() not in self._unions:
            raise name.fault(f"is {name.text()}, which is none of header_union_types")
        return ir.Named(self._unions[name.text()][0].name)

    def _part(self, item: Json, kind: ir.Type, is_metadata: bool = False) -> ir.Expression:
        """Make room for an instance in the headers or the metadata."""
        name = item["name"].text()
        parts = self._parts[is_metadata]
        if any(part.name == name for part in parts):
            raise item["name"].fault(f"is {name}, which stands there twice")
        parts.append(ir.Field(name, kind))
        owner = ir.METADATA if is_metadata else ir.HEADERS
        return ir.Member(ir.Name(owner, ir.Named(owner)), name, kind)


def _element(stack: ir.Expression, place: int, kind: ir.Named) -> ir.Expression:
    return ir.Element(stack, ir.Constant(place, ir.Bits(32)), kind)
