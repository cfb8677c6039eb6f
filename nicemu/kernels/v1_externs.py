# SPDX-License-Identifier: Apache-2.0
"""v1model's own functions in a kernel: those that ask for nothing but this packet."""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import DROP_PORT, ir, width_of

from .externs import Call
from .not_compiled import NotCompiled
from .paths import own_path
from .places import BIT, Place
from .v1_requests import V1Requests

STANDARD = "standard_metadata"


class V1Externs(V1Requests):
    """Drops, checksums, messages."""

    def calls(self) -> dict[str, Call]:
        """Return what each extern's call makes."""
        return {
            "mark_to_drop": self._mark_to_drop,
            "verify_checksum": lambda instance, given: self._checksum(given, False, False),
            "update_checksum": lambda instance, given: self._checksum(given, False, True),
            "verify_checksum_with_payload": lambda instance, given: self._checksum(given, True, False),
            "update_checksum_with_payload": lambda instance, given: self._checksum(given, True, True),
            "assert": lambda instance, given: self._assert(given),
            "assume": lambda instance, given: self._assert(given),
            "digest": self._digest,
            "log_msg": self._log,
            **self.shared_calls(),
            **self.request_calls(),
        }

    def standard(self, field: str) -> Place:
        """Return the place of a field of the standard metadata."""
        whole = Place(STANDARD, self.types[STANDARD])
        kind = next(part.type for part in self.places.fields(whole.type) if part.name == field)
        return whole.part(field, kind)

    @property
    def failed(self) -> Any:  # noqa: ANN401
        """The address of whether an assertion has failed (i1)."""
        return self.places.slot(Place(own_path("failed"), ir.BOOL), self.builder)

    def _mark_to_drop(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        base = arguments[0] if arguments else ir.Name(STANDARD, self.types[STANDARD])
        for field, number in (("egress_spec", DROP_PORT), ("mcast_grp", 0)):
            kind = self.standard(field).type
            self.store(ir.Member(base, field, kind), llvm.IntType(width_of(kind))(number))

    def _assert(self, arguments: tuple[ir.Expression, ...]) -> None:
        holds = self.value(arguments[0])
        failed = self.builder.or_(self.builder.load(self.failed), self.builder.not_(holds))
        self.builder.store(failed, self.failed)

    def _checksum(self, arguments: tuple[ir.Expression, ...], with_payload: bool, update: bool) -> None:
        condition, data, checksum, algorithm = arguments
        given, is_there = self.held(checksum)
        does, after = self.block("sums"), self.block("summed")
        wanted = self.value(condition)
        self.builder.cbranch(wanted if update else self.builder.and_(wanted, is_there), does, after)
        self.builder.position_at_end(does)
        found = self.resized(self.sum(algorithm, data, with_payload), ir.Bits(64), checksum.type)
        if update:
            self.store(checksum, found)
        else:
            error = self.standard("checksum_error")
            wrong = self.builder.icmp_unsigned("!=", found, given)
            before = self.places.load(error, self.builder)
            self.places.store(error, self.builder.or_(before, wrong), self.builder)
        self.go(after)

    # Messages

    def _digest(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        values = [(argument.type, self.value(argument)) for argument in arguments]
        self.leave_effect(instance, "digest", values)

    def _log(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        text, *data = arguments
        if not isinstance(text, ir.Text):
            raise NotCompiled("a text is no constant")
        values = [(argument.type, self.value(argument)) for argument in data]
        self.leave_effect(instance, "log_msg", values, text.text)

    def forget_failures(self) -> None:
        """Say that no assertion has failed."""
        self.builder.store(BIT(0), self.failed)
