# SPDX-License-Identifier: Apache-2.0
"""What all parts of a program share: its places, errors, extern objects, calculations, and lists of fields.

Source: p4lang/behavioral-model, "BMv2 JSON input format", "meter_arrays" to "register_arrays" and
"calculations".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nicemu.pipeline import ir

from .document import Json
from .errors import ErrorNumbers
from .expressions import Expressions
from .layouts import Names
from .places import V1MODEL, VALIDITY, FieldPlace, Places

_COUNTS_BOTH = V1MODEL.enums["CounterType"].index("packets_and_bytes")
ALGORITHMS = V1MODEL.enums["HashAlgorithm"]
_GIVEN_ANEW = [
    ir.Member(ir.Name(V1MODEL.place, ir.Named(V1MODEL.metadata.name)), part.name, part.type)
    for part in V1MODEL.metadata.fields
    if part.name in ("instance_type", "packet_length")
]
"""What simple_switch says of every copy itself, whatever its field list holds."""
MAX_SIZE = 1 << 28
MAX_INPUTS = 256
"""Items that a calculation or a learn list may have, each of which every use of it repeats."""


@dataclass(frozen=True, slots=True)
class Calculation:
    """What a calculation hashes, and how; what is of a header that is not valid is left out by the hash."""

    algorithm: ir.Expression
    data: ir.Expression
    with_payload: bool


@dataclass(frozen=True, slots=True)
class DirectMeter:
    """A table's meter, and the field that gets its colour."""

    name: str
    target: FieldPlace


