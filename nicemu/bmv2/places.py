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
from .layouts import Layouts, Names

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


class Places:
    """Everything of the file that holds values."""

    def __init__(self, document: Json) -> None:
        self.type_names = Names((V1MODEL.metadata.name, ir.HEADERS, ir.METADATA, "bool", "error", "string"))
        self._document = document
        self._layouts = Layouts(document, self.type_names)
        self._headers: dict[str, ir.Expression] = {}
        self._fields: dict[ir.Expression, dict[str, FieldPlace]] = {}
        self._stacks: dict[str, ir.Expression] = {}
        self._union_places: dict[str, ir.Expression] = {}
        self._union_stacks: dict[str, ir.Expression] = {}
        self._parts: dict[bool, dict[str, ir.Field]] = {False: {}, True: {}}
        self._aliases = self._field_aliases()
        self._instances()
        self._check_aliases()

    @property
    def headers(self) -> tuple[ir.HeaderType, ...]:
        """The header types."""
        return self._layouts.headers

    @property
    def unions(self) -> tuple[ir.UnionType, ...]:
        """The union types."""
        return self._layouts.unions

    @property
    def structs(self) -> tuple[ir.StructType, ...]:
        """The structs, those of all headers and of all metadata last."""
        return (
            V1MODEL.metadata,
            *self._layouts.structs,
            ir.StructType(ir.HEADERS, tuple(self._parts[False].values())),
            ir.StructType(ir.METADATA, tuple(self._parts[True].values())),
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

    def header_or_union(self, name: Json) -> ir.Expression:
        """Return a header or metadata instance, or the union that p4c calls a header where a stack has it."""
        union = self._union_places.get(name.text())
        return self.header(name) if union is None or name.text() in self._headers else union

    def named(self, name: str) -> ir.Expression:
        """Return a header or metadata instance that is known to be there."""
        return self._headers[name]

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
        return self._layouts.is_header(kind)

    def is_standard(self, place: ir.Expression) -> bool:
        """Return whether an instance is that whose fields lie in the architecture's metadata."""
        return isinstance(place, ir.Member) and self.is_metadata(place) and place.field == V1MODEL.place

    def has_varbit(self, header: ir.Expression) -> bool:
        """Return whether a header has a field of variable length."""
        return any(not column.width_bits for column in self._layouts.columns(header.type).values())

    def is_union(self, kind: ir.Named) -> bool:
        """Return whether a type is a header union."""
        return self._layouts.union(kind) is not None

    def field(self, pair: Json) -> FieldPlace:
        """Return the field that [header, field] names."""
        instance, name = pair.items(2)
        header = self.header(instance)
        target = self._aliases.get((instance.text(), name.text()), f"{instance.text()}.{name.text()}")
        standard = TARGET_FIELDS.get(target) if self.is_metadata(header) else None
        found = self.field_of(header, name)
        return found if standard is None else _in_standard(standard, found)

    def field_of(self, header: ir.Expression, name: Json) -> FieldPlace:
        """Return a field of a header."""
        found = self.fields_of(header).get(name.text())
        if found is None:
            raise name.fault(f"is {name.text()}, which is no field of {header.type}")
        return found

    def field_at(self, header: ir.Expression, index: Json) -> FieldPlace:
        """Return a field of a header by its number."""
        fields = [*self.fields_of(header).values()]
        return fields[index.number(0, len(fields) - 1)]

    def fields_of(self, header: ir.Expression) -> dict[str, FieldPlace]:
        """Return the fields of a header or metadata instance, by their names."""
        if header not in self._fields:
            self._fields[header] = self._placed(header)
        return self._fields[header]

    def _placed(self, header: ir.Expression) -> dict[str, FieldPlace]:
        fields = {
            name: FieldPlace(ir.Member(header, column.name, column.kind), column.width_bits, column.signed)
            for name, column in self._layouts.columns(header.type).items()
        }
        if self.is_standard(header):
            for name, found in fields.items():
                target = self._aliases.get((V1MODEL.place, name), f"{V1MODEL.place}.{name}")
                if target in TARGET_FIELDS:
                    fields[name] = _in_standard(TARGET_FIELDS[target], found)
        return fields

    def validity(self, header: ir.Expression) -> ir.Expression:
        """Return whether a header is valid."""
        return ir.Constant(1, ir.BOOL) if self.is_metadata(header) else ir.IsValid(header)

    def member(self, union: ir.Expression, name: Json) -> ir.Expression:
        """Return a header of a union by its name."""
        layout = self._layouts.union(union.type)
        assert layout is not None
        for part in layout.fields:
            if part.name == name.text():
                return ir.Member(union, part.name, part.type)
        raise name.fault(f"is {name.text()}, which is no header of {layout.name}")

    def member_at(self, union: ir.Expression, index: Json) -> ir.Expression:
        """Return a header of a union by its number."""
        layout = self._layouts.union(union.type)
        assert layout is not None
        part = layout.fields[index.number(0, len(layout.fields) - 1)]
        return ir.Member(union, part.name, part.type)

    def _found(self, known: dict[str, ir.Expression], name: Json, noun: str) -> ir.Expression:
        if name.text() not in known:
            raise name.fault(f"is {name.text()}, which is no {noun} of the program")
        return known[name.text()]

    def _field_aliases(self) -> dict[tuple[str, str], str]:
        aliases = {}
        for item in self._document.list("field_aliases"):
            target, place = item.items(2)
            header, name = place.items(2)
            aliases[header.text(), name.text()] = target.text()
        return aliases

    def _check_aliases(self) -> None:
        """Refuse aliases of fields that are not there. p4c writes all that simple_switch knows, whichever the
        program's standard metadata has.
        """
        for item in self._document.list("field_aliases"):
            header, name = item.items(2)[1].items(2)
            place = self.header(header)
            if not self.is_standard(place):
                self.field_of(place, name)

    # Instances

    def _instances(self) -> None:
        """Name the place of every instance: stacks first, then unions, then what belongs to neither."""
        headers = self._by_id("headers")
        unions = self._by_id("header_unions")
        placed: dict[int, ir.Expression] = {}
        placed_unions: dict[int, ir.Expression] = {}
        for item in self._document.list("header_stacks"):
            kind = self._layouts.of(item["header_type"], False)
            ids = self._ids(item["header_ids"], headers, placed, kind)
            stack = self._part(item, ir.Stack(kind.name, len(ids)))
            self._stacks[item["name"].text()] = stack
            placed |= {number: _element(stack, place, kind) for place, number in enumerate(ids)}
        for item in self._document.list("header_union_stacks"):
            kind = self._union_kind(item)
            ids = self._ids(item["header_union_ids"], unions, placed_unions, kind)
            stack = self._part(item, ir.Stack(kind.name, len(ids)))
            self._union_stacks[item["name"].text()] = stack
            placed_unions |= {number: _element(stack, place, kind) for place, number in enumerate(ids)}
        for number, item in unions.items():
            kind = self._union_kind(item)
            union = placed_unions.get(number)
            if union is None:
                union = self._part(item, kind)
            layout = self._layouts.of_union(item["union_type"])
            self._union_places[item["name"].text()] = union
            members = item["header_ids"].items(len(layout.fields))
            for part, member in zip(layout.fields, members, strict=True):
                self._ids_of([member], headers, placed, part.type)
                placed[member.number()] = ir.Member(union, part.name, part.type)
        for number, item in headers.items():
            name = item["name"].text()
            if name in self._headers:
                raise item["name"].fault(f"is {name}, which stands there twice")
            is_metadata = item["metadata"].flag()
            if number not in placed:
                placed[number] = self._part(
                    item, self._layouts.of(item["header_type"], is_metadata), is_metadata
                )
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
            is_header = named.get("union_type") is None
            own = self._layouts.of(named["header_type"], False) if is_header else self._union_kind(named)
            if own != kind:
                raise item.fault(f"is {number}, a {own}; a {kind} was expected")
            numbers.append(number)
        return numbers

    def _union_kind(self, item: Json) -> ir.Named:
        return ir.Named(self._layouts.of_union(item["union_type"]).name)

    def _part(self, item: Json, kind: ir.Type, is_metadata: bool = False) -> ir.Expression:
        """Make room for an instance in the headers or the metadata."""
        name = item["name"].text()
        parts = self._parts[is_metadata]
        if name in parts:
            raise item["name"].fault(f"is {name}, which stands there twice")
        label = re.sub(r"[^\w.$]", "_", name)  # the IR's names have no brackets
        while any(part.name == label for part in parts.values()):
            label += "_"
        parts[name] = ir.Field(label, kind)
        owner = ir.METADATA if is_metadata else ir.HEADERS
        return ir.Member(ir.Name(owner, ir.Named(owner)), label, kind)


def _element(stack: ir.Expression, place: int, kind: ir.Named) -> ir.Expression:
    return ir.Element(stack, ir.Constant(place, ir.Bits(32)), kind)


def _in_standard(part: ir.Field, found: FieldPlace) -> FieldPlace:
    """Return the place in the architecture's metadata of a field of the file."""
    return FieldPlace(ir.Member(_STANDARD, part.name, part.type), found.width_bits, found.signed)
