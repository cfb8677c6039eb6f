# SPDX-License-Identifier: Apache-2.0
"""v1model's externs in a kernel: those that need nothing but the packet and arrays of numbers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import ARCHITECTURES, ir, width_of

from .division import divided
from .expressions import NotCompiled
from .externs import Call, Externs
from .parts import Part
from .places import BIT, WORD, Number, Place
from .records import DROP_PORT

STANDARD = "standard_metadata"
_ALGORITHMS = ARCHITECTURES["v1model"].enums["HashAlgorithm"]


class V1Externs(Externs):
    """Drops, hashes, checksums, counters and registers."""

    def calls(self) -> dict[str, Call]:
        """Return what each extern's call makes."""
        return {
            "mark_to_drop": self._mark_to_drop,
            "hash": self._hash,
            "verify_checksum": lambda instance, given: self._checksum(given, False, False),
            "update_checksum": lambda instance, given: self._checksum(given, False, True),
            "verify_checksum_with_payload": lambda instance, given: self._checksum(given, True, False),
            "update_checksum_with_payload": lambda instance, given: self._checksum(given, True, True),
            "assert": lambda instance, given: self._assert(given),
            "assume": lambda instance, given: self._assert(given),
            "register.read": self._read,
            "register.write": self._write,
            "counter.count": self._count,
            "direct_counter.count": lambda instance, given: None,
        }

    def standard(self, field: str) -> Place:
        """Return the place of a field of the standard metadata."""
        whole = Place(STANDARD, self.types[STANDARD])
        kind = next(part.type for part in self.places.fields(whole.type) if part.name == field)
        return whole.part(field, kind)

    @property
    def failed(self) -> Any:  # noqa: ANN401
        """The address of whether an assertion has failed (i1)."""
        return self.places.slot(Place("$failed", ir.BOOL), self.builder)

    def _mark_to_drop(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        base = arguments[0] if arguments else ir.Name(STANDARD, self.types[STANDARD])
        for field, number in (("egress_spec", DROP_PORT), ("mcast_grp", 0)):
            kind = self.standard(field).type
            self.store(ir.Member(base, field, kind), llvm.IntType(width_of(kind))(number))

    def _assert(self, arguments: tuple[ir.Expression, ...]) -> None:
        holds = self.value(arguments[0])
        failed = self.builder.or_(self.builder.load(self.failed), self.builder.not_(holds))
        self.builder.store(failed, self.failed)

    # Sums

    def _sum(self, algorithm: ir.Expression, data: ir.Expression, with_payload: bool) -> Number:
        """Return the sum of some data, i64."""
        if not isinstance(algorithm, ir.Constant) or algorithm.value >= len(_ALGORITHMS):
            raise NotCompiled("a hash algorithm is no constant")
        name = _ALGORITHMS[algorithm.value]
        if name == "random":
            raise NotCompiled("it hashes at random")
        leaves = self.leaves(data.type) if isinstance(data.type, ir.Named) else None
        value = self.value(data)
        length = self.bytes_of(data.type) if leaves is not None else -(-width_of(data.type) // 8)
        buffer = self._number(self._buffer("$data", -(-max(length, 1) // 8)))
        if leaves is not None:
            self.pack(data.type, value, buffer)
        else:
            whole = llvm.IntType(8 * length)
            moved = self.builder.zext(value, whole)
            padding = 8 * length - width_of(data.type)
            self.store_bytes(buffer, self.builder.shl(moved, whole(padding)), length)
        payload, left = WORD(0), WORD(0)
        if with_payload:
            at = self.builder.load(self.cursor)
            payload, left = self.address(self.frame, at), self.builder.sub(self.length, at)
        function = self.take(Part("sum", name))
        return self.look_up(function, buffer, WORD(length), payload, left)

    def _checksum(self, arguments: tuple[ir.Expression, ...], with_payload: bool, update: bool) -> None:
        condition, data, checksum, algorithm = arguments
        given = self.value(checksum)
        does, after = self.block("sums"), self.block("summed")
        self.builder.cbranch(self.value(condition), does, after)
        self.builder.position_at_end(does)
        found = self.resized(self._sum(algorithm, data, with_payload), ir.Bits(64), checksum.type)
        if update:
            self.store(checksum, found)
        else:
            error = self.standard("checksum_error")
            wrong = self.builder.icmp_unsigned("!=", found, given)
            before = self.places.load(error, self.builder)
            self.places.store(error, self.builder.or_(before, wrong), self.builder)
        self.go(after)

    def _hash(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        result, algorithm, base, data, largest = arguments
        result = self.located(result)
        if any(isinstance(node.type, ir.Bits) and node.type.signed for node in (result, base, largest)):
            raise NotCompiled("it hashes into signed numbers")
        start, count = self.value(base), self.value(largest)
        width = max(64, start.type.width, count.type.width) + 1
        kind = llvm.IntType(width)
        number = self.builder.zext(self._sum(algorithm, data, False), kind)
        count = self.builder.zext(count, kind)
        is_zero = self.builder.icmp_unsigned("==", count, kind(0))
        _, rest = divided(self.builder, number, self.builder.select(is_zero, kind(1), count))
        total = self.builder.add(self.builder.zext(start, kind), rest)
        wanted = width_of(result.type)
        self.store(result, self.resized(total, ir.Bits(kind.width), result.type) if wanted else total)

    # Arrays

    def _array(self, instance: str) -> tuple[Number, int]:
        """Return the address of an array's memory (i64), and its size."""
        number = next(n for n, item in enumerate(self.program.externs) if item.name == instance)
        size = self.program.externs[number].arguments[0]
        assert isinstance(size, int)
        return self.builder.load(self.object_word(number)), size

    def _inside(self, index: ir.Expression, size: int) -> tuple[Number, Number]:
        """Return whether an index is inside, and the index, i64."""
        number = self.value(index)
        kind = llvm.IntType(max(number.type.width, 64))
        signed = isinstance(index.type, ir.Bits) and index.type.signed
        wide = self.builder.sext(number, kind) if signed else self.builder.zext(number, kind)
        inside = self.builder.icmp_unsigned("<", wide, kind(size))
        return inside, self._truncated(wide, 64)

    def _element_words(self, instance: str) -> tuple[ir.Type, int]:
        kind = next(item.types[0] for item in self.program.externs if item.name == instance)
        if isinstance(kind, ir.Named):
            raise NotCompiled("a register holds structs")
        return kind, -(-width_of(kind) // 64)

    def _read(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        target, index = self.located(arguments[0]), arguments[1]
        kind, words = self._element_words(instance)
        base, size = self._array(instance)
        inside, number = self._inside(index, size)

        def stored() -> Number:
            at = self.address(base, self.builder.mul(number, WORD(8 * words)))
            return self._load_words(at, words, kind)

        value = self.choose(inside, stored, lambda: self.places.zero(kind), kind)
        self.store(target, value)

    def _load_words(self, at: Number, words: int, kind: ir.Type) -> Number:
        whole = llvm.IntType(64 * words)
        number: Number = whole(0)
        for word in range(words):
            piece = self.builder.zext(self.builder.load(self.at(at, 8 * word)), whole)
            number = self.builder.or_(number, self.builder.shl(piece, whole(64 * word)) if word else piece)
        return self._truncated(number, width_of(kind))

    def _write(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        index, value = arguments
        _, words = self._element_words(instance)
        base, size = self._array(instance)
        inside, number = self._inside(index, size)
        given = self.builder.zext(self.value(value), llvm.IntType(64 * words))

        def write() -> None:
            at = self.address(base, self.builder.mul(number, WORD(8 * words)))
            for word in range(words):
                shift = given.type(64 * word)
                piece = self.builder.lshr(given, shift) if word else given
                self.builder.store(self._truncated(piece, 64), self.at(at, 8 * word))

        self._when(inside, write)

    def _count(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        base, size = self._array(instance)
        inside, number = self._inside(arguments[0], size)

        def count() -> None:
            at = self.address(base, self.builder.mul(number, WORD(16)))
            self._add(self.at(at, 0), WORD(1))
            self._add(self.at(at, 8), self.length)

        self._when(inside, count)

    def _when(self, condition: Number, make: Any) -> None:  # noqa: ANN401
        does, after = self.block("does"), self.block("done")
        self.builder.cbranch(condition, does, after)
        self.builder.position_at_end(does)
        make()
        self.go(after)

    def forget_failures(self) -> None:
        """Say that no assertion has failed."""
        self.builder.store(BIT(0), self.failed)
