# SPDX-License-Identifier: Apache-2.0
"""Errors: numbers in BMv2, which the file chooses; members of an enumeration in the IR.

Source: p4lang/behavioral-model, "BMv2 JSON input format", "errors".
"""

from __future__ import annotations

from nicemu.pipeline import ir

from . import numbers
from .document import Json
from .numbers import Number

MAX_ERRORS = 1024


class ErrorNumbers:
    """The program's errors: `names` in the IR's order, and BMv2's number for each."""

    def __init__(self, document: Json) -> None:
        given: dict[str, int] = {}
        for item in document.list("errors"):
            name, number = item.items(2)
            if name.text() in given or number.number() in given.values():
                raise item.fault(f"gives {name.text()} a number a second time, or one that is taken")
            given[name.text()] = number.number()
            if len(given) > MAX_ERRORS:
                raise item.fault(f"is one error more than the {MAX_ERRORS} that are allowed")
        for core in ir.CORE_ERRORS:
            if core not in given:
                given[core] = next(number for number in range(MAX_ERRORS * 2) if number not in given.values())
        self.names = (*ir.CORE_ERRORS, *(name for name in given if name not in ir.CORE_ERRORS))
        self._numbers = [given[name] for name in self.names]

    def number_of(self, error: ir.Expression) -> Number:
        """Return the number of an error in a place: that of the one member that it equals."""
        terms = [
            numbers.chosen(self._is(error, index), numbers.constant(number), numbers.constant(0))
            for index, number in enumerate(self._numbers)
        ]
        whole = numbers.folded("|", terms)
        return Number(whole.low, whole.high, whole.modulo, error=error)

    def has(self, number: int) -> bool:
        """Return whether an error has a number."""
        return self._index(number) is not None

    def compared(self, op: str, left: Number, right: Number) -> ir.Expression | None:
        """Return the comparison of an error with a constant, None where it is none."""
        for side, other in ((left, right), (right, left)):
            index = self._index(other.constant)
            if op in ("==", "!=") and side.error is not None and index is not None:
                is_equal = self._is(side.error, index)
                return is_equal if op == "==" else ir.Unary("!", is_equal, ir.BOOL)
        return None

    def stored(self, target: ir.Expression, number: Number) -> ir.Statement:
        """Return the statement that stores the error with a number; one without an error is NoError."""
        if number.error is not None:
            return ir.Assign(target, number.error)
        if number.constant is not None:
            return ir.Assign(target, ir.Constant(self._index(number.constant) or 0, ir.ERROR))
        subject = number.exact()
        assert number.low is not None
        cases = [
            ir.ValueCase((code,), (ir.Assign(target, ir.Constant(index, ir.ERROR)),))
            for index, code in enumerate(self._numbers)
            if number.low <= code <= number.high
        ]
        otherwise = ir.ValueCase((), (ir.Assign(target, ir.Constant(0, ir.ERROR)),))
        return ir.Switch(subject, (*cases, otherwise))

    def _index(self, number: int | None) -> int | None:
        """Return the place of the error with a number, or with the one that its hexadecimal digits are as
        decimal ones: so p4c wrote errors until 2018.
        """
        if number is None:
            return None
        digits = f"{number:x}"
        for code in (number, int(digits) if digits.isdigit() else number):
            if code in self._numbers:
                return self._numbers.index(code)
        return None

    def _is(self, error: ir.Expression, index: int) -> ir.Expression:
        return ir.Binary("==", error, ir.Constant(index, ir.ERROR), ir.BOOL)
