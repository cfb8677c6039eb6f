# SPDX-License-Identifier: Apache-2.0
"""Expressions and keysets of the IR as people write them in P4, for traces and graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from . import ir
from .matches import width_of


class ProgramNames(NamedTuple):
    """What numbers of the IR are called in a program: its errors, and the member of the enum that a place has
    which a number stands for, "" for none.
    """

    errors: Sequence[str] = ir.CORE_ERRORS
    member: Callable[[ir.Expression, int], str] = lambda place, number: ""


NO_NAMES = ProgramNames()
"""Those of any program: the errors of core.p4."""


def expression_text(node: ir.Expression, names: ProgramNames = NO_NAMES) -> str:
    """Return an expression; names are the IR's, casts that change nothing are left out."""
    match node:
        case ir.Constant(value, kind):
            return _constant(value, kind, names)
        case ir.Name(name, _, shown):
            return shown or name
        case ir.Member(base, name, _):
            return part_text(expression_text(base, names), name)
        case ir.Element(base, index, _):
            return f"{expression_text(base, names)}[{_index(index, names)}]"
        case ir.StackPlace(stack, last, _):
            return f"{expression_text(stack, names)}.{'last' if last else 'next'}"
        case ir.LastIndex(stack, _):
            return f"{expression_text(stack, names)}.lastIndex"
        case ir.Unary(op, operand, _):
            return f"{op}{_operand(operand, names)}"
        case ir.Binary(op, left, right, _):
            return f"{_compared(left, right, names)} {op} {_compared(right, left, names)}"
        case ir.Conditional(condition, yes, no, _):
            return f"{_operand(condition, names)} ? {_operand(yes, names)} : {_operand(no, names)}"
        case ir.Cast(operand, kind):
            return f"({kind}) {_operand(operand, names)}"
        case ir.Slice(base, high, low, _):
            return f"{_operand(base, names)}[{high}:{low}]"
        case ir.IsValid(header, _):
            return f"{expression_text(header, names)}.isValid()"
        case ir.TableApply(table, hit, _):
            return f"{table}.apply().{'hit' if hit else 'miss'}"
        case ir.Lookahead(kind):
            return f"lookahead<{kind}>()"
        case ir.StructValue(fields, _):
            return f"{{ {_listed(fields, names)} }}"
        case ir.StackValue(elements, _):
            return f"{{ {_listed(elements, names)} }}"
        case ir.Zero(kind):
            return "{#}" if isinstance(kind, ir.Named) else "0"
        case ir.PacketLength():
            return "length()"
        case ir.Call(function, arguments, _):
            return f"{function}({_listed(arguments, names)})"
        case ir.Text(text, _):
            return f'"{text}"'
        case ir.ExternValue(instance, name, arguments, _):
            return (
                f"{instance}.{name}({_listed(arguments, names)})"
                if instance
                else f"{name}({_listed(arguments, names)})"
            )


def part_text(whole: str, name: str) -> str:
    """Return what a field of something is called, or an element of an array."""
    return f"{whole}[{name}]" if name[:1].isdigit() else f"{whole}.{name}"


def statement_text(node: ir.Statement) -> str:
    """Return a statement that holds no others."""
    match node:
        case ir.Assign(target, value):
            return f"{expression_text(target)} = {expression_text(value)}"
        case ir.Reset(variable):
            return f"{variable} = 0"
        case ir.If(condition):
            return f"if ({expression_text(condition)}) ..."
        case ir.ApplyTable(table):
            return f"{table}.apply()"
        case (
            ir.CallAction(name, arguments)
            | ir.CallRoutine(name, arguments)
            | ir.CallFunction(name, arguments)
        ):
            return f"{name}({_listed(arguments)})"
        case ir.CallMethod(instance, method, arguments):
            return f"{instance}.{method}({_listed(arguments)})"
        case ir.SetValid(header, valid):
            return f"{expression_text(header)}.{'setValid' if valid else 'setInvalid'}()"
        case ir.MoveStack(stack, count, front):
            return f"{expression_text(stack)}.{'push_front' if front else 'pop_front'}({count})"
        case ir.Extract(header):
            return f"extract({expression_text(header)})"
        case ir.ExtractVarbit(header, bits):
            return f"extract({expression_text(header)}, {expression_text(bits)})"
        case ir.Advance(bits):
            return f"advance({expression_text(bits)})"
        case ir.Verify(condition, error):
            return f"verify({expression_text(condition)}, {expression_text(error)})"
        case ir.Emit(value):
            return f"emit({expression_text(value)})"
    return type(node).__name__.lower()


def case_text(case: ir.SelectCase, keys: Sequence[ir.Expression], names: ProgramNames = NO_NAMES) -> str:
    """Return the keysets of a case of a select with these keys; `default` where everything fits."""
    if all(isinstance(keyset, ir.KeyAny) for keyset in case.keysets):
        return "default"
    texts = [_keyset(keyset, key, names) for keyset, key in zip(case.keysets, keys, strict=False)]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _keyset(keyset: ir.Keyset, key: ir.Expression, names: ProgramNames) -> str:
    match keyset:
        case ir.KeyAny():
            return "_"
        case ir.KeyRange(low, high):
            return f"{low:#x} .. {high:#x}"
        case ir.KeyInSet(value_set):
            return value_set
        case ir.KeyMask(value, mask):
            if mask != (1 << width_of(key.type)) - 1:
                return f"{value:#x} &&& {mask:#x}"
            if key.type == ir.ERROR:
                return _constant(value, key.type, names)
            return names.member(key, value) or f"{value:#x}"


def _listed(nodes: Iterable[ir.Expression], names: ProgramNames = NO_NAMES) -> str:
    return ", ".join(expression_text(node, names) for node in nodes)


def _compared(node: ir.Expression, other: ir.Expression, names: ProgramNames) -> str:
    """Return one side of a binary operation: a constant beside a field of an enum is a member of it."""
    member = names.member(other, node.value) if isinstance(node, ir.Constant) else ""
    return member or _operand(node, names)


def _operand(node: ir.Expression, names: ProgramNames) -> str:
    text = expression_text(node, names)
    return f"({text})" if isinstance(node, ir.Binary | ir.Conditional | ir.Cast) else text


def _index(node: ir.Expression, names: ProgramNames) -> str:
    return str(node.value) if isinstance(node, ir.Constant) else expression_text(node, names)


def _constant(value: int, kind: ir.Type, names: ProgramNames) -> str:
    if isinstance(kind, ir.Bool):
        return "true" if value else "false"
    if kind == ir.ERROR and value < len(names.errors):
        return f"error.{names.errors[value]}"
    return f"{value:#x}" if value > 9 else str(value)
