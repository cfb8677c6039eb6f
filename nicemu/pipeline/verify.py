# SPDX-License-Identifier: Apache-2.0
"""Checks that a program means something: every name resolves, every type agrees, every call fits.

A program that passes runs on any packet without an error, so nothing is checked again at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from nicemu.abi import counted
from nicemu.errors import ControlError, P4RuntimeCode

from . import ir
from .architecture import Architecture
from .architectures import ARCHITECTURES
from .externs import Kind
from .ir_walk import nodes_of
from .matches import width_of
from .own_externs import with_own_externs
from .tables import Table
from .verify_body import Bodies
from .verify_expressions import Faults, is_scalar
from .verify_shown import check_shown

Item = TypeVar("Item")

MAX_TABLE_SIZE = 1 << 24
_UNITS = {
    "counter": (1, "CounterType"),
    "direct_counter": (0, "CounterType"),
    "meter": (1, "MeterType"),
    "direct_meter": (0, "MeterType"),
}
"""Which argument of v1model's arrays says what they count in, and the enum that it is of."""


def verify(program: ir.Program) -> None:
    """Check a whole program.

    Raises: ControlError(INVALID_ARGUMENT) with the path to the first fault.
    """
    faults = Faults()
    architecture = ARCHITECTURES.get(program.architecture)
    if architecture is None:
        faults.raise_("architecture", f"is {program.architecture}; there is {', '.join(ARCHITECTURES)}")
    sizes = _sizes(program)
    with faults.at("headers"):
        _check_types(program, sizes, faults)
    with faults.at("new_types"):
        _check_named(program, faults)
    with faults.at("variables"):
        variables = _unique(program.variables, lambda item: item.name, faults)
        place, metadata = architecture.place, architecture.metadata
        for name in (ir.HEADERS, ir.METADATA, place):
            if name not in variables:
                faults.raise_(name, f"is missing; the architecture needs headers, metadata and {place}")
        if variables[place].type != ir.Named(metadata.name) or metadata not in map(_unnamed, program.structs):
            faults.raise_(place, f"must be the architecture's struct {metadata.name}")
    with faults.at("errors"):
        _unique(program.errors, str, faults)
        if program.errors[: len(ir.CORE_ERRORS)] != ir.CORE_ERRORS:
            faults.raise_("", f"must begin with {', '.join(ir.CORE_ERRORS)}")
    with faults.at("extern_signatures"):
        _unique(program.extern_signatures, lambda item: f"{item.owner}.{item.name}", faults)
        if any(len(item.results) > 1 for item in program.extern_signatures):
            faults.raise_("", "return more than one value")
        architecture = with_own_externs(architecture, program)
    with faults.at("externs"):
        instances = _unique(program.externs, lambda item: item.name, faults)
        for instance in program.externs:
            _check_instance(instance, program, architecture, faults)
    actions = _unique(program.actions, lambda item: item.name, faults)
    tables = _unique(program.tables, lambda item: item.name, faults)
    functions = _unique(program.functions, lambda item: item.name, faults)
    _unique([*actions, *functions], str, faults)
    bodies = Bodies(
        faults,
        architecture,
        {item.name: item for item in program.headers},
        {item.name: item for item in program.structs},
        {item.name: item for item in program.unions},
        {item.name: item.type for item in program.variables},
        program.errors,
        instances,
        actions,
        tables,
        functions,
    )
    held = 0
    for variable in program.variables:
        with faults.at(f"variables.{variable.name}"):
            bodies.known(variable.type)
        held += _size(variable.type, sizes)
    for signature in program.extern_signatures:
        with faults.at(f"extern_signatures.{signature.name}"):
            for kind in (*signature.results, *(item.type for item in signature.parameters)):
                if not isinstance(kind, ir.String):
                    bodies.known(kind)
    if held > ir.MAX_VALUES:
        faults.raise_("variables", f"hold {held} values; {ir.MAX_VALUES} are allowed")
    for function in program.functions:
        with faults.at(f"functions.{function.name}"):
            _check_parameters(function.parameters, bodies)
            if function.result and function.result not in bodies.variables:
                faults.raise_("result", f"has no variable {function.result}")
            bodies.body(function.body, _place_of(function))
    bodies.refuse_recursion()
    with faults.at("field_lists"):
        _unique(program.field_lists, lambda item: str(item.index), faults)
        bodies.place = "control"
        for field_list in program.field_lists:
            for kept in field_list.fields:
                bodies.kept(kept)
    with faults.at("value_sets"):
        value_sets = _unique(program.value_sets, lambda item: item.name, faults)
        for value_set in program.value_sets:
            _unique(value_set.fields, lambda item: item.name, faults)
            if not 0 < value_set.size <= MAX_TABLE_SIZE or not all(
                is_scalar(part.type) for part in value_set.fields
            ):
                faults.raise_(value_set.name, "must have a size, and fields that are numbers")
    with faults.at("parser"):
        _check_parser(program.parser, value_sets, bodies)
    given = [control.role for control in program.controls]
    roles = [role for role in architecture.roles if role.name in given or not role.is_optional]
    if given != [role.name for role in roles]:
        faults.raise_("controls", f"must be {', '.join(role.name for role in roles)}, in this order")
    for role, control in zip(roles, program.controls, strict=True):
        with faults.at(f"{role.name}.body"):
            bodies.body(control.body, role.place)
            if role.place == "deparser":
                for function in bodies.controls_in(control.body):
                    bodies.body(function.body, "deparser")
    check_shown(program, faults)
    _check_actions(program, bodies)
    _check_owners(program.tables, faults)
    for table in program.tables:
        with faults.at(f"tables.{table.name}"):
            _check_table(table, bodies)


