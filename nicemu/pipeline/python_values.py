# SPDX-License-Identifier: Apache-2.0
"""P4 values as Python functions take and return them.

Numbers are ints, bool is bool, an error its name, a struct a dict of its fields, an array a list, a varbit a
`Varbits`, a header a `HeaderValue` with such fields. Stacks and unions go in as `values` has them, and do not
come out.
"""

from __future__ import annotations

from typing import Any

from . import ir
from .arithmetic import bounds
from .values import HeaderValue, Layouts, Value, Varbits


class PythonValues:
    """The values of one program's types."""

    def __init__(self, program: ir.Program) -> None:
        self._layouts = Layouts(program)
        self._errors = program.errors
        self._arrays = {struct.name for struct in program.structs if struct.element is not None}

    def shown(self, kind: ir.Type, value: Value) -> Any:  # noqa: ANN401
        """Return a value for Python to look at; what it changes there changes nothing here."""
        if isinstance(kind, ir.Bool):
            return bool(value)
        if isinstance(kind, ir.ErrorCode):
            return self._errors[value]
        if not isinstance(value, dict | HeaderValue):
            return value
        assert isinstance(kind, ir.Named)
        parts = value if isinstance(value, dict) else value.fields
        shown = {part.name: self.shown(part.type, parts[part.name]) for part in self._layouts.fields(kind)}
        if kind.name in self._arrays:
            return [*shown.values()]
        return HeaderValue(shown, value.valid) if isinstance(value, HeaderValue) else shown

    def spelled(self, kind: ir.Type) -> str:
        """Return a type as P4 has it, tuples too, without blanks."""
        match kind:
            case ir.List(element):
                return f"list<{self.spelled(element)}>"
            case ir.Named(name) if name in self._arrays:
                parts = self._layouts.fields(kind)
                return f"{self.spelled(parts[0].type)}[{len(parts)}]"
            case ir.Named(name) if name.startswith(ir.TUPLE):
                return f"tuple<{','.join(self.spelled(part.type) for part in self._layouts.fields(kind))}>"
        return str(kind)

    def given(self, kind: ir.Type, value: ir.Given) -> Any:  # noqa: ANN401
        """Return what a constructor is given. Raises: TypeError, ValueError where it is none of a type."""
        match kind:
            case ir.String() if isinstance(value, str):
                return value
            case ir.Integer() if isinstance(value, int):
                return value
            case ir.ErrorCode() if isinstance(value, int) and 0 <= value < len(self._errors):
                return self._errors[value]
            case ir.Bits() | ir.Bool() if isinstance(value, int):
                return self.shown(kind, self.taken(kind, value))
            case ir.List(element) if isinstance(value, tuple):
                return [self.given(element, item) for item in value]
            case ir.Named(name) if isinstance(value, tuple) and name not in self._layouts.headers:
                parts = self._layouts.fields(kind)
                items = [self.given(part.type, item) for part, item in zip(parts, value, strict=True)]
                if name in self._arrays:
                    return items
                return {part.name: item for part, item in zip(parts, items, strict=True)}
        raise TypeError(f"{value!r} is no {kind}")

    def taken(self, kind: ir.Type, value: Any) -> Value:  # noqa: ANN401
        """Return what Python gave as a value of a type. Raises: TypeError, ValueError."""
        match kind:
            case ir.Bits() | ir.Bool():
                low, high = bounds(kind) if isinstance(kind, ir.Bits) else (0, 1)
                if hasattr(value, "__index__"):
                    if not low <= value.__index__() <= high:
                        raise ValueError(f"{value!r} is no {kind}: {low} to {high}")
                    return int(value.__index__())
            case ir.ErrorCode():
                if value not in self._errors:
                    raise ValueError(f"{value!r} is no error of the program")
                return self._errors.index(value)
            case ir.Varbit(width):
                if isinstance(value, Varbits) and 0 <= value.number < 1 << value.length_bits <= 1 << width:
                    return value
            case ir.Named(name) if name in self._arrays and isinstance(value, list):
                return self._parts_taken(kind, {str(place): item for place, item in enumerate(value)})
            case ir.Named(name):
                if isinstance(value, HeaderValue if name in self._layouts.headers else dict):
                    return self._parts_taken(kind, value)
        raise TypeError(f"{value!r} is no {kind}")

    def _parts_taken(self, kind: ir.Named, value: dict[str, Any] | HeaderValue) -> Value:
        parts = value if isinstance(value, dict) else value.fields
        known = [part.name for part in self._layouts.parts(kind)]
        if sorted(parts) != sorted(known) or kind.name in self._layouts.unions:
            raise TypeError(f"{value!r} is no {kind}, whose fields are {', '.join(known)}")
        made = {part.name: self.taken(part.type, parts[part.name]) for part in self._layouts.fields(kind)}
        return HeaderValue(made, bool(value.valid)) if isinstance(value, HeaderValue) else made
