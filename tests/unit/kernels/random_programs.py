# SPDX-License-Identifier: Apache-2.0
"""Random programs for the SmartNIC architecture as IR, with packets and entries for them.

Everything comes from one seed. A program is legal by construction: types agree, and nothing calls itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from nicemu.pipeline import (
    NIC_METADATA,
    Exact,
    Lpm,
    Match,
    Optional,
    Program,
    Range,
    TableEntry,
    Ternary,
    ir,
    width_of,
)

WIDTHS = (1, 3, 7, 8, 9, 16, 31, 32, 33, 48, 64, 65, 72, 96, 100, 128, 200)
HEADERS = ir.Named("headers_t")
META = ir.Named("meta_t")


class Generator:
    """Makes one program; the methods return IR."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.headers: list[ir.HeaderType] = []
        self.variables: list[ir.Variable] = []
        self.functions: list[ir.Function] = []
        self.actions: list[ir.Action] = []
        self.tables: list[ir.Table] = []
        self.value_sets: list[ir.ValueSet] = []
        self.scalars: list[ir.Expression] = []
        self.header_places: list[ir.Expression] = []
        self.stack: ir.Expression
        self.place = "control"
        self.writable = True
        self.loops = 0
        self.has_loops = self.chance.random() < 0.5
        self._names = 0

    def program(self) -> Program:
        """Return a program."""
        chance = self.chance
        self.headers = [*(self._header(f"h{number}_t") for number in range(3)), self._open_header()]
        union = ir.UnionType("u_t", (ir.Field("x", ir.Named("h1_t")), ir.Field("y", ir.Named("h2_t"))))
        size = chance.randint(1, 4)
        top = ir.StructType(
            "headers_t",
            (
                ir.Field("a", ir.Named("h0_t")),
                ir.Field("s", ir.Stack("h1_t", size)),
                ir.Field("u", ir.Named("u_t")),
                ir.Field("b", ir.Named("h2_t")),
                ir.Field("v", ir.Named("v_t")),
            ),
        )
        fields = (("i", self._scalar()), ("h", ir.Named("h0_t")), ("w", ir.Named("v_t")))
        inner = ir.StructType("inner_t", tuple(ir.Field(*field) for field in fields))
        meta = ir.StructType(
            "meta_t",
            (*(ir.Field(f"m{n}", self._scalar()) for n in range(4)), ir.Field("n", ir.Named("inner_t"))),
        )
        headers = ir.Name("headers", HEADERS)
        union_place = ir.Member(headers, "u", ir.Named("u_t"))
        self.stack = ir.Member(headers, "s", ir.Stack("h1_t", size))
        nested = ir.Member(ir.Name("metadata", META), "n", ir.Named("inner_t"))
        self.header_places = [
            ir.Member(headers, "a", ir.Named("h0_t")),
            ir.Member(headers, "b", ir.Named("h2_t")),
            ir.Member(union_place, "x", ir.Named("h1_t")),
            ir.Member(union_place, "y", ir.Named("h2_t")),
            ir.Member(nested, "h", ir.Named("h0_t")),
            ir.Element(self.stack, ir.Constant(0, ir.Bits(32)), ir.Named("h1_t")),
            ir.Member(headers, "v", ir.Named("v_t")),
            ir.Member(nested, "w", ir.Named("v_t")),
        ]
        metadata = ir.Name("metadata", META)
        self.scalars = [ir.Member(metadata, part.name, part.type) for part in meta.fields[:4]]
        self.scalars.append(ir.Member(nested, "i", inner.fields[0].type))
        for place in self.header_places:
            self.scalars += self._fields(place)
        parser = self._parser()
        for _ in range(chance.randint(0, 2)):
            self._function()
        for _ in range(chance.randint(1, 3)):
            self._action()
        for _ in range(chance.randint(0, 2)):
            self._table()
        self.place = "control"
        body = self._body(3)
        emitted = chance.choice(
            [
                (ir.Emit(headers),),
                tuple(ir.Emit(place) for place in (*self.header_places[:2], self.stack)),
                self._inside((), "deparser", 2),
            ]
        )
        return Program(
            name="random",
            architecture="nicemu",
            headers=tuple(self.headers),
            structs=(top, inner, meta, NIC_METADATA),
            unions=(union,),
            errors=(*ir.CORE_ERRORS, "Odd"),
            variables=(
                ir.Variable("headers", HEADERS),
                ir.Variable("metadata", META),
                ir.Variable("nic", ir.Named(NIC_METADATA.name)),
                *self.variables,
            ),
            externs=(ir.ExternInstance("C.hits", "TriggerCounter"),),
            parser=parser,
            controls=(ir.Control("control", "C", body), ir.Control("deparser", "D", emitted)),
            actions=tuple(self.actions),
            tables=tuple(self.tables),
            functions=tuple(self.functions),
            value_sets=tuple(self.value_sets),
        )

    # Types

    def _scalar(self) -> ir.Type:
        if self.chance.random() < 0.15:
            return ir.BOOL
        return ir.Bits(self.chance.choice(WIDTHS), self.chance.random() < 0.3)

    def _header(self, name: str) -> ir.HeaderType:
        fields = [ir.Field(f"f{number}", self._scalar()) for number in range(self.chance.randint(1, 4))]
        width = sum(width_of(part.type) for part in fields)
        if width % 8:
            fields.append(ir.Field("pad", ir.Bits(8 - width % 8)))
        return ir.HeaderType(name, tuple(fields))

    def _open_header(self) -> ir.HeaderType:
        """Return a header with a varbit, before or behind which it may not be whole bytes."""
        fields = [ir.Field("f0", self._scalar()), ir.Field("v", ir.Varbit(self.chance.choice((8, 13, 72))))]
        fields += [ir.Field("f1", ir.Bits(self.chance.choice((3, 8, 40))))] * self.chance.randint(0, 1)
        return ir.HeaderType("v_t", tuple(fields))

    def _fields(self, header: ir.Expression) -> list[ir.Expression]:
        assert isinstance(header.type, ir.Named)
        name = header.type.name
        layout = next(item for item in self.headers if item.name == name)
        fields = (part for part in layout.fields if not isinstance(part.type, ir.Varbit))
        return [ir.Member(header, part.name, part.type) for part in fields]

    def _name(self, what: str) -> str:
        self._names += 1
        return f"C.{what}{self._names}"

    def _variable(self, kind: ir.Type) -> ir.Name:
        made = ir.Variable(self._name("v"), kind)
        self.variables.append(made)
        return ir.Name(made.name, kind)

    # Expressions

    def number(self, kind: ir.Type, depth: int = 2) -> ir.Expression:
        """Return an expression of a scalar type."""
        chance = self.chance
        choices: list[Callable[[], ir.Expression]] = [lambda: self._constant(kind), lambda: self._read(kind)]
        if depth > 0:
            choices += [lambda: self._conditional(kind, depth), lambda: self._cast(kind, depth)]
            if isinstance(kind, ir.Bool):
                choices += [lambda: self._truth(depth)] * 4
            elif isinstance(kind, ir.Bits):
                choices += [lambda: self._operator(kind, depth)] * 4
        return chance.choice(choices)()

    def _constant(self, kind: ir.Type) -> ir.Constant:
        if isinstance(kind, ir.Bool):
            return ir.Constant(self.chance.randint(0, 1), kind)
        assert isinstance(kind, ir.Bits)
        low = -(1 << kind.width - 1) if kind.signed else 0
        high = (1 << kind.width - kind.signed) - 1
        near = [low, high, 0, min(1, high), self.chance.randint(low, high), self.chance.randint(low, high)]
        return ir.Constant(self.chance.choice(near), kind)

    def _read(self, kind: ir.Type) -> ir.Expression:
        source = self.chance.choice(self.scalars)
        if self.chance.random() < 0.2:
            source = self._element_field()
        return self._as(source, kind)

    def _element_field(self) -> ir.Expression:
        index = self.number(ir.Bits(self.chance.choice((2, 8, 32)), self.chance.random() < 0.2), 0)
        return self.chance.choice(self._fields(ir.Element(self.stack, index, ir.Named("h1_t"))))

    def _as(self, node: ir.Expression, kind: ir.Type) -> ir.Expression:
        """Return an expression converted to a type."""
        if node.type == kind:
            return node
        if isinstance(kind, ir.Bool):
            if isinstance(node.type, ir.Bits) and node.type.width > 1:
                node = ir.Slice(node, 0, 0, ir.Bits(1))
            return ir.Cast(node, kind)
        if isinstance(node.type, ir.Bool):
            node = ir.Cast(node, ir.Bits(1))
        return ir.Cast(node, kind) if node.type != kind else node

    def _conditional(self, kind: ir.Type, depth: int) -> ir.Expression:
        yes, no = self.number(kind, depth - 1), self.number(kind, depth - 1)
        return ir.Conditional(self.number(ir.BOOL, depth - 1), yes, no, kind)

    def _cast(self, kind: ir.Type, depth: int) -> ir.Expression:
        return self._as(self.number(self._scalar(), depth - 1), kind)

    def _truth(self, depth: int) -> ir.Expression:
        chance = self.chance
        match chance.randint(0, 4):
            case 0:
                return ir.IsValid(chance.choice(self.header_places))
            case 1:
                left, right = self.number(ir.BOOL, depth - 1), self.number(ir.BOOL, depth - 1)
                return ir.Binary(chance.choice(("&&", "||", "==", "!=")), left, right, ir.BOOL)
            case 2:
                return ir.Unary("!", self.number(ir.BOOL, depth - 1), ir.BOOL)
            case 3:
                pairs = [(one, other) for one in self.header_places for other in self.header_places]
                left, right = chance.choice([pair for pair in pairs if pair[0].type == pair[1].type])
                return ir.Binary(chance.choice(("==", "!=")), left, right, ir.BOOL)
        kind = ir.Bits(chance.choice(WIDTHS), chance.random() < 0.4)
        op = chance.choice(("==", "!=", "<", "<=", ">", ">="))
        return ir.Binary(op, self.number(kind, depth - 1), self.number(kind, depth - 1), ir.BOOL)

    def _operator(self, kind: ir.Bits, depth: int) -> ir.Expression:
        chance = self.chance
        match chance.randint(0, 9):
            case 0:
                return ir.Unary(chance.choice("-~"), self.number(kind, depth - 1), kind)
            case 1:
                amount = ir.Bits(chance.choice((2, 8, 9, 32, 100)))
                op = chance.choice(("<<", ">>"))
                return ir.Binary(op, self.number(kind, depth - 1), self.number(amount, depth - 1), kind)
            case 2 if not kind.signed and kind.width > 1:
                cut = chance.randint(1, kind.width - 1)
                left = self.number(ir.Bits(kind.width - cut), depth - 1)
                return ir.Binary(
                    "++", left, self.number(ir.Bits(cut, chance.random() < 0.3), depth - 1), kind
                )
            case 3 if not kind.signed:
                wide = ir.Bits(kind.width + chance.randint(0, 20), chance.random() < 0.3)
                low = chance.randint(0, wide.width - kind.width)
                return ir.Slice(self.number(wide, depth - 1), low + kind.width - 1, low, kind)
        op = chance.choice(("+", "-", "*", "/", "%", "|+|", "|-|", "&", "|", "^"))
        return ir.Binary(op, self.number(kind, depth - 1), self.number(kind, depth - 1), kind)

    # Statements

    def _body(self, depth: int) -> tuple[ir.Statement, ...]:
        return tuple(self._statement(depth) for _ in range(self.chance.randint(1, 4)))

    def _statement(self, depth: int) -> ir.Statement:
        chance = self.chance
        kinds: list[Callable[[], ir.Statement]] = [self._assign] * 4
        kinds += [self._set_valid, self._copy_header, self._move]
        if depth > 0:
            kinds += [lambda: self._if(depth)] * 2
            kinds.append(lambda: self._switch(depth))
            kinds += [lambda: self._loop(depth), lambda: self._for(depth)] if self.has_loops else []
        if self.place == "deparser":
            kinds += [self._emit] * 4
            if chance.random() < 0.1:
                kinds.append(ir.Exit)
        if self.place in ("control", "action"):
            kinds += [self._verdict, self._effect]
            if self.actions:
                kinds.append(self._call_action)
            if chance.random() < 0.15:
                kinds.append(ir.Exit)
        if self.place == "control" and self.tables:
            kinds += [lambda: self._apply(depth)] * 3
        if self.functions and self.place != "function":
            kinds.append(self._call_function)
        if self.loops and chance.random() < 0.4:
            kinds += [ir.Break, ir.Continue]
        if self.place != "parser" and chance.random() < 0.1:
            kinds.append(ir.Return)
        return chance.choice(kinds)()

    def _target(self) -> ir.Expression:
        chance = self.chance
        target = chance.choice(self.scalars) if chance.random() < 0.8 else self._element_field()
        if isinstance(target.type, ir.Bits) and chance.random() < 0.15:
            low = chance.randint(0, target.type.width - 1)
            high = chance.randint(low, target.type.width - 1)
            return ir.Slice(target, high, low, ir.Bits(high - low + 1))
        return target

    def _assign(self) -> ir.Statement:
        target = self._target()
        return ir.Assign(target, self.number(target.type))

    def _set_valid(self) -> ir.Statement:
        header = self.chance.choice(self.header_places)
        if self.chance.random() < 0.2:
            header = ir.Element(self.stack, self.number(ir.Bits(8), 1), ir.Named("h1_t"))
        return ir.SetValid(header, self.chance.random() < 0.7)

    def _emit(self) -> ir.Statement:
        return ir.Emit(self.chance.choice((*self.header_places, self.stack)))

    def _copy_header(self) -> ir.Statement:
        target = self.chance.choice(self.header_places)
        assert isinstance(target.type, ir.Named)
        sources = [place for place in self.header_places if place.type == target.type]
        source: ir.Expression = self.chance.choice(sources)
        match self.chance.randint(0, 3):
            case 0:
                source = ir.Zero(target.type)
            case 1 if target.type.name != "v_t":
                kinds = [item.type for item in self._fields(target)]
                source = ir.StructValue(tuple(self.number(kind, 1) for kind in kinds), target.type)
        return ir.Assign(target, source)

    def _move(self) -> ir.Statement:
        return ir.MoveStack(self.stack, self.chance.randint(0, 5), self.chance.random() < 0.5)

    def _if(self, depth: int) -> ir.Statement:
        otherwise = self._body(depth - 1) if self.chance.random() < 0.5 else ()
        return ir.If(self.number(ir.BOOL), self._body(depth - 1), otherwise)

    def _switch(self, depth: int) -> ir.Statement:
        kind = ir.Bits(self.chance.choice((3, 8, 64)), self.chance.random() < 0.3)
        cases = []
        for _ in range(self.chance.randint(1, 3)):
            values = {self._constant(kind).value for _ in range(self.chance.randint(1, 2))}
            cases.append(ir.ValueCase(tuple(sorted(values)), self._body(depth - 1)))
        if self.chance.random() < 0.5:
            cases.append(ir.ValueCase((), self._body(depth - 1)))
        return ir.Switch(self.number(kind), tuple(cases))

    def _loop(self, depth: int) -> ir.Statement:
        counter = self._variable(ir.Bits(4))
        turns = ir.Binary("<", counter, ir.Constant(self.chance.randint(0, 5), ir.Bits(4)), ir.BOOL)
        one = ir.Constant(1, ir.Bits(4))
        update = (ir.Assign(counter, ir.Binary("+", counter, one, ir.Bits(4))),)
        self.loops += 1
        body = self._body(depth - 1)
        self.loops -= 1
        return ir.Loop(turns, body, update)

    def _for(self, depth: int) -> ir.Statement:
        kind = ir.Bits(self.chance.choice((2, 4)), self.chance.random() < 0.4)
        variable = self._variable(kind)
        low, high = self.number(kind, 1), self.number(kind, 1)
        self.loops += 1
        body = self._body(depth - 1)
        self.loops -= 1
        return ir.ForRange(variable.name, low, high, body)

    def _verdict(self) -> ir.Statement:
        if self.chance.random() < 0.6:
            return ir.CallFunction("send_to_port", (self.number(ir.Bits(16)),))
        return ir.CallFunction(self.chance.choice(("send_to_host", "drop_packet", "hold_packet")))

    def _effect(self) -> ir.Statement:
        return ir.CallMethod("C.hits", "add", (self.number(ir.Bits(32)), self.number(ir.Bits(64))))

    def _arguments(self, parameters: tuple[ir.Parameter, ...]) -> tuple[ir.Expression, ...]:
        given: list[ir.Expression] = []
        for item in parameters:
            if item.direction in (ir.Direction.OUT, ir.Direction.INOUT):
                fitting = [place for place in self.scalars if place.type == item.type]
                given.append(self.chance.choice(fitting) if fitting else self._variable(item.type))
            else:
                given.append(self.number(item.type, 1))
        return tuple(given)

    def _call_action(self) -> ir.Statement:
        action = self.chance.choice(self.actions)
        return ir.CallAction(action.name, self._arguments(action.parameters))

    def _call_function(self) -> ir.Statement:
        function = self.chance.choice(self.functions)
        arguments = self._arguments(function.parameters)
        kind = next(item.type for item in self.variables if item.name == function.result)
        targets = [place for place in self.scalars if place.type == kind]
        if targets and self.chance.random() < 0.7:
            return ir.Assign(self.chance.choice(targets), ir.Call(function.name, arguments, kind))
        return ir.CallRoutine(function.name, arguments)

    def _apply(self, depth: int) -> ir.Statement:
        table = self.chance.choice(self.tables)
        match self.chance.randint(0, 2):
            case 0:
                return ir.ApplyTable(table.name)
            case 1:
                hit = ir.TableApply(table.name, self.chance.random() < 0.5)
                return (
                    ir.If(hit, self._body(depth - 1), self._body(depth - 1))
                    if depth
                    else ir.ApplyTable(table.name)
                )
        cases = [ir.SwitchCase((ref.action,), self._body(0)) for ref in table.actions[:1]]
        return ir.SwitchAction(table.name, (*cases, ir.SwitchCase((), self._body(0))))

    # Declarations

    def _parameters(self, with_data: bool) -> tuple[ir.Parameter, ...]:
        directions = [ir.Direction.IN, ir.Direction.OUT, ir.Direction.INOUT]
        made = []
        for number in range(self.chance.randint(0, 3)):
            kind = self.chance.choice(self.scalars).type
            place = self._variable(kind)
            made.append(ir.Parameter(f"p{number}", place.name, kind, self.chance.choice(directions)))
        for number in range(self.chance.randint(0, 2) if with_data else 0):
            kind = self._scalar()
            place = self._variable(kind)
            made.append(ir.Parameter(f"d{number}", place.name, kind, ir.Direction.NONE))
        return tuple(made)

    def _inside(
        self, parameters: tuple[ir.Parameter, ...], place: str, depth: int
    ) -> tuple[ir.Statement, ...]:
        outer, scalars, loops = self.place, self.scalars, self.loops
        self.place, self.loops = place, 0
        self.scalars = [*scalars, *(ir.Name(item.variable, item.type) for item in parameters)]
        body = self._body(depth)
        self.place, self.scalars, self.loops = outer, scalars, loops
        return body

    def _function(self) -> None:
        parameters = self._parameters(False)
        result = self._variable(self.chance.choice(self.scalars).type)
        body = self._inside(parameters, "function", 1)
        ending = (ir.Assign(result, self.number(result.type)), ir.Return())
        self.functions.append(ir.Function(self._name("f"), parameters, (*body, *ending), result.name))

    def _action(self) -> None:
        parameters = self._parameters(True)
        body = self._inside(parameters, "action", 1)
        self.actions.append(ir.Action(self._name("a"), parameters, body))

    def _table(self) -> None:
        chance = self.chance
        kinds = [ir.MatchKind.EXACT] * 2 + [chance.choice(list(ir.MatchKind))] * 2
        keys = []
        for number in range(chance.randint(0, 3)):
            kind = chance.choice(kinds)
            scalar = self.number(ir.Bits(chance.choice((2, 3, 8, 64, 100))), 1)
            keys.append(ir.Key(f"k{number}", scalar, kind))
        refs = []
        for action in self.actions:
            directed = tuple(item for item in action.parameters if item.direction is not ir.Direction.NONE)
            refs.append(ir.ActionRef(action.name, self._arguments(directed)))
        default = chance.choice(self.actions)
        call = ir.ActionCall(default.name, self.data(default))
        self.tables.append(ir.Table(self._name("t"), tuple(keys), tuple(refs), call, 16))

    def data(self, action: ir.Action) -> tuple[int, ...]:
        """Return action data for an action."""
        given = [item for item in action.parameters if item.direction is ir.Direction.NONE]
        return tuple(self.chance.getrandbits(width_of(item.type)) for item in given)

    # Parser

    def _parser(self) -> ir.Parser:
        self.place = "parser"
        chance = self.chance
        first, second = self.header_places[0], self.header_places[1]
        names = ["more", "stacked", "union", "looking", "open", "open", ir.ACCEPT, ir.REJECT]
        following = ir.StackPlace(self.stack, False, ir.Named("h1_t"))
        last = ir.StackPlace(self.stack, True, ir.Named("h1_t"))
        flat = ir.Bits(chance.choice((3, 8, 40, 100)))
        ahead = self._variable(flat)
        states = [
            ir.State("start", (ir.Extract(first), *self._few()), self._select(first, names)),
            ir.State("more", (ir.Extract(second), *self._few()), self._select(second, names[1:])),
            ir.State("stacked", (ir.Extract(following),), self._select(last, names[1:])),
            ir.State(
                "union",
                (ir.Extract(self.header_places[chance.choice((2, 3))]), *self._few()),
                self._select(first, names[3:]),
            ),
            ir.State(
                "looking",
                (
                    ir.Assign(ahead, ir.Lookahead(flat)),
                    ir.Advance(ir.Constant(8 * chance.randint(0, 3), ir.Bits(32))),
                    ir.Verify(self.number(ir.BOOL), ir.Constant(len(ir.CORE_ERRORS), ir.ERROR)),
                ),
                ir.Goto(ir.ACCEPT),
            ),
            ir.State(
                "open", (ir.ExtractVarbit(self.header_places[6], self._varbit_bits()),), ir.Goto("looking")
            ),
        ]
        return ir.Parser("P", tuple(states), (ir.Reset(ahead.name),))

    def _varbit_bits(self) -> ir.Expression:
        """Return a length for the varbit: mostly one that makes its header whole bytes."""
        kind, chance = ir.Bits(32), self.chance
        if chance.random() < 0.2:
            return self.number(kind, 1)
        odd = -sum(width_of(part.type) for part in self._fields(self.header_places[6])) % 8
        bytes_ = self._as(chance.choice(self._fields(self.header_places[0])), ir.Bits(3))
        bits = ir.Binary("<<", ir.Cast(bytes_, kind), ir.Constant(3, ir.Bits(8)), kind)
        return ir.Binary("+", bits, ir.Constant(odd, kind), kind)

    def _few(self) -> tuple[ir.Statement, ...]:
        return tuple(self._assign() for _ in range(self.chance.randint(0, 1)))

    def _select(self, header: ir.Expression, names: list[str]) -> ir.Transition:
        chance = self.chance
        if chance.random() < 0.2:
            return ir.Goto(chance.choice(names))
        key = chance.choice(self._fields(header))
        width = width_of(key.type)
        ones = (1 << width) - 1
        cases = []
        for _ in range(chance.randint(1, 3)):
            value = chance.getrandbits(width) & chance.choice((ones, 3))
            mask = chance.choice((ones, 1, 3)) & ones
            low, high = sorted((chance.getrandbits(width), chance.getrandbits(width)))
            keysets = (ir.KeyMask(value, mask), ir.KeyRange(low, high), ir.KeyMask(value, 1))
            keyset: ir.Keyset = chance.choice(keysets)
            if chance.random() < 0.25:
                keyset = ir.KeyInSet(self._value_set(key.type))
            cases.append(ir.SelectCase((keyset,), chance.choice(names)))
        if chance.random() < 0.8:
            cases.append(ir.SelectCase((ir.KeyAny(),), chance.choice(names)))
        return ir.Select((key,), tuple(cases))

    def _value_set(self, kind: ir.Type) -> str:
        held = ir.ValueSetField("value", kind, self.chance.choice(list(ir.MatchKind)))
        self.value_sets.append(ir.ValueSet(self._name("set"), 4, (held,)))
        return self.value_sets[-1].name

    # Entries and packets

    def members(self, value_set: ir.ValueSet) -> list[tuple[Match, ...]]:
        """Return members for a value set, some of them perhaps twice."""
        count = self.chance.randint(0, value_set.size)
        return [
            tuple(self._matching(width_of(part.type), part.match_kind) for part in value_set.fields)
            for _ in range(count)
        ]

    def entries(self, table: ir.Table) -> list[TableEntry]:
        """Return entries for a table, some of which may repeat what another matches."""
        found = []
        priorities = any(key.match_kind.has_priority for key in table.keys)
        for _ in range(self.chance.randint(0, 8) if table.keys else 0):
            action = self.chance.choice(self.actions)
            matches = tuple(self._match(key) for key in table.keys)
            priority = self.chance.randint(1, 4) if priorities else 0
            found.append(TableEntry(matches, action.name, self.data(action), priority))
        return found

    def _match(self, key: ir.Key) -> Match:
        return self._matching(width_of(key.expression.type), key.match_kind)

    def _matching(self, width: int, kind: ir.MatchKind) -> Match:
        chance = self.chance
        ones = (1 << width) - 1
        value = chance.choice((0, 1, ones, chance.getrandbits(width))) & ones
        match kind:
            case ir.MatchKind.EXACT:
                return Exact(value)
            case ir.MatchKind.LPM:
                length = chance.randint(0, width)
                return Lpm(value >> (width - length) << (width - length), length)
            case ir.MatchKind.TERNARY:
                mask = chance.choice((0, 1, ones, chance.getrandbits(width))) & ones
                return Ternary(value & mask, mask)
            case ir.MatchKind.RANGE:
                low, high = sorted((value, chance.getrandbits(width)))
                return Range(low, high)
        return Optional(None if chance.random() < 0.3 else value)

    def packet(self) -> bytes:
        """Return bytes: few bits set or many, short or long."""
        length = self.chance.choice((0, 1, 5, 20, 60, 200))
        frame = self.chance.randbytes(length)
        if self.chance.random() < 0.4:
            frame = bytes(byte & self.chance.choice((0, 1, 3)) for byte in frame)
        return frame