def _unique(items: Iterable[Item], name_of: Callable[[Item], str], faults: Faults) -> dict[str, Item]:
    named: dict[str, Item] = {}
    for item in items:
        name = name_of(item)
        if name in named:
            faults.raise_(name, "stands there twice")
        named[name] = item
    return named


def _unnamed(struct: ir.StructType) -> ir.StructType:
    """Return a struct without the names of new types and enums that its fields have."""
    return replace(struct, fields=tuple(replace(field, type_name="") for field in struct.fields))


def _check_types(program: ir.Program, sizes: dict[str, int], faults: Faults) -> None:
    for name, size in sizes.items():
        if size > ir.MAX_VALUES:  # before anything walks through it
            faults.raise_(name, f"holds more than {ir.MAX_VALUES} values")
    layouts: tuple[ir.Layout, ...] = (*program.headers, *program.unions, *program.structs)
    for name, depth in _depths(program).items():
        if depth > ir.MAX_TYPE_DEPTH:
            faults.raise_(name, f"is more than {ir.MAX_TYPE_DEPTH} types deep")
    _unique([layout.name for layout in layouts], str, faults)
    for layout in layouts:
        _unique(layout.fields, lambda item: item.name, faults)
    structs = {struct.name: struct for struct in program.structs if struct.name in sizes}
    for header in program.headers:
        _check_header(header, structs, faults)
    for name in ir.CONTROLLER_HEADERS:
        if sum(header.controller == name for header in program.headers) > 1:
            faults.raise_(name, "is the controller's name of two headers")
    headers = {header.name for header in program.headers}
    for union in program.unions:
        for part in union.fields:
            if not isinstance(part.type, ir.Named) or part.type.name not in headers:
                faults.raise_(f"{union.name}.{part.name}", f"is a {part.type}; a header was expected")
    elements = headers | {union.name for union in program.unions}
    known = set(elements)
    for struct in program.structs:
        for part in struct.fields:
            place = f"{struct.name}.{part.name}"
            if isinstance(part.type, ir.Named) and part.type.name not in known:
                faults.raise_(place, f"is a {part.type}; a struct may name only types before it")
            if isinstance(part.type, ir.Stack) and (
                part.type.element not in elements or part.type.size > ir.MAX_STACK_SIZE
            ):
                faults.raise_(place, f"is {part.type}; a stack of headers was expected")
        known.add(struct.name)


