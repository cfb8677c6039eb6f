# SPDX-License-Identifier: Apache-2.0
"""Runs the IR, one packet at a time: the definition of what a program means.

Where P4 leaves a value undefined, it is defined here: variables start at zero and headers invalid, an invalid
header's fields may be read and written and keep their values, a division by zero gives 0.
Source: P4-16 Language Specification 1.2.5, "Packet parsing", "Control blocks", "Calling convention: call by
copy in/copy out", "Packet construction (deparsing)".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from . import ir
from .architecture import Architecture
from .arithmetic import cast
from .checksums import digest
from .evaluator import Evaluator, Rejected
from .externs import ExternFailed, Stuck
from .objects import Objects
from .packet_state import PacketState
from .profiles import ActionProfile, Member
from .table_entry import Row, TableEntry
from .tables import Table
from .trace import Event
from .values import UnionValue, Value, as_unsigned, copied

MAX_STATES = 1 << 15
"""Parser states that one packet may pass, some for each byte of the longest frame; a parser that loops
without end rejects the packet.
"""

MAX_FRAME_BYTES = 9216

MAX_EMITTED_BYTES = 16384
"""Bytes of headers that a deparser may emit for one packet; then the packet is dropped."""

MAX_TURNS = 65536
"""Turns of loops and calls of functions and actions for one packet; then the packet is dropped."""

_GO_ON, _RETURN, _BREAK, _CONTINUE = range(4)

_NAMED_REASONS = {
    "PacketTooShort": "parser.too_short",
    "NoMatch": "parser.no_transition",
    "ParserTimeout": "parser.too_many_states",
    "NoError": "parser.rejected",
}
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class _Exited(Exception):  # noqa: N818  control flow, never seen outside
    pass


class Interpreter(Evaluator):
    """A program ready to run over `tables` and `objects`, those of the engine by name."""

    def __init__(
        self,
        program: ir.Program,
        architecture: Architecture,
        tables: Mapping[str, Table],
        objects: Objects,
    ) -> None:
        super().__init__(program, architecture, objects)
        self._program = program
        self._tables = tables
        self._states = {state.name: state for state in program.parser.states}
        self._actions = {action.name: action for action in program.actions}
        self._functions = {function.name: function for function in program.functions}
        self._field_lists = {item.index: item.fields for item in program.field_lists}
        self._controls = {control.role: control.body for control in program.controls}
        self._types = {variable.name: variable.type for variable in program.variables}
        self._refs = {(table.name, ref.action): ref for table in program.tables for ref in table.actions}
        self._specs = {table.name: table for table in program.tables}
        self._executors: dict[type, Callable[[PacketState, Any], int | None]] = {
            ir.Assign: self._assign,
            ir.Reset: self._reset,
            ir.If: lambda packet, node: self._run(
                packet, node.then if self._value(packet, node.condition) else node.otherwise
            ),
            ir.ApplyTable: lambda packet, node: self._apply(packet, node.table) and None,
            ir.SwitchAction: self._switch_action,
            ir.Switch: self._switch,
            ir.Loop: self._loop,
            ir.ForRange: self._for_range,
            ir.Break: lambda packet, node: _BREAK,
            ir.Continue: lambda packet, node: _CONTINUE,
            ir.CallRoutine: lambda packet, node: self._call(
                packet, self._functions[node.function], node.arguments
            ),
            ir.CallAction: lambda packet, node: self._call(
                packet, self._actions[node.action], node.arguments
            ),
            ir.CallFunction: lambda packet, node: self._perform(packet, "", node.function, node.arguments),
            ir.CallMethod: lambda packet, node: self._perform(
                packet, node.instance, node.method, node.arguments
            ),
            ir.SetValid: self._set_valid,
            ir.MoveStack: self._move_stack,
            ir.Exit: self._exit,
            ir.Return: lambda packet, node: _RETURN,
            ir.Extract: lambda packet, node: self._extract(packet, node.header, 0),
            ir.ExtractVarbit: lambda packet, node: self._extract(
                packet, node.header, self._value(packet, node.bits)
            ),
            ir.Advance: self._advance,
            ir.Verify: self._verify,
            ir.Emit: self._emit,
        }

    def packet(
        self,
        frame: bytes,
        outcome: Any,  # noqa: ANN401
        trace: list[Event] | None = None,
        now_ns: int = 0,
    ) -> PacketState:
        """Return a packet before the parser, every variable at its zero."""
        places = {name: self._layouts.zero(kind) for name, kind in self._types.items()}
        return PacketState(frame, places, outcome, trace, now_ns=now_ns)

    def parse(self, packet: PacketState) -> str | None:
        """Run the parser; return the error that it ends in, None where it accepts.

        Raises: ExternFailed.
        """
        try:
            self._parse(packet)
        except ExternFailed:
            raise
        except Stuck:
            error = "ParserTimeout"
        except Rejected as rejected:
            error = rejected.error
        else:
            return None
        return error

    def has_control(self, role: str) -> bool:
        """Return whether the program has a control in a role that may be left out."""
        return role in self._controls

    def control(self, packet: PacketState, role: str) -> None:
        """Run the control in a role. Raises: Stuck if the packet has had all the turns that it may take."""
        try:
            self._run(packet, self._controls[role])
        except _Exited:
            return

    def departing(self, packet: PacketState) -> bytes:
        """Return the frame that leaves when the deparser has run."""
        return packet.departing()

    def copied(self, packet: PacketState, outcome: Any) -> PacketState:  # noqa: ANN401
        """Return a packet with the same headers and metadata, which has asked for `outcome` alone."""
        places = {name: copied(value) for name, value in packet.places.items()}
        return PacketState(
            packet.frame, places, outcome, packet.trace, packet.cursor_bytes, now_ns=packet.now_ns
        )

    @property
    def objects(self) -> Objects:
        """The extern objects of the program."""
        return self._objects

    @property
    def errors(self) -> tuple[str, ...]:
        """The program's errors by their number."""
        return self._program.errors

    def field_list(self, packet: PacketState, index: int) -> dict[ir.Expression, Value]:
        """Return what the places of a field list hold; nothing where the program has no such list."""
        places = self._field_lists.get(index, ())
        return {place: copied(self._value(packet, place)) for place in places}

    def store(self, packet: PacketState, place: ir.Expression, value: Value) -> None:
        """Store a value in a place that `field_list` has named."""
        self._store(packet, place, value)

    def clear_metadata(self, packet: PacketState) -> None:
        """Give the program's metadata and the architecture's their zeros again."""
        for name in (ir.METADATA, self._architecture.place):
            packet.places[name] = self._layouts.zero(self._types[name])

    # Blocks

    def _parse(self, packet: PacketState) -> None:
        parser = self._program.parser
        self._run(packet, parser.prologue)
        name, passed = parser.start, 0
        while name not in (ir.ACCEPT, ir.REJECT):
            if passed == MAX_STATES:
                raise Rejected("ParserTimeout")
            passed += 1
            name = self._run_state(packet, self._states[name])
        if name == ir.REJECT:
            raise Rejected("NoError")

    def _run_state(self, packet: PacketState, state: ir.State) -> str:
        """Run a state; return the name of the next one."""
        self._run(packet, state.body)
        if isinstance(state.transition, ir.Goto):
            return state.transition.state
        values = [as_unsigned(self._value(packet, key), key.type) for key in state.transition.keys]
        case = self._chosen(packet, state.transition, values)
        if case is None:
            raise Rejected("NoMatch")
        return case.state

    def _chosen(self, packet: PacketState, select: ir.Select, values: Sequence[int]) -> ir.SelectCase | None:
        """Return the first case that fits the values of the keys."""
        return next((case for case in select.cases if self._fits(case.keysets, values)), None)

    def _fits(self, keysets: tuple[ir.Keyset, ...], values: Sequence[int]) -> bool:
        if len(keysets) == 1 and isinstance(keysets[0], ir.KeyInSet):
            return self._objects.value_sets[keysets[0].value_set].holds(values)
        return all(
            self._objects.value_sets[keyset.value_set].holds((value,))
            if isinstance(keyset, ir.KeyInSet)
            else in_keyset(keyset, value)
            for keyset, value in zip(keysets, values, strict=True)
        )

    def _run(self, packet: PacketState, body: tuple[ir.Statement, ...]) -> int:
        """Run statements; return how they ended: at their end, or with return, break or continue."""
        executors = self._executors
        for statement in body:
            end = executors[type(statement)](packet, statement)
            if end:
                return end
        return _GO_ON

    # Statements

    def _assign(self, packet: PacketState, node: ir.Assign) -> None:
        target = self._located(packet, node.target)
        self._store(packet, target, copied(self._value(packet, node.value)))

    def _reset(self, packet: PacketState, node: ir.Reset) -> None:
        packet.places[node.variable] = self._layouts.zero(self._types[node.variable])

    def _apply(self, packet: PacketState, name: str) -> tuple[bool, str]:
        spec, table = self._specs[name], self._tables[name]
        values = tuple(
            as_unsigned(self._value(packet, key.expression), key.expression.type) for key in spec.keys
        )
        if not spec.keys:  # what nothing is looked up by is evaluated all the same
            for key in spec.selector_keys:
                self._value(packet, key)
        row, call = self._lookup(packet, spec, table, values)
        if call is None:
            return True, ""
        ref = self._refs[name, call.action]
        self._call(packet, self._actions[call.action], ref.arguments, call.parameters)
        return row is not None, call.action

    def _lookup(
        self, packet: PacketState, spec: ir.Table, table: Table, values: tuple[int, ...]
    ) -> tuple[Row | None, ir.ActionCall | TableEntry | None]:
        """Return the entry that matches, None for a miss, and what runs: nothing for an empty group."""
        row = table.lookup(values, len(packet.frame), packet.now_ns)
        if spec.meter:
            packet.colours[spec.meter] = self._marked(packet, spec, row or table.default)
        if row is None:
            return None, table.default.entry
        if row.entry.choice is None or table.profile is None:
            return row, row.entry
        choice = row.entry.choice
        hash_value = 0 if isinstance(choice, Member) else self._selected(packet, spec, table.profile)
        return row, table.profile.call_of(choice, hash_value)

    def _marked(self, packet: PacketState, spec: ir.Table, row: Row) -> int:
        in_bytes = bool(self._objects.instances[spec.meter].arguments[0])
        length_bytes = len(packet.frame)
        return row.meter.mark(length_bytes if in_bytes else 1, packet.now_ns, length_bytes)

    def _selected(self, packet: PacketState, spec: ir.Table, profile: ActionProfile) -> int:
        """Return the hash of a table's selector keys."""
        if profile.algorithm is None:
            return 0
        length_bits, number = 0, 0
        for key in spec.selector_keys:
            bits = self._layouts.packed(key.type, self._valid_parts(packet, key))
            length_bits, number = length_bits + bits.length_bits, number << bits.length_bits | bits.number
        return digest(profile.algorithm, length_bits, number, b"", self._objects.random)

    def _switch_action(self, packet: PacketState, node: ir.SwitchAction) -> int:
        _, action = self._apply(packet, node.table)
        for case in node.cases:
            if not case.actions or action in case.actions:
                return self._run(packet, case.body)
        return _GO_ON

    def _switch(self, packet: PacketState, node: ir.Switch) -> int:
        subject = self._value(packet, node.subject)
        for case in node.cases:
            if not case.values or subject in case.values:
                return self._run(packet, case.body)
        return _GO_ON

    def _loop(self, packet: PacketState, node: ir.Loop) -> int:
        while self._value(packet, node.condition):
            self._count_turn(packet)
            end = self._run(packet, node.body)
            if end in (_RETURN, _BREAK):
                return _RETURN if end == _RETURN else _GO_ON
            self._run(packet, node.update)
        return _GO_ON

    def _for_range(self, packet: PacketState, node: ir.ForRange) -> int:
        low, high = self._value(packet, node.low), self._value(packet, node.high)
        for number in range(low, high + 1):
            self._begin_turn(packet, node.variable, number)
            end = self._run(packet, node.body)
            if end in (_RETURN, _BREAK):
                return _RETURN if end == _RETURN else _GO_ON
        return _GO_ON

    def _begin_turn(self, packet: PacketState, variable: str, number: int) -> None:
        self._count_turn(packet)
        packet.places[variable] = number

    def _count_turn(self, packet: PacketState) -> None:
        packet.turns += 1
        if packet.turns > MAX_TURNS:
            raise Stuck

    def _call_value(self, packet: PacketState, node: ir.Call) -> Value:
        function = self._functions[node.function]
        self._call(packet, function, node.arguments)
        return packet.places[function.result]

    def _call(
        self,
        packet: PacketState,
        called: ir.Action | ir.Function,
        arguments: tuple[ir.Expression, ...],
        action_data: Sequence[int] = (),
    ) -> None:
        """Run an action or function: `arguments` for its parameters with a direction, then its action data.

        A direct call passes expressions for the action data too.
        """
        self._count_turn(packet)
        data = iter(action_data)
        given = iter(arguments)
        copies_out: list[tuple[ir.Expression, str]] = []
        copies_in: list[tuple[str, Any]] = []
        for parameter in called.parameters:
            if parameter.direction is ir.Direction.NONE and action_data:
                copies_in.append((parameter.variable, cast(next(data), parameter.type)))
                continue
            argument = next(given)
            if parameter.direction in (ir.Direction.OUT, ir.Direction.INOUT):
                argument = self._located(packet, argument)  # its indices are evaluated once
                copies_out.append((argument, parameter.variable))
            if parameter.direction is ir.Direction.OUT:
                copies_in.append((parameter.variable, self._layouts.zero(parameter.type)))
            else:
                copies_in.append((parameter.variable, copied(self._value(packet, argument))))
        for variable, value in copies_in:
            packet.places[variable] = value
        exited = None
        try:
            self._run_called(packet, called)
        except _Exited as passing:  # the parser's errors leave at once
            exited = passing
        for target, variable in copies_out:
            self._store(packet, target, copied(packet.places[variable]))
        if exited is not None:
            raise exited

    def _run_called(self, packet: PacketState, called: ir.Action | ir.Function) -> None:
        """Run the body of an action or function, whose parameters have their values."""
        self._run(packet, called.body)

    def _perform(
        self, packet: PacketState, instance: str, name: str, arguments: tuple[ir.Expression, ...]
    ) -> None:
        self._call_extern(packet, instance, name, arguments)

    def _set_valid(self, packet: PacketState, node: ir.SetValid) -> None:
        place = self._located(packet, node.header)
        header = self._value(packet, place)
        if node.valid and not header.valid:
            header.fields = self._layouts.zero(place.type).fields
        self._store_validity(packet, place, node.valid)

    def _store_validity(self, packet: PacketState, place: ir.Expression, valid: bool) -> None:
        """Make a header valid or invalid, whose place has indices that are numbers."""
        if isinstance(place, ir.Member):
            owner = self._value(packet, place.base)
            if isinstance(owner, UnionValue):
                owner.set_valid(place.field, valid)
                return
        self._value(packet, place).valid = valid

    def _move_stack(self, packet: PacketState, node: ir.MoveStack) -> None:
        assert isinstance(node.stack.type, ir.Stack)
        count = min(node.count, node.stack.type.size)
        empty = [self._layouts.zero(ir.Named(node.stack.type.element)) for _ in range(count)]
        self._value(packet, node.stack).move(count, node.front, empty)

    def _exit(self, packet: PacketState, node: ir.Exit) -> NoReturn:
        raise _Exited

    def _extract(self, packet: PacketState, target: ir.Expression, varbit_bits: int) -> None:
        place = self._located(packet, target)
        self._take(packet, place, varbit_bits)
        for node, element in zip(_path(target), _path(place), strict=True):
            if isinstance(node, ir.StackPlace) and not node.last:
                assert isinstance(element, ir.Element)
                self._value(packet, element.base).next_index += 1

    def _take(self, packet: PacketState, target: ir.Expression, varbit_bits: int) -> None:
        """Read a header at the cursor into a place whose indices are numbers."""
        kind = target.type
        assert isinstance(kind, ir.Named)
        header = self._value(packet, target)
        width_bits = self._layouts.width_bits(kind) + varbit_bits
        if width_bits % 8:
            raise Rejected("ParserInvalidArgument")
        number, length_bits = self._peek(packet, width_bits // 8)
        if varbit_bits > _varbit_room(self._layouts.headers[kind.name]):
            raise Rejected("HeaderTooShort")
        header.fields = self._layouts.unpacked_fields(kind, number, length_bits, varbit_bits)
        self._store_validity(packet, target, True)
        packet.cursor_bytes += length_bits // 8

    def _advance(self, packet: PacketState, node: ir.Advance) -> None:
        bits = self._value(packet, node.bits)
        if bits % 8:
            raise Rejected("ParserInvalidArgument")
        if packet.cursor_bytes + bits // 8 > len(packet.frame):
            raise Rejected("PacketTooShort")
        packet.cursor_bytes += bits // 8

    def _verify(self, packet: PacketState, node: ir.Verify) -> None:
        if not self._value(packet, node.condition):
            raise Rejected(self._program.errors[self._value(packet, node.error)])

    def _emit(self, packet: PacketState, node: ir.Emit) -> None:
        value = self._value(packet, node.value)
        packet.emitted.append(self._layouts.emitted(node.value.type, value))
        self._note_emitted(packet, node, value)
        if sum(map(len, packet.emitted)) > MAX_EMITTED_BYTES:
            raise Stuck("pipeline.oversized")

    def _note_emitted(self, packet: PacketState, node: ir.Emit, value: Value) -> None:
        """Hear of a value that was emitted; the tracer does."""


def reason_of(error: str) -> str:
    """Return the drop reason of a parser error: PacketTooShort is parser.too_short, BadVersion
    parser.bad_version.
    """
    return _NAMED_REASONS.get(error) or f"parser.{_WORD.sub('_', error).lower()}"


def _path(node: ir.Expression) -> list[ir.Expression]:
    """Return an lvalue and what it is a part of, down to the variable."""
    path = [node]
    while isinstance(path[-1], ir.Member | ir.Element | ir.StackPlace):
        last = path[-1]
        path.append(last.stack if isinstance(last, ir.StackPlace) else last.base)
    return path


def _varbit_room(layout: ir.HeaderType) -> int:
    return sum(part.type.width for part in layout.fields if isinstance(part.type, ir.Varbit))


def in_keyset(keyset: ir.KeyMask | ir.KeyRange | ir.KeyAny, value: int) -> bool:
    """Return whether a select's keyset accepts `value`, unsigned."""
    match keyset:
        case ir.KeyMask(wanted, mask):
            return value & mask == wanted & mask
        case ir.KeyRange(low, high):
            return low <= value <= high
        case ir.KeyAny():
            return True
