# SPDX-License-Identifier: Apache-2.0
"""Checks that a program means something: every name resolves, every type agrees, every call fits.

A program that passes runs on any packet without an error, so nothing is checked again at run time.
"""

from __future__ import annotations

from collections.abc import Iterable

from nicemu.errors import ControlError, P4RuntimeCode, counted

from . import ir
from .architecture import Architecture, Role
from .architectures import ARCHITECTURES
from .externs import Kind
from .ir_json import decode_text
from .ir_walk import nodes_of
from .matches import width_of
from .own_externs import with_own_externs
from .tables import Table
from .verify_body import Bodies
from .verify_expressions import EMITS, TAKES, Faults, is_scalar
from .verify_shown import check_shown
from .verify_types import check_named, check_names, check_types, size_of, sizes_of, unique

MAX_TABLE_SIZE = 1 << 24
_PARSER = "the parser"
_UNITS = {
    "counter": (1, "CounterType"),
    "direct_counter": (0, "CounterType"),
    "meter": (1, "MeterType"),
    "direct_meter": (0, "MeterType"),
}
"""Which argument of v1model's arrays says what they count in, and the enum that it is of."""


def program_of_json(text: str | bytes) -> ir.Program:
    """Return the program that `text` holds, checked so that the engine can run it on any packet.

    Raises: ControlError(INVALID_ARGUMENT) with the path to the fault.
    """
    program = decode_text(text)
    verify(program)
    return program


def verify(program: ir.Program) -> None:
    """Check a whole program.

    Raises: ControlError(INVALID_ARGUMENT) with the path to the first fault.
    """
    faults = Faults()
    architecture = ARCHITECTURES.get(program.architecture)
    if architecture is None:
        faults.raise_("architecture", f"is {program.architecture}; there is {', '.join(ARCHITECTURES)}")
    sizes = sizes_of(program)
    with faults.at("headers"):
        check_types(program, sizes, faults)
    with faults.at("new_types"):
        check_named(program, faults)
    with faults.at("variables"):
        _check_variables(program, architecture, faults)
    with faults.at("errors"):
        unique(program.errors, str, faults)
        if program.errors[: len(ir.CORE_ERRORS)] != ir.CORE_ERRORS:
            faults.raise_("", f"must begin with {', '.join(ir.CORE_ERRORS)}")
    with faults.at("extern_signatures"):
        unique(program.extern_signatures, lambda item: f"{item.owner}.{item.name}", faults)
        if any(len(item.results) > 1 for item in program.extern_signatures):
            faults.raise_("", "return more than one value")
        architecture = with_own_externs(architecture, program)
    with faults.at("externs"):
        instances = unique(program.externs, lambda item: item.name, faults)
        for instance in program.externs:
            _check_instance(instance, program, architecture, faults)
    bodies = _bodies_of(program, architecture, instances, faults)
    _check_known_types(program, sizes, bodies)
    _check_functions(program.functions, bodies)
    with faults.at("field_lists"):
        _check_field_lists(program.field_lists, bodies)
    with faults.at("value_sets"):
        value_sets = _checked_value_sets(program.value_sets, faults)
    with faults.at("parser"):
        _check_parser(program.parser, value_sets, bodies)
    roles = _checked_controls(program, architecture, bodies)
    check_shown(program, faults)
    _check_actions(program, bodies)
    _check_owners(program.tables, faults)
    for table in program.tables:
        with faults.at(f"tables.{table.name}"):
            _check_table(table, bodies)
    bodies.refuse_recursion()
    with faults.at("parser"):
        _check_called(_PARSER, "parser", bodies)
    for role in roles:
        with faults.at(f"{role.name}.body"):
            _check_called(f"control {role.name}", role.place, bodies)
    for action in program.actions:
        with faults.at(f"actions.{action.name}"):
            _check_called(action.name, "action", bodies)


