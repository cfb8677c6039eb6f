# SPDX-License-Identifier: Apache-2.0
"""Deparsers in a kernel: headers become bytes just before the payload, which stays where it is.

Where a deparser does nothing but emit, it is known what leaves before the first byte is written, so each
header goes straight to its place, and one that is there already stays. If all surely do, only numbers that
the program may change are written. Any other deparser emits into the room before the frame, and what it has
emitted is moved when it has ended.
Source: P4-16 Language Specification 1.2.5, "Packet construction (deparsing)".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicemu.pipeline import MAX_EMITTED_BYTES, ir, nodes_of

from .paths import own_path, part_path
from .places import VALID, WORD, Composite, Number, Place, Value
from .records import OVERSIZED
from .statements import Ends
from .varbits import Varbits
from .writes import EVERYTHING, written_in

_EMITTING = (
    ir.Emit,
    ir.Loop,
    ir.ForRange,
    ir.CallRoutine,
    ir.Call,
    ir.CallAction,
    ir.ApplyTable,
    ir.TableApply,
    ir.SwitchAction,
)
"""What may emit, or hold or call what does."""
_CALLS = (ir.Call, ir.ExternValue, ir.TableApply)
"""What a value may call."""


class Deparsing(Varbits):
    """What is emitted; the number `emitted` is the address behind it (i64)."""

    stays = False
    """Whether all headers that leave surely lie where they came."""

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments)
        self.paths: dict[int, str] = {}
        self.written = written_in(self.program)
        self._room = 0
        self._most: dict[str, int] = {}
        self._is_limited = False

    def forget_origins(self) -> None:
        """Say of all headers that the parser has not taken them."""
        for variable in self.program.variables:
            pending: list[tuple[str, ir.Type]] = [(variable.name, variable.type)]
            while pending:
                path, kind = pending.pop()
                if self.places.is_header(kind):
                    self.builder.store(WORD(0), self.taken_from(path))
                elif isinstance(kind, ir.Named) and not self.places.is_union(kind):
                    pending += [(part_path(path, part.name), part.type) for part in self.places.fields(kind)]

    def _emit_at(self, header: Composite, at: Number) -> int:
        """Store the bytes of a header; where it came from there, only those that the program may change."""
        path = self.paths.get(id(header))
        written = self.written.get(path, frozenset()) if path is not None else None
        if path is None or written is None or written is EVERYTHING or self.has_varbit(header.type):
            return self.pack(header.type, header, at)
        same, other, after = self.block("stayed"), self.block("moved"), self.block("stored")
        origin = self.builder.load(self.taken_from(path))
        self.builder.cbranch(self.builder.icmp_unsigned("==", origin, at), same, other)
        self.builder.position_at_end(same)
        self.pack(header.type, header, at, written)
        self.builder.branch(after)
        self.builder.position_at_end(other)
        count = self.pack(header.type, header, at)
        self.builder.branch(after)
        self.builder.position_at_end(after)
        return count

    def _write_back(self, header: Composite) -> None:
        """Store the numbers that the program may have changed in a header that lies where it came."""
        path = self.paths.get(id(header))
        written = self.written.get(path) if path is not None else None
        if path is None or not written:
            return
        present, after = self.block("emit"), self.block("emitted")
        self.builder.cbranch(header.parts[VALID], present, after)
        self.builder.position_at_end(present)
        at = self.builder.load(self.taken_from(path))
        whole = written is EVERYTHING or self.has_varbit(header.type)
        self.pack(header.type, header, at, None if whole else written)
        self.builder.branch(after)
        self.builder.position_at_end(after)

    def name_headers(self, node: ir.Expression, value: Value) -> None:
        """Remember which headers the parts of an emitted value are."""
        if isinstance(value, Composite) and not isinstance(node.type, ir.Stack):
            if self.places.is_header(node.type):
                path = self.kept_place(node)
                if path is not None:
                    self.paths[id(value)] = path
            elif not self.places.is_union(node.type):
                for part in self.places.fields(node.type):
                    self.name_headers(ir.Member(node, part.name, part.type), value.parts[part.name])

    def headers_in(self, value: Value) -> list[Composite]:
        """Return the headers in what is emitted, in order."""
        assert isinstance(value, Composite)
        if isinstance(value.type, ir.Stack):
            elements = [value.parts[str(number)] for number in range(value.type.size)]
            return [header for element in elements for header in self.headers_in(element)]
        if self.places.is_header(value.type):
            return [value]
        parts = (value.parts[part.name] for part in self.places.fields(value.type))
        return [header for part in parts for header in self.headers_in(part)]

    def most_bytes(self, kind: ir.Type) -> int:
        """Return the bytes that a value of a type can have at most when it is emitted."""
        if isinstance(kind, ir.Stack):
            return kind.size * self.most_bytes(ir.Named(kind.element))
        if self.places.is_header(kind):
            return self.bytes_of(kind)
        return sum(self.most_bytes(part.type) for part in self.places.fields(kind))

    @property
    def _emitted(self) -> Any:  # noqa: ANN401
        return self.places.slot(Place(own_path("emitted"), ir.Bits(64)), self.builder)

    def emit(self, value: Value) -> None:
        """Append the valid headers in a value to what is emitted; the packet is dropped where it is too much.

        There is room for `headroom_bytes` of the deparser.
        """
        for header in self.headers_in(value):
            present, after = self.block("emit"), self.block("emitted")
            self.builder.cbranch(header.parts[VALID], present, after)
            self.builder.position_at_end(present)
            at = self.builder.load(self._emitted)
            if self._is_limited:
                end = self.builder.add(self.header_bytes(header), at)
                limit = self.builder.sub(self.frame, WORD(self._room - MAX_EMITTED_BYTES))
                self.give_up_if(self.builder.icmp_unsigned(">", end, limit), OVERSIZED)
            self._emit_at(header, at)
            self.builder.store(self.address(at, self.header_bytes(header)), self._emitted)
            self.builder.branch(after)
            self.builder.position_at_end(after)

    def deparse(self, body: Sequence[ir.Statement]) -> tuple[Number, Number]:
        """Make the deparser; return the address and length (i64) of the frame that leaves."""
        if not emits_alone(body):
            return self._deparse_into_room(body)
        values = [self.value(node.value) for node in body if isinstance(node, ir.Emit)]
        for node, value in zip(body, values, strict=True):
            assert isinstance(node, ir.Emit)
            self.name_headers(node.value, value)
        if self.stays:
            for header in (header for value in values for header in self.headers_in(value)):
                self._write_back(header)
            return self.frame, self.length
        total: Number = WORD(0)
        for header in (header for value in values for header in self.headers_in(value)):
            count = self.header_bytes(header)
            total = self.builder.add(total, self.builder.select(header.parts[VALID], count, WORD(0)))
        if sum(self.most_bytes(value.type) for value in values) > MAX_EMITTED_BYTES:
            self.give_up_if(self.builder.icmp_unsigned(">", total, WORD(MAX_EMITTED_BYTES)), OVERSIZED)
        parsed = self.builder.load(self.cursor)
        start = self.builder.sub(self.address(self.frame, parsed), total)
        self.builder.store(start, self._emitted)
        for value in values:
            self.emit(value)
        left = self.builder.sub(self.length, parsed)
        return start, self.builder.add(total, left)

    def _deparse_into_room(self, body: Sequence[ir.Statement]) -> tuple[Number, Number]:
        self._room = self.headroom_bytes(body)
        self._is_limited = self._room == MAX_EMITTED_BYTES
        first = self.builder.sub(self.frame, WORD(self._room))
        self.builder.store(first, self._emitted)
        end, outer = self.block("deparsed"), self.ends
        self.ends = Ends(end, end, stuck=outer.stuck)
        self.body(body)
        self.ends = outer
        self.go(end)
        total = self.builder.sub(self.builder.load(self._emitted), first)
        parsed = self.builder.load(self.cursor)
        start = self.builder.sub(self.address(self.frame, parsed), total)
        self.move_bytes(start, first, total)
        return start, self.builder.add(total, self.builder.sub(self.length, parsed))

    def headroom_bytes(self, body: Sequence[ir.Statement]) -> int:
        """Return how many bytes before the frame a deparser may write."""
        return min(self._most_emitted(tuple(body)), MAX_EMITTED_BYTES)

    def is_only_seen(self, body: Sequence[ir.Statement]) -> bool:
        """Return whether a deparser does nothing that is not seen in what leaves: it emits, and never so much
        that the packet is dropped for that.
        """
        return emits_alone(body) and self._most_emitted(tuple(body)) <= MAX_EMITTED_BYTES

    def _most_emitted(self, nodes: tuple[object, ...]) -> int:
        """Return how many bytes statements and expressions can emit at most, or more than the limit."""
        total = 0
        for node in nodes_of(nodes, *_EMITTING):
            match node:
                case ir.Emit(value):
                    total += self.most_bytes(value.type)
                case ir.CallRoutine(name, _) | ir.Call(name, _, _) | ir.CallAction(name, _):
                    total += self._most_emitted_by(name)
                case ir.ApplyTable(name) | ir.TableApply(name, _, _) | ir.SwitchAction(name, _):
                    table = next(item for item in self.program.tables if item.name == name)
                    total += self._most_emitted((table.keys, table.selector_keys))
                    total += max(
                        self._most_emitted(ref.arguments) + self._most_emitted_by(ref.action)
                        for ref in table.actions
                    )
                case ir.Loop() | ir.ForRange():
                    again = (node.condition, node.update) if isinstance(node, ir.Loop) else ()
                    if self._most_emitted((node.body, again)):
                        return MAX_EMITTED_BYTES + 1
        return min(total, MAX_EMITTED_BYTES + 1)

    def _most_emitted_by(self, name: str) -> int:
        """As `_most_emitted`, of an action or function."""
        if name not in self._most:
            bodies = {item.name: item.body for item in self.program.functions}
            bodies |= {item.name: item.body for item in self.program.actions}
            self._most[name] = self._most_emitted(bodies[name])
        return self._most[name]


def emits_alone(body: Sequence[ir.Statement]) -> bool:
    """Return whether a deparser does nothing but emit, and nothing that is called may emit or change more."""
    return all(isinstance(node, ir.Emit) and not any(nodes_of(node.value, *_CALLS)) for node in body)