def _check_named(program: ir.Program, faults: Faults) -> None:
    """Check new types and enums, and that what has the name of one has its values."""
    named_types: list[ir.NewType | ir.EnumType] = [*program.new_types, *program.enums]
    known = _unique(named_types, lambda item: item.name, faults)
    for listed in program.enums:
        _unique(listed.members, lambda item: item.name, faults)
        kind = listed.type
        if not isinstance(kind, ir.Bits):
            faults.raise_(listed.name, f"is of {kind}; bit<N> or int<N> was expected")
        lowest = -(1 << kind.width - 1) if kind.signed else 0
        for member in listed.members:
            if not lowest <= member.value < lowest + (1 << kind.width):
                faults.raise_(f"{listed.name}.{member.name}", f"is {member.value}, which is no {kind}")
    for new in program.new_types:
        fits = isinstance(new.type, ir.Bits) and not new.type.signed
        if not is_scalar(new.type) or (new.translated and not fits):
            faults.raise_(
                new.name, f"is of {new.type}; a number, where it is translated bit<N>, was expected"
            )
        if not 0 <= new.controller_bits <= ir.MAX_WIDTH_BITS:
            faults.raise_(new.name, f"has {new.controller_bits} bits; up to {ir.MAX_WIDTH_BITS} are allowed")
    layouts: tuple[ir.Layout, ...] = (*program.headers, *program.structs)
    named = [(part.type_name, part.type) for layout in layouts for part in layout.fields]
    named += [(item.type_name, item.type) for action in program.actions for item in action.parameters]
    named += [(key.type_name, key.expression.type) for table in program.tables for key in table.keys]
    named += [(part.type_name, part.type) for item in program.value_sets for part in item.fields]
    for instance in program.externs:
        if len(instance.type_names) not in (0, len(instance.types)):
            faults.raise_(instance.name, f"names {len(instance.type_names)} types of {len(instance.types)}")
        named += zip(instance.type_names, instance.types, strict=False)
    for name, kind in named:
        if name and (name not in known or known[name].type != kind):
            faults.raise_(name, f"is the name of a {kind}, which the program does not have")


def _sizes(program: ir.Program) -> dict[str, int]:
    """Return how many values each type holds. Structs name those before them; headers, structs of numbers."""
    sizes: dict[str, int] = {}
    for layout in _with_parts_before(program):
        parts = [_size(part.type, sizes) for part in layout.fields]
        if all(parts):
            sizes[layout.name] = 1 + sum(parts)
    return sizes


def _depths(program: ir.Program) -> dict[str, int]:
    """Return how many types deep each type is, 1 for one of numbers alone."""
    depths: dict[str, int] = {}
    for layout in _with_parts_before(program):
        depths[layout.name] = 1 + max((_depth(part.type, depths) for part in layout.fields), default=0)
    return depths


def _depth(kind: ir.Type, depths: dict[str, int]) -> int:
    name = kind.element if isinstance(kind, ir.Stack) else kind.name if isinstance(kind, ir.Named) else ""
    return depths.get(name, 0)


def _with_parts_before(program: ir.Program) -> tuple[ir.Layout, ...]:
    """Return all layouts so that each stands once behind those that it may name."""
    return *program.structs, *program.headers, *program.unions, *program.structs


def _size(kind: ir.Type, sizes: dict[str, int]) -> int:
    """Return how many values a type holds, 0 where that is not known yet."""
    if isinstance(kind, ir.Stack):
        return kind.size * sizes.get(kind.element, 0)
    return sizes.get(kind.name, 0) if isinstance(kind, ir.Named) else 1


