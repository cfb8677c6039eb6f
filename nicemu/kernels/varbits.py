# SPDX-License-Identifier: Apache-2.0
"""Headers with a varbit in a kernel: extracted, emitted.

Such a header is one number as wide as it can be, with its first bit uppermost; what stands behind the varbit
is moved up and down by as many bits as the varbit has.
Source: P4-16 Language Specification 1.2.5, "Variable-width extraction".
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import ir, width_of

from .not_compiled import NotCompiled
from .packets import HEADER_TOO_SHORT, INVALID, TOO_SHORT, Leaf, Packets
from .places import BIT, LENGTH, NUMBER, WORD, Composite, Number, Value

MAX_VARBIT_BITS = 4096
"""Widest varbit of a kernel."""


class Varbits(Packets):
    """Extracts and packs headers of any length."""

    def has_varbit(self, kind: ir.Type) -> bool:
        """Return whether a header has a varbit."""
        return any(isinstance(leaf.type, ir.Varbit) for leaf in self.leaves(kind))

    def bytes_of(self, kind: ir.Type) -> int:
        """Return the bytes that a header takes at most."""
        return -(-sum(_most_bits(leaf) for leaf in self.leaves(kind)) // 8)

    def header_bytes(self, header: Composite) -> Number:
        """Return the bytes that a header's value takes, i64."""
        if not self.has_varbit(header.type):
            return super().header_bytes(header)
        fixed = sum(width_of(leaf.type) for leaf in self.leaves(header.type) if not _is_varbit(leaf))
        bits = self.builder.add(self._length_of(header), WORD(fixed + 7))
        return self.builder.lshr(bits, WORD(3))

    def _length_of(self, header: Composite) -> Number:
        """Return the bits of a header's varbit, i64."""
        leaf = next(leaf for leaf in self.leaves(header.type) if _is_varbit(leaf))
        return self.builder.zext(part_of(header, leaf).parts[LENGTH], WORD)

    def extract_varbit(self, node: ir.ExtractVarbit) -> None:
        """Take a header with a varbit of some bits."""
        builder = self.builder
        bits = self.resized(self.value(node.bits), node.bits.type, ir.Bits(64))
        target = self.located(node.header)
        fixed = sum(width_of(leaf.type) for leaf in self.leaves(target.type) if not _is_varbit(leaf))
        room = sum(_most_bits(leaf) for leaf in self.leaves(target.type)) - fixed
        if room > MAX_VARBIT_BITS:
            raise NotCompiled(f"a varbit has more than {MAX_VARBIT_BITS} bits")
        width = builder.add(bits, WORD(fixed))
        odd = builder.icmp_unsigned("!=", builder.and_(width, WORD(7)), WORD(0))
        self.reject_if(odd, INVALID)
        at, count = builder.load(self.cursor), builder.lshr(width, WORD(3))
        end = builder.add(at, count)
        self.reject_if(builder.icmp_unsigned(">", end, self.length), TOO_SHORT)
        self.reject_if(builder.icmp_unsigned(">", bits, WORD(room)), HEADER_TOO_SHORT)
        self.store(target, self._unpacked_varbit(target.type, self.address(self.frame, at), bits, count))
        self.count_extracted(node.header)
        if (kept := self.kept_place(node.header)) is not None:
            builder.store(self.address(self.frame, at), self.taken_from(kept))
        builder.store(end, self.cursor)

    def _unpacked_varbit(self, kind: ir.Type, address: Number, bits: Number, count: Number) -> Value:
        """Return the header that `count` bytes at an address are."""
        most = max(1, self.bytes_of(kind))  # a number has a bit at least
        words = -(-most // 8)
        buffer = self._number(self.buffer("$header", words))
        for word in range(words):
            self.builder.store(WORD(0), self.at(buffer, 8 * word))
        self.copy_bytes(buffer, address, count)
        rest = self.load_bytes(buffer, most)
        numbers: dict[tuple[str, ...], Value] = {}
        for leaf in self.leaves(kind):
            if isinstance(leaf.type, ir.Varbit):
                shift = self.builder.sub(WORD(8 * most), bits)
                number = self.resized(
                    self.shifted(rest, shift, False), ir.Bits(8 * most), ir.Bits(leaf.type.width)
                )
                length = self._truncated(bits, 32)
                numbers[leaf.path] = Composite(leaf.type, {LENGTH: length, NUMBER: number})
                rest = self.shifted(rest, bits)
            else:
                width = width_of(leaf.type)
                moved = self.builder.lshr(rest, rest.type(8 * most - width))
                numbers[leaf.path] = self._truncated(moved, width)
                rest = self.shifted(rest, WORD(width))
        return self._assembled(kind, (), numbers)

    def pack(
        self, kind: ir.Type, value: Value, address: Number, only: frozenset[tuple[str, ...]] | None = None
    ) -> int:
        """Store the bytes of a header or struct; return how many there are at most."""
        if not self.has_varbit(kind):
            return super().pack(kind, value, address, only)
        most = max(1, self.bytes_of(kind))  # a number has a bit at least
        whole = ir.Bits(8 * most)
        joined: Number = llvm.IntType(whole.width)(0)
        left: Number = WORD(whole.width)
        for leaf in self.leaves(kind):
            part, bits = part_of(value, leaf), WORD(_most_bits(leaf))
            if _is_varbit(leaf):
                part, bits = part.parts[NUMBER], self.builder.zext(part.parts[LENGTH], WORD)
            left = self.builder.sub(left, bits)
            piece = self.resized(part, ir.Bits(_most_bits(leaf)), whole)
            joined = self.builder.or_(joined, self.shifted(piece, left))
        buffer = self._number(self.buffer("$header", -(-most // 8)))
        self.store_bytes(buffer, joined, most)
        self.copy_bytes(address, buffer, self.header_bytes(value))
        return most

    def shifted(self, number: Number, bits: Number, up: bool = True) -> Number:
        """Return a number moved by so many bits (i64), which may be all that it has."""
        builder, kind = self.builder, number.type
        is_all = builder.icmp_unsigned(">=", bits, WORD(kind.width))
        amount = builder.select(is_all, WORD(0), bits)
        amount = self.resized(amount, ir.Bits(64), ir.Bits(kind.width))
        moved = builder.shl(number, amount) if up else builder.lshr(number, amount)
        return builder.select(is_all, kind(0), moved)

    def copy_bytes(self, target: Number, source: Number, count: Number) -> None:
        """Copy bytes (i64) that do not overlap."""
        self._copying("llvm.memcpy", target, source, count)

    def move_bytes(self, target: Number, source: Number, count: Number) -> None:
        """Move bytes, to where they may be in part already."""
        self._copying("llvm.memmove", target, source, count)

    def _copying(self, name: str, target: Number, source: Number, count: Number) -> None:
        pointer = llvm.IntType(8).as_pointer()
        function: Any = self.builder.module.declare_intrinsic(name, [pointer, pointer, WORD])
        target, source = (self.builder.inttoptr(address, pointer) for address in (target, source))
        self.builder.call(function, [target, source, count, BIT(0)])


def part_of(value: Value, leaf: Leaf) -> Value:
    """Return the number or varbit of a header's or struct's value that a leaf is."""
    for name in leaf.path:
        value = value.parts[name]
    return value


def _is_varbit(leaf: Leaf) -> bool:
    return isinstance(leaf.type, ir.Varbit)


def _most_bits(leaf: Leaf) -> int:
    return leaf.type.width if isinstance(leaf.type, ir.Varbit) else width_of(leaf.type)
