# SPDX-License-Identifier: Apache-2.0
"""Statements of the program IR. Source: P4-16 Language Specification 1.2.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .ir_expressions import Expression


@dataclass(frozen=True, slots=True)
class Assign:
    """Evaluate `value`, then store it in `target`: a name, a member, an element, or a slice of one."""

    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Reset:
    """Give a variable the zero of its type; headers in it become invalid."""

    variable: str


@dataclass(frozen=True, slots=True)
class If:
    """Run one of two bodies."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyTable:
    """Apply a table for its action alone."""

    table: str


@dataclass(frozen=True, slots=True)
class SwitchCase:
    """The body for some actions; no action at all means `default`."""

    actions: tuple[str, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class SwitchAction:
    """Apply a table, then run the body of the action that ran."""

    table: str
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, slots=True)
class ValueCase:
    """The body for some values; no value at all means `default`."""

    values: tuple[int, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Switch:
    """Run the body of the first case that names the value of `subject`, a scalar."""

    subject: Expression
    cases: tuple[ValueCase, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """While the condition holds: the body, then the update, which a `Continue` does not pass over."""

    condition: Expression
    body: tuple[Statement, ...]
    update: tuple[Statement, ...] = ()


FOR = "for"
"""What the names of variables begin with that loops have and a program does not name, as no name of its own
is a keyword.
"""


@dataclass(frozen=True, slots=True)
class ForRange:
    """The body with `variable` at every value from `low` to `high`, both inside, which are evaluated once."""

    variable: str
    low: Expression
    high: Expression
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Break:
    """End the innermost loop."""


@dataclass(frozen=True, slots=True)
class Continue:
    """End this turn of the innermost loop."""


@dataclass(frozen=True, slots=True)
class CallAction:
    """Run an action: arguments copied in left to right, and out again left to right at its end."""

    action: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class CallRoutine:
    """Run a function of the program for its effect; arguments as in `CallAction`."""

    function: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class CallFunction:
    """Call a function of the architecture, such as `drop_packet`."""

    function: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class CallMethod:
    """Call a method of an extern instance."""

    instance: str
    method: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class SetValid:
    """Set or clear the validity bit of a header. The fields of one that becomes valid are 0.

    A header of a union that becomes valid makes the others invalid.
    """

    header: Expression
    valid: bool


@dataclass(frozen=True, slots=True)
class Exit:
    """End the whole control block, from however deep."""


@dataclass(frozen=True, slots=True)
class Return:
    """End this function or action, or the control block where it stands in the block's body."""


@dataclass(frozen=True, slots=True)
class MoveStack:
    """`stack.push_front(count)`, or `pop_front` where `front` is false: elements move, emptied ones are
    invalid.
    """

    stack: Expression
    count: int
    front: bool


@dataclass(frozen=True, slots=True)
class Extract:
    """Read a header at the cursor and step over it (parser)."""

    header: Expression


@dataclass(frozen=True, slots=True)
class ExtractVarbit:
    """Read a header whose varbit takes `bits` bits, and step over it (parser)."""

    header: Expression
    bits: Expression


@dataclass(frozen=True, slots=True)
class Advance:
    """Step over bits, in whole bytes (parser)."""

    bits: Expression


@dataclass(frozen=True, slots=True)
class Verify:
    """Reject the packet with `error` unless `condition` holds (parser)."""

    condition: Expression
    error: Expression


@dataclass(frozen=True, slots=True)
class Emit:
    """Append the valid headers in a header, header union, stack or struct to the frame (deparser)."""

    value: Expression


Statement: TypeAlias = (
    Assign
    | Reset
    | If
    | ApplyTable
    | SwitchAction
    | Switch
    | Loop
    | ForRange
    | Break
    | Continue
    | CallAction
    | CallRoutine
    | CallFunction
    | CallMethod
    | SetValid
    | MoveStack
    | Exit
    | Return
    | Extract
    | ExtractVarbit
    | Advance
    | Verify
    | Emit
)