def _check_header(header: ir.HeaderType, structs: dict[str, ir.StructType], faults: Faults) -> None:
    width_bits, varbits = 0, 0
    pending = list(header.fields)
    while pending:
        part = pending.pop()
        if isinstance(part.type, ir.Varbit):
            varbits += 1
        elif isinstance(part.type, ir.Bits | ir.Bool):
            width_bits += width_of(part.type)
        elif isinstance(part.type, ir.Named) and part.type.name in structs:
            pending += structs[part.type.name].fields
        else:
            faults.raise_(header.name, f"has a field of type {part.type}")
        if len(pending) > 8 * ir.MAX_HEADER_BYTES:
            faults.raise_(header.name, "has too many fields")
    if varbits > 1:
        faults.raise_(header.name, "has more than one varbit")
    if (width_bits % 8 and not varbits) or width_bits > 8 * ir.MAX_HEADER_BYTES:
        faults.raise_(
            header.name, f"is {width_bits} bits; whole bytes were expected, {ir.MAX_HEADER_BYTES} at most"
        )
    if header.controller:
        _check_controller(header, faults)


def _check_controller(header: ir.HeaderType, faults: Faults) -> None:
    if header.controller not in ir.CONTROLLER_HEADERS:
        expected = " or ".join(ir.CONTROLLER_HEADERS)
        faults.raise_(header.name, f"is the controller's {header.controller}; {expected} was expected")
    for part in header.fields:
        if not isinstance(part.type, ir.Bits | ir.Bool):
            faults.raise_(header.name, f"is a controller's and has a field of type {part.type}")


def _check_instance(
    instance: ir.ExternInstance, program: ir.Program, architecture: Architecture, faults: Faults
) -> None:
    extern = architecture.objects.get(instance.extern)
    if extern is None:
        faults.raise_(
            instance.name,
            f"is a {instance.extern}; {architecture.name} has {', '.join(architecture.objects)}",
        )
    given = tuple(type(argument) for argument in instance.arguments)
    if given not in extern.constructors:
        wanted = " or ".join(
            ", ".join(kind.__name__ for kind in constructor) or "nothing"
            for constructor in extern.constructors
        )
        faults.raise_(instance.name, f"has constructor arguments {instance.arguments}; expected: {wanted}")
    if instance.extern in _UNITS:
        place, enum = _UNITS[instance.extern]
        unit, most = int(instance.arguments[place]), len(architecture.enums[enum]) - 1
        if not 0 <= unit <= most:
            faults.raise_(instance.name, f"counts in unit {unit}; 0 to {most} are known")
    carries = extern.carried(len(instance.types))
    if carries is None:
        counts = " or ".join(str(len(item)) for item in extern.carries)
        faults.raise_(
            instance.name, f"has {counted(len(instance.types), 'type argument')}; {counts} expected"
        )
    try:
        extern.make(instance)
    except ControlError as error:
        faults.raise_(instance.name, str(error))
    structs = {struct.name: struct for struct in program.structs}
    for kind, carried in zip(instance.types, carries, strict=True):
        if not _can_carry(kind, carried, structs):
            faults.raise_(instance.name, f"carries {kind}; {carried.value} was expected")


def _can_carry(kind: ir.Type, carried: Kind, structs: dict[str, ir.StructType]) -> bool:
    struct = structs.get(kind.name) if isinstance(kind, ir.Named) else None
    if struct is not None:
        return carried in (Kind.RECORD, Kind.FLAT) and all(is_scalar(part.type) for part in struct.fields)
    if carried is Kind.FLAT:
        return is_scalar(kind)
    return isinstance(kind, ir.Bits) and carried is Kind.NUMBER


