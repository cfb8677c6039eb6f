# SPDX-License-Identifier: Apache-2.0
"""Any value's bits one behind the other, as hashes and checksums take them: without invalid headers.

Numbers that always have their places are moved there at once, and so are those of headers where all of these
are valid; else, and behind a varbit or the header of a union, whose lengths the packet says, everything is
shifted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from llvmlite import ir as llvm

from nicemu.pipeline import ir

from .expressions import path_of
from .not_compiled import NotCompiled
from .places import BIT, LENGTH, NO_BITS, NUMBER, VALID, WORD, Composite, Number, Value
from .value_words import ValueWords

MAX_SHIFTED_BITS = 8192
"""Data of which any part has no place of its own may be as long as this."""


class Piece(NamedTuple):
    """A number in some data.

    `length_bits` (i64) says how many bits it has, None for its whole width; it has none where `valid` (i1)
    is given and false.
    """

    number: Number
    length_bits: Number | None = None
    valid: Number | None = None

    @property
    def width_bits(self) -> int:
        """How many bits it has at most."""
        return int(self.number.type.width)


class PackedBits(ValueWords):
    """Packs values into memory."""

    def packed_bits(self, values: Iterable[ir.Expression]) -> tuple[Number, Number]:
        """Return where the bits of some values lie (i64), filled up with zeros to whole bytes, and how many
        bytes they are (i64). A header that is not valid, and each field that is named of such, has none.
        """
        headers: dict[ir.Expression, Composite] = {}
        pieces = [piece for value in values for piece in self._pieces_of(value, headers)]
        width = sum(piece.width_bits for piece in pieces)
        buffer = self._number(self.buffer("$data", -(-max(width, 1) // 64)))
        conditions = list(
            {id(piece.valid): piece.valid for piece in pieces if piece.valid is not None}.values()
        )
        fixed = all(piece.length_bits is None for piece in pieces)
        if fixed and not conditions:
            self._store_pieces(pieces, buffer)
            return buffer, WORD(-(-width // 8))
        if width > MAX_SHIFTED_BITS:
            raise NotCompiled(f"data of more than {MAX_SHIFTED_BITS} bits have parts of any length")
        if not fixed:
            return buffer, self._store_shifted(pieces, width, buffer)
        return buffer, self._stored_if_valid(pieces, conditions, width, buffer)

    def _stored_if_valid(
        self, pieces: list[Piece], conditions: list[Number], width: int, buffer: Number
    ) -> Number:
        """Store numbers that have their places where all conditions hold; return how many bytes they are."""
        builder = self.builder
        every, some, stored = (self.block(name) for name in ("all_valid", "some_valid", "stored"))
        all_valid = BIT(1)
        for condition in conditions:
            all_valid = builder.and_(all_valid, condition)
        builder.cbranch(all_valid, every, some)
        builder.position_at_end(every)
        self._store_pieces(pieces, buffer)
        builder.branch(stored)
        every = builder.block
        builder.position_at_end(some)
        count = self._store_shifted(pieces, width, buffer)
        builder.branch(stored)
        some = builder.block
        builder.position_at_end(stored)
        length = builder.phi(WORD)
        length.add_incoming(WORD(-(-width // 8)), every)
        length.add_incoming(count, some)
        return length

    def _pieces_of(self, node: ir.Expression, headers: dict[ir.Expression, Composite]) -> Iterator[Piece]:
        """Yield the pieces of a value; `headers` are those of which more may be taken as they are."""
        if isinstance(node, ir.StructValue):
            for part in node.fields:
                yield from self._pieces_of(part, headers)
            return
        names, whole = self._path_in_header(node)
        if not names:
            headers.clear()  # it may be a call
            around = self._header_around(node)
            pieces = self._pieces(node.type, self.value(node))
            yield from pieces if around is None else self._only_valid(self.value(around), pieces)
            return
        header = headers.get(whole)
        if header is None:
            header = self.value(whole)
            if all(isinstance(part, ir.Name | ir.Member) for part in path_of(whole)):
                headers[whole] = header
            else:
                headers.clear()
        value: Value = header
        for name in names:
            value = value.parts[name]
        yield from self._only_valid(header, self._pieces(node.type, value))

    def _path_in_header(self, node: ir.Expression) -> tuple[list[str], ir.Expression]:
        """Return the names that lead to a field from the header that has it, and that; none if none has."""
        names: list[str] = []
        while isinstance(node, ir.Member) and not self.places.is_header(node.type):
            names.insert(0, node.field)
            node = node.base
        return (names, node) if self.places.is_header(node.type) else ([], node)

    def _header_around(self, node: ir.Expression) -> ir.Expression | None:
        """Return the header that an element of an array is in; None if it is in none."""
        while isinstance(node, ir.Member | ir.Element) and not isinstance(node.base.type, ir.Stack):
            node = node.base
            if self.places.is_header(node.type):
                return node
        return None

    def _pieces(self, kind: ir.Type, value: Value) -> Iterator[Piece]:
        if isinstance(kind, ir.Varbit):
            yield Piece(value.parts[NUMBER], self.builder.zext(value.parts[LENGTH], WORD))
        elif isinstance(kind, ir.Stack):
            for number in range(kind.size):
                yield from self._pieces(ir.Named(kind.element), value.parts[str(number)])
        elif not isinstance(kind, ir.Named):
            if kind != NO_BITS:
                yield Piece(value)
        elif self.places.is_union(kind):
            for part in self.places.fields(kind):
                header = value.parts[part.name]
                for piece in self._pieces(part.type, header):
                    yield self._shortened(piece)
        else:
            inside = (
                piece
                for part in self.places.fields(kind)
                for piece in self._pieces(part.type, value.parts[part.name])
            )
            yield from self._only_valid(value, inside) if self.places.is_header(kind) else inside

    def held(self, node: ir.Expression) -> tuple[Number, Number]:
        """Return a number, and whether the header that has it is valid (i1): true where none has."""
        names, whole = self._path_in_header(node)
        if not names:
            return self.value(node), BIT(1)
        header = value = self.value(whole)
        for name in names:
            value = value.parts[name]
        return value, header.parts[VALID]

    @staticmethod
    def _only_valid(header: Composite, pieces: Iterable[Piece]) -> Iterator[Piece]:
        for number, length, _ in pieces:
            yield Piece(number, length, header.parts[VALID])

    def _shortened(self, piece: Piece) -> Piece:
        """Return a piece whose length says whether it is there."""
        number, length, valid = piece
        if valid is None:
            return piece
        length = WORD(piece.width_bits) if length is None else length
        return Piece(
            self.builder.select(valid, number, number.type(0)),
            self.builder.select(valid, length, WORD(0)),
        )

    def _store_pieces(self, pieces: list[Piece], buffer: Number) -> None:
        """Store numbers that have their places, in groups that end with whole bytes where they can."""
        group: list[Number] = []
        at, bits = 0, 0
        for piece in pieces:
            group.append(piece.number)
            bits += piece.width_bits
            if bits % 8 == 0 and bits >= 32:
                self._store_group(group, bits, self.address(buffer, at))
                at, group, bits = at + bits // 8, [], 0
        if group:
            self._store_group(group, bits, self.address(buffer, at))

    def _store_group(self, numbers: list[Number], bits: int, address: Number) -> None:
        count = -(-bits // 8)
        whole = llvm.IntType(8 * count)
        joined: Number = whole(0)
        shift = 8 * count
        for number in numbers:
            shift -= number.type.width
            piece = self.resized(number, ir.Bits(number.type.width), ir.Bits(whole.width))
            joined = self.builder.or_(joined, self.builder.shl(piece, whole(shift)) if shift else piece)
        self.store_bytes(address, joined, count)

    def _joined(self, pieces: list[Piece]) -> list[Piece]:
        """Return pieces of which those of one header, one behind the other, are one."""
        joined: list[Piece] = []
        for piece in pieces:
            before = joined[-1] if joined else None
            if (
                before is None
                or piece.valid is None
                or before.valid is not piece.valid
                or piece.length_bits is not None
                or before.length_bits is not None
            ):
                joined.append(piece)
                continue
            whole = ir.Bits(before.width_bits + piece.width_bits)
            upper = self.resized(before.number, ir.Bits(before.width_bits), whole)
            upper = self.builder.shl(upper, upper.type(piece.width_bits))
            number = self.builder.or_(upper, self.resized(piece.number, ir.Bits(piece.width_bits), whole))
            joined[-1] = Piece(number, None, piece.valid)
        return joined

    def _store_shifted(self, pieces: list[Piece], width: int, buffer: Number) -> Number:
        """Store numbers of any lengths; return how many bytes they are."""
        builder, count = self.builder, -(-width // 8)
        whole = llvm.IntType(8 * count)
        joined: Number = whole(0)
        total: Number = WORD(0)
        for number, length, _ in map(self._shortened, self._joined(pieces)):
            bits = WORD(number.type.width) if length is None else length
            piece = self.resized(number, ir.Bits(number.type.width), ir.Bits(whole.width))
            joined = builder.or_(self.shifted(joined, bits), piece)
            total = builder.add(total, bits)
        joined = self.shifted(joined, builder.sub(WORD(whole.width), total))
        self.store_bytes(buffer, joined, count)
        return builder.lshr(builder.add(total, WORD(7)), WORD(3))