def _check_variables(program: ir.Program, architecture: Architecture, faults: Faults) -> None:
    """Check that variables have names of their own, and that there are those of the architecture."""
    variables = unique(program.variables, lambda item: item.name, faults)
    check_names(variables, faults)
    place, metadata = architecture.place, architecture.metadata
    for name in (ir.HEADERS, ir.METADATA, place):
        if name not in variables:
            faults.raise_(name, f"is missing; the architecture needs headers, metadata and {place}")
    fields = {
        (part.name, part.type)
        for struct in program.structs
        for part in struct.fields
        if struct.name == metadata.name
    }
    if variables[place].type != ir.Named(metadata.name) or not fields.issuperset(
        (part.name, part.type) for part in metadata.fields
    ):
        faults.raise_(place, f"must be the architecture's struct {metadata.name}, with its fields")


def _bodies_of(
    program: ir.Program,
    architecture: Architecture,
    instances: dict[str, ir.ExternInstance],
    faults: Faults,
) -> Bodies:
    """Return what checks bodies against what a program declares, each under a name of its own."""
    actions = unique(program.actions, lambda item: item.name, faults)
    tables = unique(program.tables, lambda item: item.name, faults)
    functions = unique(program.functions, lambda item: item.name, faults)
    unique([*actions, *functions], str, faults)
    return Bodies(
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


def _check_known_types(program: ir.Program, sizes: dict[str, int], bodies: Bodies) -> None:
    """Check that variables and externs are of types that there are, and that there is room for all values."""
    faults, held = bodies.faults, 0
    for variable in program.variables:
        with faults.at(f"variables.{variable.name}"):
            bodies.known(variable.type)
        held += size_of(variable.type, sizes)
    for signature in program.extern_signatures:
        with faults.at(f"extern_signatures.{signature.name}"):
            for kind in (*signature.results, *(item.type for item in signature.parameters)):
                while signature.is_constructor and isinstance(kind, ir.List):
                    kind = kind.element
                if not isinstance(kind, ir.String | ir.Integer):
                    bodies.known(kind)
    if held > ir.MAX_VALUES:
        faults.raise_("variables", f"hold {held} values; {ir.MAX_VALUES} are allowed")


def _check_functions(functions: Iterable[ir.Function], bodies: Bodies) -> None:
    faults = bodies.faults
    for function in functions:  # before any is called
        if function.result and function.result not in bodies.variables:
            faults.raise_(f"functions.{function.name}.result", f"has no variable {function.result}")
    for function in functions:
        with faults.at(f"functions.{function.name}"):
            _check_parameters(function.parameters, bodies)
            bodies.body(function.body, _place_of(function), function.name)


def _check_field_lists(field_lists: Iterable[ir.FieldList], bodies: Bodies) -> None:
    unique(field_lists, lambda item: str(item.index), bodies.faults)
    bodies.begin("field lists", "control")
    for field_list in field_lists:
        for kept in field_list.fields:
            bodies.kept(kept)


def _checked_value_sets(value_sets: Iterable[ir.ValueSet], faults: Faults) -> dict[str, ir.ValueSet]:
    """Return the value sets by their names."""
    found = unique(value_sets, lambda item: item.name, faults)
    for value_set in value_sets:
        unique(value_set.fields, lambda item: item.name, faults)
        are_numbers = all(is_scalar(part.type) for part in value_set.fields)
        if not 0 < value_set.size <= MAX_TABLE_SIZE or not are_numbers:
            faults.raise_(value_set.name, "must have a size, and fields that are numbers")
    return found


def _checked_controls(program: ir.Program, architecture: Architecture, bodies: Bodies) -> list[Role]:
    """Check the controls, which are those of the architecture; return their roles."""
    given = [control.role for control in program.controls]
    roles = [role for role in architecture.roles if role.name in given or not role.is_optional]
    if given != [role.name for role in roles]:
        expected = ", ".join(role.name for role in roles)
        bodies.faults.raise_("controls", f"must be {expected}, in this order")
    for role, control in zip(roles, program.controls, strict=True):
        with bodies.faults.at(f"{role.name}.body"):
            bodies.body(control.body, role.place, f"control {role.name}")
    return roles


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
        unit, most = instance.number(place), len(architecture.enums[enum]) - 1
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
    states = unique(parser.states, lambda item: item.name, faults)
    targets = {*states, ir.ACCEPT, ir.REJECT}
    for reserved in (ir.ACCEPT, ir.REJECT):
        if reserved in states:
            faults.raise_(reserved, "is a state of the parser; that name is reserved")
    if parser.start not in targets:
        faults.raise_("start", f"is {parser.start}, which is no state")
    with faults.at("prologue"):
        bodies.body(parser.prologue, "parser", _PARSER)
    for state in parser.states:
        with faults.at(f"states.{state.name}"):
            bodies.body(state.body, "parser", _PARSER)
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
        elif not isinstance(keyset, ir.KeyAny):
            last = (1 << width_of(compared[0].type)) - 1
            numbers = (
                (keyset.value, keyset.mask) if isinstance(keyset, ir.KeyMask) else (keyset.low, keyset.high)
            )
            if not all(0 <= number <= last for number in numbers):
                faults.raise_(
                    "transition", f"compares {numbers[0]:#x} and {numbers[1]:#x} with a {compared[0].type}"
                )


def _place_of(function: ir.Function) -> str:
    """Return where a function's body stands: a control that emits can only be a deparser's."""
    if not function.is_control:
        return "function"
    return "deparser" if any(True for _ in nodes_of(function.body, ir.Emit)) else "control"


def _check_called(name: str, place: str, bodies: Bodies) -> None:
    """Check what a block or action calls: only a parser's takes from packets, only a deparser's emits, and
    controls that a deparser or an action calls do nothing else that it does not.
    """
    allowed = {"parser": {TAKES}, "deparser": {EMITS}, "action": {EMITS}}.get(place, set())
    for called in bodies.called_by(name):
        for what in bodies.uses[called].packets - allowed:
            bodies.faults.raise_("", f"calls {called}, which {what}; this is a {place}")
        function = bodies.functions.get(called)
        if place in ("deparser", "action") and function is not None and function.is_control:
            bodies.body(function.body, place, called)


def _check_actions(program: ir.Program, bodies: Bodies) -> None:
    for action in program.actions:
        with bodies.faults.at(f"actions.{action.name}"):
            _check_parameters(action.parameters, bodies)
            for parameter in action.parameters:
                if parameter.direction is ir.Direction.NONE and not is_scalar(parameter.type):
                    bodies.faults.raise_(parameter.name, "is action data; bit, int or bool was expected")
            bodies.body(action.body, "action", action.name)


def _check_parameters(parameters: tuple[ir.Parameter, ...], bodies: Bodies) -> None:
    unique(parameters, lambda item: item.name, bodies.faults)
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
    name = f"table {table.name}"
    bodies.begin(name, "control")
    unique(table.keys, lambda item: item.name, faults)
    for key in table.keys:
        bodies.scalar(key.expression)
    if sum(key.match_kind is ir.MatchKind.LPM for key in table.keys) > ir.MAX_LPM_KEYS:
        faults.raise_("keys", f"has more than {ir.MAX_LPM_KEYS} lpm keys")
    uses = bodies.begin(name, "action")
    if not 0 < table.size <= MAX_TABLE_SIZE:
        faults.raise_("size", f"is {table.size}; 1 to {MAX_TABLE_SIZE} was expected")
    refs = unique(table.actions, lambda item: item.action, faults)
    for ref in table.actions:
        action = bodies.actions.get(ref.action)
        if action is None:
            faults.raise_("actions", f"names {ref.action}, which is no action")
        uses.calls.add(ref.action)
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