def _check_parser(parser: ir.Parser, value_sets: dict[str, ir.ValueSet], bodies: Bodies) -> None:
    faults = bodies.faults
    states = _unique(parser.states, lambda item: item.name, faults)
    targets = {*states, ir.ACCEPT, ir.REJECT}
    for reserved in (ir.ACCEPT, ir.REJECT):
        if reserved in states:
            faults.raise_(reserved, "is a state of the parser; that name is reserved")
    if parser.start not in targets:
        faults.raise_("start", f"is {parser.start}, which is no state")
    with faults.at("prologue"):
        bodies.body(parser.prologue, "parser")
    for state in parser.states:
        with faults.at(f"states.{state.name}"):
            bodies.body(state.body, "parser")
            transition = state.transition
            if isinstance(transition, ir.Goto):
                if transition.state not in targets:
                    faults.raise_("transition", f"goes to {transition.state}, which is no state")
                continue
            for key in transition.keys:
                bodies.scalar(key)
            for case in transition.cases:
                if case.state not in targets:
                    faults.raise_("transition", f"goes to {case.state}, which is no state")
                _check_case(case, transition.keys, value_sets, faults)


def _check_case(
    case: ir.SelectCase,
    keys: tuple[ir.Expression, ...],
    value_sets: dict[str, ir.ValueSet],
    faults: Faults,
) -> None:
    """Check that the keysets of a case are those of its select's keys."""
    for keyset in case.keysets:
        if isinstance(keyset, ir.KeyInSet) and keyset.value_set not in value_sets:
            faults.raise_("transition", f"names {keyset.value_set}, which is no value set")
    parts: list[tuple[ir.Keyset, tuple[ir.Expression, ...]]] = [
        (keyset, (key,)) for keyset, key in zip(case.keysets, keys, strict=False)
    ]
    if len(case.keysets) == 1 and isinstance(case.keysets[0], ir.KeyInSet):
        parts = [(case.keysets[0], keys)]
    elif len(case.keysets) != len(keys):
        faults.raise_("transition", f"has {len(case.keysets)} keysets for {len(keys)} keys")
    for keyset, compared in parts:
        if isinstance(keyset, ir.KeyInSet):
            fields = value_sets[keyset.value_set].fields
            if [part.type for part in fields] != [key.type for key in compared]:
                faults.raise_("transition", f"compares {keyset.value_set} with keys of other types")


def _place_of(function: ir.Function) -> str:
    """Return where a function's body stands: a control that emits can only be a deparser's."""
    if not function.is_control:
        return "function"
    return "deparser" if any(True for _ in nodes_of(function.body, ir.Emit)) else "control"


def _check_actions(program: ir.Program, bodies: Bodies) -> None:
    for action in program.actions:
        with bodies.faults.at(f"actions.{action.name}"):
            _check_parameters(action.parameters, bodies)
            for parameter in action.parameters:
                if parameter.direction is ir.Direction.NONE and not is_scalar(parameter.type):
                    bodies.faults.raise_(parameter.name, "is action data; bit, int or bool was expected")
            bodies.body(action.body, "action")


def _check_parameters(parameters: tuple[ir.Parameter, ...], bodies: Bodies) -> None:
    _unique(parameters, lambda item: item.name, bodies.faults)
    for parameter in parameters:
        if bodies.variables.get(parameter.variable) != parameter.type:
            bodies.faults.raise_(
                parameter.name, f"has no variable {parameter.variable} of type {parameter.type}"
            )


def _check_owners(tables: Iterable[ir.Table], faults: Faults) -> None:
    """Check that a direct counter or meter belongs to one table."""
    owned = [name for table in tables for name in (table.counter, table.meter) if name]
    for name in owned:
        if owned.count(name) > 1:
            faults.raise_(name, "is the counter or meter of two tables")


