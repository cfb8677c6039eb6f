# SPDX-License-Identifier: Apache-2.0
"""Types, expressions and statements of the program IR. Source: P4-16 Language Specification 1.2.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

MAX_WIDTH_BITS = 4096
"""Widest bit<N> that the engine takes."""

MAX_VARBIT_BITS = 65535
"""Widest varbit<N> that the engine takes."""

MAX_STACK_SIZE = 1024
"""Largest header stack that the engine takes."""

# Types


@dataclass(frozen=True, slots=True)
class Bits:
    """bit<width>, or int<width> where `signed`."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True, slots=True)
class Bool:
    """The values 0 and 1."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """An index into `Program.errors`."""

    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True, slots=True)
class Named:
    """A header, header union or struct type of the program."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Stack:
    """A header stack: `size` headers or header unions of type `element`."""

    element: str
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True, slots=True)
class Varbit:
    """varbit<width>: 0 to `width` bits, as many as were extracted."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


Type: TypeAlias = Bits | Bool | ErrorCode | Named | Stack | Varbit
BOOL = Bool()
ERROR = ErrorCode()


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a header or struct."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class HeaderType:
    """A header: fields in wire order, and a validity bit. It is whole bytes long.

    Fields are scalars and structs of such; one field may be a varbit.
    """

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class UnionType:
    """A header union: headers of which one at most is valid."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct of anything; an emitted struct emits its headers in field order. A tuple is one, too."""

    name: str
    fields: tuple[Field, ...]


Layout: TypeAlias = HeaderType | UnionType | StructType

# Expressions


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, 0 or 1 for bool, an index for error."""

    value: int
    type: Type


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a header or struct."""

    base: Expression
    field: str
    type: Type


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a header stack. Outside the stack there is an invalid header, which keeps nothing."""

    base: Expression
    index: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class StackPlace:
    """`stack.next` (`last` false) or `stack.last`, in a parser: StackOutOfBounds where there is none."""

    stack: Expression
    last: bool
    type: Type


@dataclass(frozen=True, slots=True)
class LastIndex:
    """`stack.lastIndex`, in a parser: StackOutOfBounds where nothing was extracted yet."""

    stack: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Unary:
    """`op` is one of - ~ !."""

    op: str
    operand: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Binary:
    """`op` is an operator of P4; && and || do not evaluate their right side in vain."""

    op: str
    left: Expression
    right: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? yes : no`."""

    condition: Expression
    yes: Expression
    no: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Cast:
    """Conversion between bit, int and bool; widening copies the sign of an int."""

    operand: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Slice:
    """Bits `high` down to `low` of `base`."""

    base: Expression
    high: int
    low: int
    type: Type


@dataclass(frozen=True, slots=True)
class IsValid:
    """The validity bit of a header; of a header union, whether one of its headers is valid."""

    header: Expression
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class TableApply:
    """Apply a table; the value says whether an entry matched (`hit`), or the contrary."""

    table: str
    hit: bool = True
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Read a value of `type` at the parser's cursor, which stays."""

    type: Type


@dataclass(frozen=True, slots=True)
class StructValue:
    """A new struct, or a new valid header, of one value a field."""

    fields: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class StackValue:
    """A new header stack of one value an element."""

    elements: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Zero:
    """The zero of a type: 0, false, NoError, an invalid header, an empty varbit."""

    type: Type


@dataclass(frozen=True, slots=True)
class PacketLength:
    """The bytes of the packet, as bit<32> (parser)."""

    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """The value that a function returns; arguments as in `CallAction`."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type


Expression: TypeAlias = (
    Constant
    | Name
    | Member
    | Element
    | StackPlace
    | LastIndex
    | Unary
    | Binary
    | Conditional
    | Cast
    | Slice
    | IsValid
    | TableApply
    | Lookahead
    | StructValue
    | StackValue
    | Zero
    | PacketLength
    | Call
)


# Statements


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
    """Set or clear the validity bit of a header; its fields keep their values.

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
