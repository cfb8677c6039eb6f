# SPDX-License-Identifier: Apache-2.0
"""Any value's bits one behind the other, as hashes and checksums take them.

Numbers that always have their places are moved there at once; behind a varbit or the header of a union, whose
lengths the packet says, everything is shifted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from llvmlite import ir as llvm

from nicemu.pipeline import ir

from .not_compiled import NotCompiled
from .places import LENGTH, NO_BITS, NUMBER, VALID, WORD, Number, Value
from .value_words import ValueWords

MAX_SHIFTED_BITS = 8192
"""Data of which any part has no place of its own may be as long as this."""


class Piece(NamedTuple):
    """A number in some data: `length_bits` (i64) says how many bits it has, None for its whole width."""

    number: Number
    length_bits: Number | None

    @property
    def width_bits(self) -> int:
        """How many bits it has at most."""
        return int(self.number.type.width)


class PackedBits(ValueWords):
    """Packs values into memory."""

    def packed_bits(self, values: Iterable[tuple[ir.Type, Value]]) -> tuple[Number, Number]:
        """Return where the bits of some values lie (i64), filled up with zeros to whole bytes, and how many
        bytes they are (i64).
        """
        pieces = [piece for kind, value in values for piece in self._pieces(kind, value)]
        width = sum(piece.width_bits for piece in pieces)
        buffer = self._number(self.buffer("$data", -(-max(width, 1) // 64)))
        if all(piece.length_bits is None for piece in pieces):
            self._store_pieces(pieces, buffer)
            return buffer, WORD(-(-width // 8))
        if width > MAX_SHIFTED_BITS:
            raise NotCompiled(f"data of more than {MAX_SHIFTED_BITS} bits have parts of any length")
        return buffer, self._store_shifted(pieces, width, buffer)

    def _pieces(self, kind: ir.Type, value: Value) -> Iterator[Piece]:
        if isinstance(kind, ir.Varbit):
            yield Piece(value.parts[NUMBER], self.builder.zext(value.parts[LENGTH], WORD))
        elif isinstance(kind, ir.Stack):
            for number in range(kind.size):
                yield from self._pieces(ir.Named(kind.element), value.parts[str(number)])
        elif not isinstance(kind, ir.Named):
            if kind != NO_BITS:
                yield Piece(value, None)
        elif self.places.is_union(kind):
            for part in self.places.fields(kind):
                header = value.parts[part.name]
                for piece in self._pieces(part.type, header):
                    yield self._only_if(header.parts[VALID], piece)
        else:
            for part in self.places.fields(kind):
                yield from self._pieces(part.type, value.parts[part.name])

    def _only_if(self, condition: Number, piece: Piece) -> Piece:
        """Return a piece that is nothing unless a condition holds."""
        number, length = piece
        length = WORD(piece.width_bits) if length is None else length
        return Piece(
            self.builder.select(condition, number, number.type(0)),
            self.builder.select(condition, length, WORD(0)),
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

    def _store_shifted(self, pieces: list[Piece], width: int, buffer: Number) -> Number:
        """Store numbers of any lengths; return how many bytes they are."""
        builder, count = self.builder, -(-width // 8)
        whole = llvm.IntType(8 * count)
        joined: Number = whole(0)
        total: Number = WORD(0)
        for number, length in pieces:
            bits = WORD(number.type.width) if length is None else length
            piece = self.resized(number, ir.Bits(number.type.width), ir.Bits(whole.width))
            joined = builder.or_(self.shifted(joined, bits), piece)
            total = builder.add(total, bits)
        joined = self.shifted(joined, builder.sub(WORD(whole.width), total))
        self.store_bytes(buffer, joined, count)
        return builder.lshr(builder.add(total, WORD(7)), WORD(3))