def _check_table(table: ir.Table, bodies: Bodies) -> None:
    faults = bodies.faults
    bodies.place = "control"
    _unique(table.keys, lambda item: item.name, faults)
    for key in table.keys:
        bodies.scalar(key.expression)
    if sum(key.match_kind is ir.MatchKind.LPM for key in table.keys) > ir.MAX_LPM_KEYS:
        faults.raise_("keys", f"has more than {ir.MAX_LPM_KEYS} lpm keys")
    bodies.place = "action"
    if not 0 < table.size <= MAX_TABLE_SIZE:
        faults.raise_("size", f"is {table.size}; 1 to {MAX_TABLE_SIZE} was expected")
    refs = _unique(table.actions, lambda item: item.action, faults)
    for ref in table.actions:
        action = bodies.actions.get(ref.action)
        if action is None:
            faults.raise_("actions", f"names {ref.action}, which is no action")
        directed = [item for item in action.parameters if item.direction is not ir.Direction.NONE]
        if action.parameters[: len(directed)] != tuple(directed):
            faults.raise_("actions", f"{ref.action} has action data before a parameter with a direction")
        bodies.arguments(ref.action, directed, ref.arguments)
    if table.default_action.action not in refs:
        faults.raise_("default_action", f"{table.default_action.action} is not among the table's actions")
    for entry in table.entries:
        if len(entry.keysets) != len(table.keys):
            faults.raise_("entries", f"has {len(entry.keysets)} keysets for {len(table.keys)} keys")
        for keyset, key in zip(entry.keysets, table.keys, strict=True):
            _check_keyset(keyset, key, faults)
    for name, kinds in (
        (table.profile, ("action_profile", "action_selector")),
        (table.counter, ("direct_counter",)),
        (table.meter, ("direct_meter",)),
    ):
        if name and (name not in bodies.instances or bodies.instances[name].extern not in kinds):
            faults.raise_("", f"names {name}, which is no {kinds[0]}")
    if table.profile and (table.entries or table.const_entries):
        faults.raise_("entries", "stand in a table with an action profile")
    for key_expression in table.selector_keys:
        bodies.scalar(key_expression)
    try:
        Table(table, *action_widths(table, bodies.actions))
    except ControlError as error:
        raise ControlError(P4RuntimeCode.INVALID_ARGUMENT, f"program IR: {error}") from None


def _check_keyset(keyset: ir.Keyset, key: ir.Key, faults: Faults) -> None:
    ones = (1 << width_of(key.expression.type)) - 1
    wrong = f"of key {key.name} cannot stand in a key of match kind {key.match_kind.value}"
    match keyset, key.match_kind:
        case ir.KeyMask(value, mask), _ if not (0 <= value <= ones and 0 <= mask <= ones):
            faults.raise_("entries", f"of key {key.name}: {value:#x}&&&{mask:#x} does not fit")
        case ir.KeyMask(_, mask), (ir.MatchKind.EXACT | ir.MatchKind.RANGE | ir.MatchKind.OPTIONAL) if (
            mask != ones
        ):
            faults.raise_("entries", wrong)
        case ir.KeyMask(_, mask), ir.MatchKind.LPM if (ones ^ mask) & ((ones ^ mask) + 1):
            faults.raise_("entries", f"of key {key.name}: {mask:#x} is no prefix")
        case ir.KeyInSet(), _:
            faults.raise_("entries", f"of key {key.name}: a value set stands only in a select")
        case ir.KeyRange(), kind if kind is not ir.MatchKind.RANGE:
            faults.raise_("entries", wrong)
        case ir.KeyAny(), ir.MatchKind.EXACT:
            faults.raise_("entries", wrong)


def action_widths(
    table: ir.Table, actions: dict[str, ir.Action]
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Return the widths of the action data of the actions for entries, and of those for the default
    action.
    """
    widths = {
        ref.action: tuple(
            width_of(item.type)
            for item in actions[ref.action].parameters
            if item.direction is ir.Direction.NONE
        )
        for ref in table.actions
    }
    entries = {ref.action: widths[ref.action] for ref in table.actions if not ref.default_only}
    defaults = {ref.action: widths[ref.action] for ref in table.actions if not ref.table_only}
    return entries, defaults