class Scope:
    """Declarations by their names; `variables`, `structs` and `externs` grow as the program needs them."""

    def __init__(self, document: Json) -> None:
        self.places = Places(document)
        self.errors = ErrorNumbers(document)
        self.plain = Expressions(self.places, self.errors)
        self.externs: list[ir.ExternInstance] = []
        self.registers: dict[str, ir.Bits] = {}
        self.direct_counters: dict[str, str] = {}
        self.direct_meters: dict[str, DirectMeter] = {}
        self._variables = list(self.places.variables)
        self._names = Names(tuple(item.name for item in self._variables))
        self._structs: dict[tuple[str, tuple[ir.Type, ...]], ir.StructType] = {}
        self._arrays: dict[str, set[str]] = {"counter": set(), "meter": set(), "register": set()}
        self._calculations = _named(document, "calculations")
        self._field_lists = _numbered(document, "field_lists")
        self._learn_lists = _numbered(document, "learn_lists")
        self._used_lists: dict[int, ir.FieldList] = {}
        self._declare(document)

    @property
    def variables(self) -> tuple[ir.Variable, ...]:
        """Every variable of the program."""
        return tuple(self._variables)

    @property
    def structs(self) -> tuple[ir.StructType, ...]:
        """Every struct of the program."""
        return (*self.places.structs, *self._structs.values())

    @property
    def field_lists(self) -> tuple[ir.FieldList, ...]:
        """The field lists that copies of packets are made with."""
        return tuple(self._used_lists[index] for index in sorted(self._used_lists))

    def matched(self, pair: Json) -> ir.Expression:
        """Return the field that a table's key names: it is 0 where its header is not there."""
        compared = self.plain.key_of(pair)
        named, field = pair.items(2)
        header = self.places.header(named)
        if field.value == VALIDITY or self.places.is_metadata(header):
            return compared
        return ir.Conditional(ir.IsValid(header), compared, ir.Constant(0, compared.type), compared.type)

    def variable(self, name: str, kind: ir.Type) -> ir.Name:
        """Make a variable."""
        unique = self._names.unique(name)
        self._variables.append(ir.Variable(unique, kind))
        return ir.Name(unique, kind)

    def array(self, item: Json, extern: str) -> str:
        """Return the name of the counter, meter or register that a type value object names."""
        item["type"].choice([f"{extern}_array"])
        name = item["value"].text()
        if name not in self._arrays[extern]:
            raise item["value"].fault(f"is {name}, which is no {extern} of the program")
        return name

    def calculation(self, item: Json) -> Calculation:
        """Return the calculation that `item` names."""
        declared = self._calculations.get(item.text())
        if declared is None:
            raise item.fault(f"is {item.text()}, which is none of calculations")
        algorithm = ALGORITHMS.index(declared["algo"].choice(ALGORITHMS))
        inputs = declared["input"].items()
        if len(inputs) > MAX_INPUTS:
            raise declared["input"].fault(f"has {len(inputs)} items; {MAX_INPUTS} are allowed")
        with_payload = bool(inputs) and inputs[-1]["type"].value == "payload"
        if with_payload:
            inputs.pop()
        return Calculation(
            ir.Constant(algorithm, ir.Bits(32)), self._record(item.text(), inputs), with_payload
        )

    def digest(self, number: Json) -> ir.Expression:
        """Return the data of the learn list with a number."""
        declared = self._learn_lists.get(_constant(number, self.plain))
        if declared is None:
            raise number.fault("is the number of none of learn_lists")
        elements = declared["elements"].items()
        if len(elements) > MAX_INPUTS:
            raise declared["elements"].fault(f"has {len(elements)} items; {MAX_INPUTS} are allowed")
        return self._record(declared["name"].text(), elements)

    def field_list(self, number: Json | None) -> ir.Constant:
        """Return the index of a field list; without a number, that of a list of nothing."""
        index = 0 if number is None else _constant(number, self.plain)
        if number is not None and index in self._field_lists:
            if index > 255:
                raise number.fault(f"is {index}; field lists up to 255 are taken")
            elements = self._field_lists[index]["elements"].items()
            kept = [element for element in elements if element["type"].value != "hexstr"]  # a constant stays
            places = [self.plain.field(element).expression for element in kept]
            places = [place for place in places if place not in _GIVEN_ANEW]
            self._used_lists[index] = ir.FieldList(index, tuple(dict.fromkeys(places)))
            return ir.Constant(index, ir.Bits(8))
        if number is not None and index:
            raise number.fault(f"is {index}, which is the number of none of field_lists")
        unused = next(count for count in range(256) if count not in self._field_lists)
        return ir.Constant(unused, ir.Bits(8))

    def tuple_of(
        self, name: str, values: tuple[ir.Expression, ...], labels: Sequence[str] = ()
    ) -> ir.Expression:
        """Return a struct of values, of a type called `name` with fields called `labels`."""
        kinds = tuple(value.type for value in values)
        if (name, kinds) not in self._structs:
            names = Names()
            fields = tuple(
                ir.Field(names.unique(labels[place] if labels else "value"), kind)
                for place, kind in enumerate(kinds)
            )
            self._structs[name, kinds] = ir.StructType(self.places.type_names.type_name(name), fields)
        return ir.StructValue(values, ir.Named(self._structs[name, kinds].name))

    def profile(self, item: Json) -> tuple[str, tuple[ir.Expression, ...]]:
        """Declare an action profile or selector; return its name and what the selector hashes."""
        name, size = item["name"].text(), item["max_size"].number(0, MAX_SIZE)
        selector = item.get("selector")
        if selector is None:
            self._add_extern(item, "action_profile", (size,))
            return name, ()
        algorithm = ALGORITHMS.index(selector["algo"].choice(ALGORITHMS))
        keys = tuple(self.plain.key(_data(key)) for key in selector["input"].items())
        self._add_extern(item, "action_selector", (algorithm, size, 32))
        return name, keys

    def _record(self, name: str, items: Sequence[Json]) -> ir.Expression:
        """Return a struct of values, whose fields have the names of theirs."""
        items = [_data(item) for item in items]
        labels = [
            item["value"].items(2)[1].text() if item["type"].value == "field" else "value" for item in items
        ]
        return self.tuple_of(name, tuple(self._hashed(item) for item in items), labels)

    def _hashed(self, item: Json) -> ir.Expression:
        """Return a piece of what is hashed or sent, with all its bits."""
        match item["type"].text():
            case "header":
                return self.plain.thing(item)
            case "bool":
                return self.plain.of(item, 1)
            case "hexstr":
                given = item.get("bitwidth")
                digits = len(item["value"].text().removeprefix("0x"))
                width = given.number(1, ir.MAX_WIDTH_BITS) if given is not None else 8 * ((digits + 1) // 2)
                return self.plain.of(item, max(width, 1))
            case "field":
                if item["value"].items(2)[1].value != VALIDITY:
                    place = self.plain.field(item)
                    if place.is_plain or isinstance(place.expression.type, ir.Varbit):
                        return place.expression
                return self.plain.key(item)
        raise item["type"].unsupported(f"{item['type'].text()} in a calculation or list")

    def _declare(self, document: Json) -> None:
        for item in document.list("counter_arrays"):
            name = item["name"].text()
            if _is_direct(item):
                self._add_extern(item, "direct_counter", (_COUNTS_BOTH,))
                self.direct_counters[item["binding"].text()] = name
            else:
                self._array(item, "counter", (item["size"].number(0, MAX_SIZE), _COUNTS_BOTH))
        for item in document.list("meter_arrays"):
            name = item["name"].text()
            units = V1MODEL.enums["MeterType"].index(item["type"].choice(V1MODEL.enums["MeterType"]))
            if item["rate_count"].number() != 2:
                raise item["rate_count"].unsupported("a meter that has not two rates")
            if not _is_direct(item):
                self._array(item, "meter", (item["size"].number(0, MAX_SIZE), units))
                continue
            target = self.places.field(item["result_target"])
            if not target.width_bits or isinstance(target.expression.type, ir.ErrorCode):
                raise item["result_target"].fault("is no number; a field for the colour was expected")
            kind = ir.Bits(target.width_bits)
            self._add_extern(item, "direct_meter", (units,), (kind,))
            self.direct_meters[item["binding"].text()] = DirectMeter(name, target)
        for item in document.list("register_arrays"):
            kind = ir.Bits(item["bitwidth"].number(1, ir.MAX_WIDTH_BITS))
            self.registers[item["name"].text()] = kind
            self._array(item, "register", (item["size"].number(0, MAX_SIZE),), (kind,))
        for item in document.list("extern_instances"):
            raise item["type"].unsupported(f"an extern of type {item['type'].text()}")

    def _array(
        self, item: Json, extern: str, arguments: tuple[int, ...], types: tuple[ir.Type, ...] = ()
    ) -> None:
        self._arrays[extern].add(item["name"].text())
        self._add_extern(item, extern, arguments, types)

    def _add_extern(
        self, item: Json, extern: str, arguments: tuple[int, ...], types: tuple[ir.Type, ...] = ()
    ) -> None:
        name = item["name"].text()
        if any(known.name == name for known in self.externs):
            raise item["name"].fault(f"is {name}, which another array or action profile is called")
        self.externs.append(ir.ExternInstance(name, extern, arguments, types))


def _data(item: Json) -> Json:
    """Return what p4c has made a bool of: what is hashed are the bits of a field."""
    while item["type"].value == "expression" and item["value"].get("op") is not None:
        if item["value"]["op"].value != "d2b":
            break
        item = item["value"]["right"]
    return item


def _is_direct(item: Json) -> bool:
    given = item.get("is_direct")
    return given is not None and given.flag()


def _named(document: Json, key: str) -> Mapping[str, Json]:
    return {item["name"].text(): item for item in document.list(key)}


def _numbered(document: Json, key: str) -> Mapping[int, Json]:
    return {item["id"].number(): item for item in document.list(key)}


def _constant(item: Json, expressions: Expressions) -> int:
    """Return the number that a type value object, or a number alone, is."""
    if not item.is_object:
        return item.number()
    found = expressions.number(item).constant
    if found is None:
        raise item.fault("is no constant; one was expected")
    return found
