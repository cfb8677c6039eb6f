# SPDX-License-Identifier: Apache-2.0
"""Expressions of the IR as LLVM instructions; each means what `nicemu.pipeline`'s interpreter computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import Program, arithmetic, ir, width_of

from .arrays import array_element, numbered, with_field
from .division import quotient
from .not_compiled import NotCompiled
from .paths import own_path
from .places import (
    BIT,
    INDEX,
    NEXT,
    NO_BITS,
    VALID,
    Composite,
    Number,
    Place,
    Places,
    Value,
    number_type,
    selected,
)

STACK_OUT_OF_BOUNDS = ir.CORE_ERRORS.index("StackOutOfBounds")


class Expressions:
    """Makes instructions at the end of one function; `builder` stands where the next one goes."""

    def __init__(self, program: Program, places: Places, builder: llvm.IRBuilder) -> None:
        self.program = program
        self.places = places
        self.builder = builder
        self.layouts = places.layouts
        self.types = {variable.name: variable.type for variable in program.variables}

    # What the subclasses make

    def apply(self, table: str) -> Number:
        """Apply a table; return whether an entry matched, as i1."""
        raise NotImplementedError

    def call(self, function: str, arguments: tuple[ir.Expression, ...]) -> None:
        """Run a function."""
        raise NotImplementedError

    def extern(self, instance: str, name: str, arguments: tuple[ir.Expression, ...]) -> Value:
        """Call an extern; return its value, None if it has none."""
        raise NotImplementedError

    def reject(self, error: Number) -> None:
        """End the parser with an error; what follows is never reached."""
        raise NotImplementedError

    def look_ahead(self, kind: ir.Type) -> Value:
        """Return a value at the parser's cursor."""
        raise NotImplementedError

    def packet_length(self) -> Number:
        """Return the bytes of the packet, i32."""
        raise NotImplementedError

    # Blocks

    def block(self, name: str) -> Any:  # noqa: ANN401
        """Return a new basic block."""
        return self.builder.append_basic_block(name)

    def go(self, block: Any) -> None:  # noqa: ANN401
        """Branch to a block, unless this one has ended, and go on there."""
        if not self.builder.block.is_terminated:
            self.builder.branch(block)
        self.builder.position_at_end(block)

    def choose(
        self, condition: Number, yes: Callable[[], Value], no: Callable[[], Value], kind: ir.Type
    ) -> Value:
        """Return one of two values, only one of which is computed."""
        temporary = Place(own_path(f"choice{self._temporary()}"), kind)
        then, otherwise, after = self.block("yes"), self.block("no"), self.block("after")
        self.builder.cbranch(condition, then, otherwise)
        for block, make in ((then, yes), (otherwise, no)):
            self.builder.position_at_end(block)
            value = make()
            if not self.builder.block.is_terminated:
                self.places.store(temporary, value, self.builder)
                self.builder.branch(after)
        self.builder.position_at_end(after)
        return self.places.load(temporary, self.builder)

    _temporaries = 0

    def _temporary(self) -> int:
        self._temporaries += 1
        return self._temporaries

    # Values

    def value(self, node: ir.Expression) -> Value:
        """Return the value of an expression."""
        builder = self.builder
        match node:
            case ir.Constant(value, kind):
                return number_type(kind)(value & ((1 << width_of(kind)) - 1))
            case ir.Name(name, kind):
                return self.places.load(Place(name, kind), builder)
            case ir.Member():
                return self._member(node)
            case ir.Element():
                return self._element(node)
            case ir.StackPlace():
                return self.places.load(self.place(node), self.builder)
            case ir.LastIndex(stack, _):
                return self.builder.sub(self._next_index(stack), INDEX(1))
            case ir.Unary(op, operand, kind):
                number = self.value(operand)
                if kind == NO_BITS:
                    return number
                return builder.neg(number) if op == "-" else self.builder.not_(number)
            case ir.Binary():
                return self._binary(node)
            case ir.Conditional(condition, yes, no, kind):
                return self.choose(
                    self.value(condition), lambda: self.value(yes), lambda: self.value(no), kind
                )
            case ir.Cast(operand, kind):
                return self.resized(self.value(operand), operand.type, kind)
            case ir.Slice(base, high, low, _):
                number = self.value(base)
                shifted = self.builder.lshr(number, number.type(low))
                return self._truncated(shifted, high - low + 1)
            case ir.IsValid(header, _):
                return self.is_valid(self.value(header))
            case ir.TableApply(table, hit, _):
                found = self.apply(table)
                return found if hit else self.builder.not_(found)
            case ir.Lookahead(kind):
                return self.look_ahead(kind)
            case ir.StructValue(fields, kind):
                return self._struct(fields, kind)
            case ir.StackValue(elements, kind):
                made = Composite(kind, {NEXT: INDEX(0)})
                for number_, element in enumerate(elements):
                    made.parts[str(number_)] = self.value(element)
                return made
            case ir.Zero(kind):
                return self.places.zero(kind)
            case ir.PacketLength():
                return self.packet_length()
            case ir.Call(function, arguments, kind):
                self.call(function, arguments)
                result = next(item.result for item in self.program.functions if item.name == function)
                return self.places.load(Place(result, kind), self.builder)
            case ir.ExternValue(instance, name, arguments, kind):
                value = self.extern(instance, name, arguments)
                return self.places.zero(kind) if value is None else value
        raise NotCompiled(f"{type(node).__name__} in an expression")

    def _member(self, node: ir.Member) -> Value:
        if _is_place(node):
            found = self._constant_place(node)
            if found is not None:
                return self.places.load(found, self.builder)
        base = self.value(node.base)
        assert isinstance(base, Composite)
        return base.parts[node.field]

    def _element(self, node: ir.Element) -> Value:
        """Return an element, the zero of its type where the index is outside."""
        if isinstance(node.base.type, ir.Named):
            return self._array_element(node)
        assert isinstance(node.base.type, ir.Stack)
        if not _is_place(node.base):
            return self._element_of(self.value(node.base), node)
        stack = self.place(node.base)
        inside, index = self._index(node)
        return self.choose(
            inside,
            lambda: self.places.load(self.places.element(stack, index), self.builder),
            lambda: self.places.zero(node.type),
            node.type,
        )

    def _array_element(self, node: ir.Element) -> Value:
        """Return an element of an array, one chosen after the other."""
        if _is_place(node.base):  # a call in the index may put another there, after the indices before it
            base = self.located(node.base)
            index, array = self.value(node.index), self.value(base)
        else:
            array, index = self.value(node.base), self.value(node.index)
        found = self.places.zero(node.type)
        for number, name in numbered(self.layouts, node):
            is_this = self.builder.icmp_unsigned("==", index, index.type(number))
            found = selected(self.builder, is_this, array.parts[name], found)
        return found

    def _element_of(self, stack: Value, node: ir.Element) -> Value:
        """Return an element of a stack that lies nowhere."""
        assert isinstance(stack, Composite)
        temporary = Place(own_path(f"stack{self._temporary()}"), stack.type)
        self.places.store(temporary, stack, self.builder)
        return self.value(replace(node, base=ir.Name(temporary.path, stack.type)))

    def _index(self, node: ir.Element) -> tuple[Number, Number]:
        """Return whether an element's index is inside its stack, and the index, i32."""
        assert isinstance(node.base.type, ir.Stack)
        assert isinstance(node.index.type, ir.Bits)
        index, width = self.value(node.index), node.index.type.width
        size = node.base.type.size
        if size >> width - node.index.type.signed:  # every value but a negative one is inside
            inside = BIT(1)
            if node.index.type.signed:
                inside = self.builder.icmp_signed(">=", index, index.type(0))
        else:
            inside = self.builder.icmp_unsigned("<", index, index.type(size))
        if width < 32:
            return inside, self.builder.zext(index, INDEX)
        return inside, self._truncated(index, 32)

    # Places

    def place(self, node: ir.Expression) -> Place:
        """Return where an lvalue lies; elements must be known to be inside (see `store`)."""
        match node:
            case ir.Name(name, kind):
                return Place(name, kind)
            case ir.Member(base, name, kind):
                return self.place(base).part(name, kind)
            case ir.StackPlace(stack, last, _):
                assert isinstance(stack.type, ir.Stack)
                upcoming = self._next_index(stack)
                index = self.builder.sub(upcoming, INDEX(1)) if last else upcoming
                self._reject_unless(self.builder.icmp_unsigned("<", index, INDEX(stack.type.size)))
                return self.places.element(self.place(stack), index)
            case ir.Element(base, ir.Constant(number, _), _):
                assert isinstance(base.type, ir.Stack)
                return self.places.element(self.place(base), INDEX(number))
            case ir.Element(base, _, _):
                _, index = self._index(node)
                return self.places.element(self.place(base), index)
        raise NotCompiled(f"a place in {type(node).__name__}")

    def store(self, target: ir.Expression, value: Value) -> None:
        """Store a value in what an lvalue names; outside a stack or array nothing is stored."""
        if array_element(target) is not None:
            self._store_in_array(self.located(target), value)
            return
        elements = [node for node in path_of(target) if isinstance(node, ir.Element)]
        guards = [self._index(node)[0] for node in elements]
        after = None
        if guards:
            inside, after = self.block("inside"), self.block("stored")
            condition = guards[0]
            for guard in guards[1:]:
                condition = self.builder.and_(condition, guard)
            self.builder.cbranch(condition, inside, after)
            self.builder.position_at_end(inside)
        self._store(target, value)
        if after is not None:
            self.go(after)

    def _store_in_array(self, target: ir.Expression, value: Value, chosen: Number = None) -> None:
        """Store in each place that an lvalue may name a value, or what it holds: branches would be many."""
        element = array_element(target)
        assert element is not None
        index = self.value(element.index)
        for number, name in numbered(self.layouts, element):
            is_this = self.builder.icmp_unsigned("==", index, index.type(number))
            if chosen is not None:
                is_this = self.builder.and_(chosen, is_this)
            place = with_field(target, element, name)
            if array_element(place) is not None:
                self._store_in_array(place, value, is_this)
            else:
                self.store(place, selected(self.builder, is_this, value, self.value(place)))

    def _store(self, target: ir.Expression, value: Value) -> None:
        if isinstance(target, ir.Slice):
            whole = self.value(target.base)
            width = target.high - target.low + 1
            mask = ((1 << width) - 1) << target.low
            moved = self.builder.shl(self.builder.zext(value, whole.type), whole.type(target.low))
            if width == whole.type.width:
                moved = value
            kept = self.builder.and_(whole, whole.type(~mask & (1 << whole.type.width) - 1))
            self._store(target.base, self.builder.or_(kept, moved))
            return
        place = self.place(target)
        self.places.store(place, value, self.builder)
        if isinstance(target, ir.Member) and self.places.is_union(target.base.type):
            assert isinstance(value, Composite)
            self.set_union_valid(self.place(target.base), target.field, value.parts[VALID])

    def set_union_valid(self, union: Place, name: str, valid: Number) -> None:
        """Make a header of a union valid, the others not; or all not."""
        for part in self.places.fields(union.type):
            flag = valid if part.name == name else BIT(0)
            header = union.part(part.name, part.type)
            self.places.store(header.part(VALID, ir.BOOL), flag, self.builder)

    def located(self, target: ir.Expression) -> ir.Expression:
        """Return an lvalue whose indices lie in temporaries, so that it means the same place later."""
        match target:
            case ir.Member(base, _, _) | ir.Slice(base, _, _, _):
                return replace(target, base=self.located(base))
            case ir.Element(base, ir.Constant(), _):
                return replace(target, base=self.located(base))
            case ir.Element(base, index, _):
                located = self.located(base)
                kept = Place(own_path(f"index{self._temporary()}"), index.type)
                self.places.store(kept, self.value(index), self.builder)
                return replace(target, base=located, index=ir.Name(kept.path, kept.type))
            case ir.StackPlace(stack, last, kind):
                self.place(target)  # ends the parser where there is no such element
                number = ir.Bits(32, True)
                kept = Place(own_path(f"index{self._temporary()}"), number)
                upcoming = self._next_index(stack)
                self.places.store(kept, self.builder.sub(upcoming, INDEX(int(last))), self.builder)
                return ir.Element(self.located(stack), ir.Name(kept.path, number), kind)
        return target

    def _constant_place(self, node: ir.Expression) -> Place | None:
        """Return the place of a path without elements; None if there are some."""
        if any(not isinstance(part, ir.Name | ir.Member) for part in path_of(node)):
            return None
        return self.place(node)

    def _next_index(self, stack: ir.Expression) -> Number:
        place = self.place(stack).part(NEXT, ir.Bits(32))
        return self.places.load(place, self.builder)

    def _reject_unless(self, condition: Number) -> None:
        inside, outside = self.block("inside"), self.block("outside")
        self.builder.cbranch(condition, inside, outside)
        self.builder.position_at_end(outside)
        self.reject(INDEX(STACK_OUT_OF_BOUNDS))
        self.builder.position_at_end(inside)

    # Composite values

    def is_valid(self, value: Value) -> Number:
        """Return whether a header is valid, or one of a union's."""
        assert isinstance(value, Composite)
        if self.places.is_header(value.type):
            return value.parts[VALID]
        valid = BIT(0)
        for header in value.parts.values():
            valid = self.builder.or_(valid, header.parts[VALID])
        return valid

    def _struct(self, fields: tuple[ir.Expression, ...], kind: ir.Type) -> Composite:
        value = Composite(kind)
        if self.places.is_header(kind):
            value.parts[VALID] = BIT(1)
        for part, node in zip(self.places.fields(kind), fields, strict=True):
            value.parts[part.name] = self.value(node)
        return value

    def equal(self, left: Value, right: Value) -> Number:
        """Return whether two values of one type are equal, as i1."""
        if not isinstance(left, Composite):
            return self.builder.icmp_unsigned("==", left, right)
        same = BIT(1)
        for name, part in left.parts.items():
            if name not in (VALID, NEXT):
                same = self.builder.and_(same, self.equal(part, right.parts[name]))
        if VALID in left.parts:
            mine, other = left.parts[VALID], right.parts[VALID]
            neither = self.builder.not_(self.builder.or_(mine, other))
            both = self.builder.and_(self.builder.and_(mine, other), same)
            return self.builder.or_(neither, both)
        return same

    # Operators

    def _binary(self, node: ir.Binary) -> Number:
        op, left_node, right_node = node.op, node.left, node.right
        if op in arithmetic.LOGICAL:
            left = self.value(left_node)
            return self.choose(
                left,
                (lambda: self.value(right_node)) if op == "&&" else (lambda: BIT(1)),
                (lambda: BIT(0)) if op == "&&" else (lambda: self.value(right_node)),
                ir.BOOL,
            )
        left, right = self.value(left_node), self.value(right_node)
        if op in ("==", "!="):
            same = self.equal(left, right)
            return same if op == "==" else self.builder.not_(same)
        assert isinstance(left_node.type, ir.Bits)
        assert isinstance(right_node.type, ir.Bits)
        signed = left_node.type.signed
        if op in arithmetic.COMPARISONS:
            compare = self.builder.icmp_signed if signed else self.builder.icmp_unsigned
            return compare(op, left, right)
        if op in arithmetic.SHIFTS:
            return self._shift(op, left, right, signed)
        if op == arithmetic.CONCATENATION:
            assert isinstance(node.type, ir.Bits)
            kind = number_type(node.type)
            if left_node.type == NO_BITS:
                return self.builder.zext(right, kind)
            upper = self.builder.shl(self.builder.zext(left, kind), kind(right_node.type.width))
            return self.builder.or_(upper, self.builder.zext(right, kind))
        return self._arithmetic(op, left, right, signed)

    def _arithmetic(self, op: str, left: Number, right: Number, signed: bool) -> Number:
        builder = self.builder
        match op:
            case "+":
                return builder.add(left, right)
            case "-":
                return builder.sub(left, right)
            case "*":
                return builder.mul(left, right)
            case "&":
                return builder.and_(left, right)
            case "|":
                return builder.or_(left, right)
            case "^":
                return builder.xor(left, right)
            case "|+|" | "|-|":
                name = f"llvm.{'s' if signed else 'u'}{'add' if op == '|+|' else 'sub'}.sat"
                kind = llvm.FunctionType(left.type, [left.type, left.type])
                return builder.call(builder.module.declare_intrinsic(name, [left.type], kind), [left, right])
        return quotient(builder, op, left, right, signed)

    def _shift(self, op: str, left: Number, right: Number, signed: bool) -> Number:
        builder, kind, width = self.builder, left.type, left.type.width
        if width >> right.type.width:  # the amount is always less than the width
            too_far = BIT(0)
        else:
            too_far = builder.icmp_unsigned(">=", right, right.type(width))
        amount = builder.zext(right, kind) if right.type.width < width else self._truncated(right, width)
        amount = builder.select(too_far, kind(0), amount)
        if op == "<<":
            return builder.select(too_far, kind(0), builder.shl(left, amount))
        if not signed:
            return builder.select(too_far, kind(0), builder.lshr(left, amount))
        sign = builder.ashr(left, kind(width - 1))
        return builder.select(too_far, sign, builder.ashr(left, amount))

    def resized(self, number: Number, source: ir.Type, target: ir.Type) -> Number:
        """Return a number cut off or extended, by the sign where its type has one."""
        width, wanted = width_of(source), width_of(target)
        if wanted <= width:
            return self._truncated(number, wanted)
        signed = isinstance(source, ir.Bits) and source.signed
        kind = llvm.IntType(wanted)
        return self.builder.sext(number, kind) if signed else self.builder.zext(number, kind)

    def _truncated(self, number: Number, width: int) -> Number:
        if not width:
            return BIT(0)
        return number if number.type.width == width else self.builder.trunc(number, llvm.IntType(width))


def _is_place(node: ir.Expression) -> bool:
    """Return whether an expression names a variable or a part of one."""
    return isinstance(path_of(node)[-1], ir.Name)


def path_of(node: ir.Expression) -> list[ir.Expression]:
    """Return an lvalue and what it is a part of, down to the variable."""
    path = [node]
    while isinstance(path[-1], ir.Member | ir.Element | ir.StackPlace | ir.Slice):
        last = path[-1]
        path.append(last.stack if isinstance(last, ir.StackPlace) else last.base)
    return path
