# SPDX-License-Identifier: Apache-2.0
"""Frames in a kernel: headers out of bytes and back, the parser, the deparser."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import MAX_STATES, ir, width_of

from .expressions import path_of
from .not_compiled import NotCompiled
from .paths import own_path
from .places import BIT, INDEX, NEXT, NO_BITS, VALID, WORD, Composite, Number, Place, Value
from .statements import Ends, Statements

BYTE = llvm.IntType(8)
_RUN_BITS = 64
TOO_SHORT, HEADER_TOO_SHORT, _NO_MATCH, _TIMEOUT, INVALID = (
    ir.CORE_ERRORS.index(name)
    for name in ("PacketTooShort", "HeaderTooShort", "NoMatch", "ParserTimeout", "ParserInvalidArgument")
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A number in a header: the path to it, its type, and where its first bit lies."""

    path: tuple[str, ...]
    type: ir.Type
    offset_bits: int


class Packets(Statements):
    """Statements of parsers and deparsers; `frame` is the frame's address, `length` its bytes (i64)."""

    frame: Number
    length: Number
    rejected: Any = None

    @property
    def cursor(self) -> Any:  # noqa: ANN401
        """The address of the parser's cursor, in bytes (i64)."""
        return self.places.slot(Place(own_path("cursor"), ir.Bits(64)), self.builder)

    @property
    def error(self) -> Any:  # noqa: ANN401
        """The address of the error that the parser has ended in (i32)."""
        return self.places.slot(Place(own_path("error"), ir.Bits(32)), self.builder)

    def packet_length(self) -> Number:
        """Return the bytes of the packet, i32."""
        return self.builder.trunc(self.length, INDEX)

    # Layout

    def leaves(self, kind: ir.Type) -> list[Leaf]:
        """Return the numbers and varbits of a header, stack or struct in wire order; a varbit has no bits."""
        found: list[Leaf] = []
        offset_bits = 0
        pending: list[tuple[tuple[str, ...], ir.Type]] = [((), kind)]
        while pending:
            path, part = pending.pop(0)
            if isinstance(part, ir.Named):
                inner = [((*path, item.name), item.type) for item in self.layouts.fields(part)]
                pending = [*inner, *pending]
            elif isinstance(part, ir.Stack):
                element = ir.Named(part.element)
                pending = [*(((*path, str(place)), element) for place in range(part.size)), *pending]
            else:
                found.append(Leaf(path, part, offset_bits))
                offset_bits += 0 if isinstance(part, ir.Varbit) else width_of(part)
        return found

    @staticmethod
    def runs(leaves: Sequence[Leaf], only: Container[tuple[str, ...]] | None = None) -> list[list[Leaf]]:
        """Return leaves that have bits in groups of whole bytes, as long as 64 bits where they can be.

        `only`: paths of leaves; bytes that have nothing of any of these are in no group.
        """
        pieces: list[list[Leaf]] = [[]]
        for leaf in leaves:  # first the shortest groups of whole bytes
            if leaf.type == NO_BITS:
                continue
            if pieces[-1] and leaf.offset_bits % 8 == 0:
                pieces.append([])
            pieces[-1].append(leaf)
        groups: list[list[Leaf]] = []
        for piece in pieces:
            if not piece or (only is not None and not any(leaf.path in only for leaf in piece)):
                continue
            joined = [*groups[-1], *piece] if groups else piece
            if groups and _end(groups[-1]) == piece[0].offset_bits and _bits(joined) <= _RUN_BITS:
                groups[-1] = joined
            else:
                groups.append(piece)
        return groups

    # Bytes

    def address(self, base: Number, offset: Number | int) -> Number:
        """Return the i64 address `offset` bytes behind another."""
        return self.builder.add(base, WORD(offset) if isinstance(offset, int) else offset)

    def at(self, address: Number, offset: int) -> Any:  # noqa: ANN401
        """Return a pointer to the 64-bit word `offset` bytes behind an address."""
        return self.builder.inttoptr(self.address(address, offset), WORD.as_pointer())

    def buffer(self, name: str, words: int) -> Any:  # noqa: ANN401
        """Return a pointer to words in the function's own memory."""
        with self.builder.goto_entry_block():
            return self.builder.alloca(WORD, words, f"{name}.{self._temporary()}")

    def _number(self, pointer: Any) -> Number:  # noqa: ANN401
        return self.builder.ptrtoint(pointer, WORD)

    def load_bytes(self, address: Number, count: int) -> Number:
        """Return `count` bytes in network order as a number of 8 * count bits."""
        whole = llvm.IntType(8 * count)
        result: Number = whole(0)
        for offset, size in _chunks(count):
            kind = llvm.IntType(8 * size)
            pointer = self.builder.inttoptr(self.address(address, offset), kind.as_pointer())
            piece = self.builder.load(pointer, align=1)
            piece = self.builder.bswap(piece) if size > 1 else piece
            shift = 8 * (count - offset - size)
            piece = self.builder.zext(piece, whole)
            result = self.builder.or_(result, self.builder.shl(piece, whole(shift)) if shift else piece)
        return result

    def store_bytes(self, address: Number, number: Number, count: int) -> None:
        """Store a number of 8 * count bits in network order."""
        for offset, size in _chunks(count):
            kind = llvm.IntType(8 * size)
            shift = 8 * (count - offset - size)
            piece = self.builder.lshr(number, number.type(shift)) if shift else number
            piece = self.builder.trunc(piece, kind)
            piece = self.builder.bswap(piece) if size > 1 else piece
            pointer = self.builder.inttoptr(self.address(address, offset), kind.as_pointer())
            self.builder.store(piece, pointer, align=1)

    def unpacked(self, kind: ir.Type, address: Number) -> Value:
        """Return a number, or a header, stack or struct, from the bytes at an address; headers are valid."""
        leaves = self.leaves(kind)
        numbers: dict[tuple[str, ...], Number] = {
            leaf.path: BIT(0) for leaf in leaves if leaf.type == NO_BITS
        }
        for run in self.runs(leaves):
            first = run[0].offset_bits
            count = -(-_bits(run) // 8)
            whole = self.load_bytes(self.address(address, first // 8), count)
            for leaf in run:
                width = width_of(leaf.type)
                shift = 8 * count - (leaf.offset_bits - first) - width
                moved = self.builder.lshr(whole, whole.type(shift)) if shift else whole
                numbers[leaf.path] = self._truncated(moved, width)
        return self._assembled(kind, (), numbers)

    def _assembled(
        self, kind: ir.Type, path: tuple[str, ...], numbers: dict[tuple[str, ...], Number]
    ) -> Value:
        if isinstance(kind, ir.Stack):
            stack = Composite(kind, {NEXT: INDEX(0)})
            for place in map(str, range(kind.size)):
                stack.parts[place] = self._assembled(ir.Named(kind.element), (*path, place), numbers)
            return stack
        if not isinstance(kind, ir.Named):
            return numbers[path]
        value = Composite(kind, {VALID: BIT(1)} if self.places.is_header(kind) else {})
        for part in self.layouts.fields(kind):
            value.parts[part.name] = self._assembled(part.type, (*path, part.name), numbers)
        return value

    def pack(
        self, kind: ir.Type, value: Value, address: Number, only: frozenset[tuple[str, ...]] | None = None
    ) -> int:
        """Store the bytes of a header or struct, or `only` those around some numbers; return how many."""
        leaves = self.leaves(kind)
        for run in self.runs(leaves, only):
            first, bits = run[0].offset_bits, _bits(run)
            count = -(-bits // 8)
            whole = llvm.IntType(8 * count)
            number: Number = whole(0)
            for leaf in run:
                part: Value = value
                for name in leaf.path:
                    part = part.parts[name]
                shift = 8 * count - (leaf.offset_bits - first) - width_of(leaf.type)
                piece = self.builder.zext(part, whole)
                number = self.builder.or_(number, self.builder.shl(piece, whole(shift)) if shift else piece)
            self.store_bytes(self.address(address, first // 8), number, count)
        return -(-_bits(leaves) // 8)

    def bytes_of(self, kind: ir.Type) -> int:
        """Return the bytes that a header takes."""
        return -(-_bits(self.leaves(kind)) // 8)

    def header_bytes(self, header: Composite) -> Number:
        """Return the bytes that a header's value takes, i64."""
        return WORD(self.bytes_of(header.type))

    # Parser

    def parse(self) -> None:
        """Make the parser; it goes on where it accepts, and at `rejected` with `error` where it does not."""
        parser, builder = self.program.parser, self.builder
        builder.store(WORD(0), self.cursor)
        self.rejected, stuck = self.block("rejected"), self.block("parser_stuck")
        outer, self.ends = self.ends, Ends(stuck=stuck)
        self.body(parser.prologue)
        accepted = self.block("accept")
        blocks = {state.name: self.block(f"state.{state.name}") for state in parser.states}
        blocks[ir.ACCEPT] = accepted
        blocks[ir.REJECT] = self.block("reject")
        counted = len(parser.states) >= MAX_STATES or can_repeat(parser)
        if counted:
            builder.store(INDEX(0), self._passed)
        builder.branch(blocks[parser.start])
        for state in parser.states:
            builder.position_at_end(blocks[state.name])
            if counted:
                self._count_state()
            self.body(state.body)
            if not builder.block.is_terminated:
                self._transition(state.transition, blocks)
        builder.position_at_end(blocks[ir.REJECT])
        self.reject(INDEX(0))
        builder.position_at_end(stuck)
        self.reject(INDEX(_TIMEOUT))
        self.ends = outer
        builder.position_at_end(accepted)

    @property
    def _passed(self) -> Any:  # noqa: ANN401
        return self.places.slot(Place(own_path("states"), ir.Bits(32)), self.builder)

    def _count_state(self) -> None:
        slot, going = self._passed, self.block("state")
        passed = self.builder.add(self.builder.load(slot), INDEX(1))
        self.builder.store(passed, slot)
        too_many = self.builder.icmp_unsigned(">", passed, INDEX(MAX_STATES))
        self.builder.cbranch(too_many, self.ends.stuck, going)
        self.builder.position_at_end(going)

    def reject(self, error: Number) -> None:
        """End the parser with an error."""
        self.builder.store(error, self.error)
        self.builder.branch(self.rejected)

    def reject_if(self, condition: Number, error: int) -> None:
        """End the parser with an error where a condition holds."""
        wrong, right = self.block("wrong"), self.block("right")
        self.builder.cbranch(condition, wrong, right)
        self.builder.position_at_end(wrong)
        self.reject(INDEX(error))
        self.builder.position_at_end(right)

    def _transition(self, transition: ir.Transition, blocks: dict[str, Any]) -> None:
        if isinstance(transition, ir.Goto):
            self.builder.branch(blocks[transition.state])
            return
        values = [self.value(key) for key in transition.keys]
        cases = list(transition.cases)
        while cases:
            exact: dict[int, ir.SelectCase] = {}
            while cases and (number := _number_of(cases[0], values)) is not None:
                exact.setdefault(number, cases.pop(0))
            if exact:
                self._choose(values, exact, blocks)
            else:
                self._try(values, cases.pop(0), blocks)
        self.reject(INDEX(_NO_MATCH))

    def _choose(self, values: list[Number], cases: dict[int, ir.SelectCase], blocks: dict[str, Any]) -> None:
        """Go where the case of a number says that all keys are together; go on behind if there is none."""
        kind = llvm.IntType(sum(value.type.width for value in values))
        whole: Number = kind(0)
        for value in values:
            if value.type.width < kind.width:
                whole = self.builder.shl(whole, kind(value.type.width))
                value = self.builder.zext(value, kind)
            whole = self.builder.or_(whole, value)
        further = self.block("select")
        chosen = self.builder.switch(whole, further)
        for number, case in cases.items():
            chosen.add_case(kind(number), blocks[case.state])
        self.builder.position_at_end(further)

    def _try(self, values: list[Number], case: ir.SelectCase, blocks: dict[str, Any]) -> None:
        """Go where a case says if it fits, and go on behind if it does not."""
        taken = BIT(1)
        if isinstance(case.keysets[0], ir.KeyInSet) and len(case.keysets) == 1:
            taken = self.in_value_set(case.keysets[0].value_set, values)
        else:
            for keyset, value in zip(case.keysets, values, strict=True):
                taken = self.builder.and_(taken, self._fits(keyset, value))
        further = self.block("select")
        self.builder.cbranch(taken, blocks[case.state], further)
        self.builder.position_at_end(further)

    def _fits(self, keyset: ir.Keyset, value: Number) -> Number:
        builder, kind = self.builder, value.type
        match keyset:
            case ir.KeyMask(wanted, mask):
                ones = (1 << kind.width) - 1
                masked = builder.and_(value, kind(mask & ones)) if mask & ones != ones else value
                return builder.icmp_unsigned("==", masked, kind(wanted & mask & ones))
            case ir.KeyRange(low, high):
                above = builder.icmp_unsigned(">=", value, kind(low))
                return builder.and_(above, builder.icmp_unsigned("<=", value, kind(high)))
            case ir.KeyAny():
                return BIT(1)
            case ir.KeyInSet(name):
                return self.in_value_set(name, [value])

    def in_value_set(self, name: str, values: list[Number]) -> Number:
        """Return whether a value set holds these values, one for each of its fields, as i1."""
        raise NotImplementedError

    def packet_statement(self, node: ir.Statement) -> None:
        """Make extract, advance, verify or emit."""
        match node:
            case ir.Extract(header):
                self._extract(header)
            case ir.ExtractVarbit():
                self.extract_varbit(node)
            case ir.Advance(bits):
                self._advance(self.value(bits))
            case ir.Verify(condition, error):
                self._verify(condition, error)
            case ir.Emit(value):
                self.emit(self.value(value))
            case _:
                raise NotCompiled(f"it has a {type(node).__name__}")

    def extract_varbit(self, node: ir.ExtractVarbit) -> None:
        """Take a header with a varbit of some bits."""
        raise NotImplementedError

    def emit(self, value: Value) -> None:
        """Append the valid headers in a value to what is emitted."""
        raise NotImplementedError

    def _taken(self, count: int) -> Number:
        """Return the address of the next `count` bytes; the parser ends where there are not so many."""
        at = self.builder.load(self.cursor)
        end = self.builder.add(at, WORD(count))
        self.reject_if(self.builder.icmp_unsigned(">", end, self.length), TOO_SHORT)
        return self.address(self.frame, at)

    def _extract(self, header: ir.Expression) -> None:
        at = self.builder.load(self.cursor)
        target = self.located(header)
        count = self.bytes_of(header.type)
        self.store(target, self.unpacked(header.type, self._taken(count)))
        self.count_extracted(header)
        if (kept := self.kept_place(header)) is not None:
            self.builder.store(self.address(self.frame, at), self.taken_from(kept))
        self.builder.store(self.builder.add(at, WORD(count)), self.cursor)

    def count_extracted(self, header: ir.Expression) -> None:
        """Count the elements of stacks that a header was extracted into."""
        for node in path_of(header):
            if isinstance(node, ir.StackPlace) and not node.last:
                upcoming = self.place(node.stack).part(NEXT, ir.Bits(32))
                number = self.places.load(upcoming, self.builder)
                self.places.store(upcoming, self.builder.add(number, INDEX(1)), self.builder)

    def look_ahead(self, kind: ir.Type) -> Value:
        """Return a value at the cursor, which stays."""
        if any(isinstance(leaf.type, ir.Varbit) for leaf in self.leaves(kind)):
            raise NotCompiled("it looks ahead at a varbit")
        count = -(-_bits(self.leaves(kind)) // 8)
        return self.unpacked(kind, self._taken(count))

    def _advance(self, bits: Number) -> None:
        odd = self.builder.icmp_unsigned("!=", self.builder.and_(bits, INDEX(7)), INDEX(0))
        self.reject_if(odd, INVALID)
        count = self.builder.zext(self.builder.lshr(bits, INDEX(3)), WORD)
        end = self.builder.add(self.builder.load(self.cursor), count)
        self.reject_if(self.builder.icmp_unsigned(">", end, self.length), TOO_SHORT)
        self.builder.store(end, self.cursor)

    def _verify(self, condition: ir.Expression, error: ir.Expression) -> None:
        holds, fails, on = self.value(condition), self.block("fails"), self.block("holds")
        self.builder.cbranch(holds, on, fails)
        self.builder.position_at_end(fails)
        self.reject(self.value(error))
        self.builder.position_at_end(on)

    # What a header still is

    def taken_from(self, path: str) -> Any:  # noqa: ANN401
        """The address of the address at which the parser took a header, 0 if it did not (i64)."""
        return self.places.slot(Place(own_path(f"taken.{path}"), ir.Bits(64)), self.builder)

    def forget_origin(self, header: ir.Expression) -> None:
        """Say that the parser has not taken a header."""
        path = self.kept_place(header)
        if path is not None:
            self.builder.store(WORD(0), self.taken_from(path))

    def kept_place(self, header: ir.Expression) -> str | None:
        """Return the path of a header that is no part of a stack or union, None for others."""
        path = path_of(header)
        if not all(isinstance(node, ir.Name | ir.Member) for node in path):
            return None
        if any(isinstance(node, ir.Member) and self.places.is_union(node.base.type) for node in path):
            return None
        return self.place(header).path


def _bits(leaves: Sequence[Leaf]) -> int:
    return sum(width_of(leaf.type) for leaf in leaves)


def _end(leaves: Sequence[Leaf]) -> int:
    """Return the bit behind the last leaf."""
    return leaves[-1].offset_bits + width_of(leaves[-1].type)


def _chunks(count: int) -> list[tuple[int, int]]:
    """Return offsets and sizes of 8, 4, 2 or 1 bytes that make up `count` bytes."""
    chunks, offset = [], 0
    for size in (8, 4, 2, 1):
        while count - offset >= size:
            chunks.append((offset, size))
            offset += size
    return chunks


def _number_of(case: ir.SelectCase, values: Sequence[Number]) -> int | None:
    """Return the one number that all keys of a case are together, the first one's bits above; else None."""
    number = 0
    for keyset, value in zip(case.keysets, values, strict=False):
        ones = (1 << value.type.width) - 1
        if not isinstance(keyset, ir.KeyMask) or keyset.mask & ones != ones:
            return None
        number = number << value.type.width | keyset.value & ones
    return number


def states_behind(transition: ir.Transition) -> list[str]:
    """Return the states to which a transition may go."""
    if isinstance(transition, ir.Goto):
        return [transition.state]
    return [case.state for case in transition.cases]


def can_repeat(parser: ir.Parser) -> bool:
    """Return whether a parser can come to a state again."""
    following = {state.name: states_behind(state.transition) for state in parser.states}
    finished: set[str] = set()
    for root in following:
        path, pending = [root], [iter(following[root])]
        while path:
            upcoming = next(pending[-1], None)
            if upcoming is None:
                finished.add(path.pop())
                pending.pop()
            elif upcoming in path:
                return True
            elif upcoming in following and upcoming not in finished:
                path.append(upcoming)
                pending.append(iter(following[upcoming]))
    return False
