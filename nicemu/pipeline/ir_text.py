# SPDX-License-Identifier: Apache-2.0
"""Expressions and keysets of the IR as people write them in P4, for traces and graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import ir
from .matches import width_of


def expression_text(node: ir.Expression) -> str:
    """Return an expression; names are the IR's, casts that change nothing are left out."""
    match node:
        case ir.Constant(value, kind):
            return _constant(value, kind)
        case ir.Name(name, _, shown):
            return shown or name
        case ir.Member(base, name, _):
            return part_text(expression_text(base), name)
        case ir.Element(base, index, _):
            return f"{expression_text(base)}[{_index(index)}]"
        case ir.StackPlace(stack, last, _):
            return f"{expression_text(stack)}.{'last' if last else 'next'}"
        case ir.LastIndex(stack, _):
            return f"{expression_text(stack)}.lastIndex"
        case ir.Unary(op, operand, _):
            return f"{op}{_operand(operand)}"
        case ir.Binary(op, left, right, _):
            return f"{_operand(left)} {op} {_operand(right)}"
        case ir.Conditional(condition, yes, no, _):
            return f"{_operand(condition)} ? {_operand(yes)} : {_operand(no)}"
        case ir.Cast(operand, kind):
            return f"({kind}) {_operand(operand)}"
        case ir.Slice(base, high, low, _):
            return f"{_operand(base)}[{high}:{low}]"
        case ir.IsValid(header, _):
            return f"{expression_text(header)}.isValid()"
        case ir.TableApply(table, hit, _):
            return f"{table}.apply().{'hit' if hit else 'miss'}"
        case ir.Lookahead(kind):
            return f"lookahead<{kind}>()"
        case ir.StructValue(fields, _):
            return f"{{ {_listed(fields)} }}"
        case ir.StackValue(elements, _):
            return f"{{ {_listed(elements)} }}"
        case ir.Zero(kind):
            return "{#}" if isinstance(kind, ir.Named) else "0"
        case ir.PacketLength():
            return "length()"
        case ir.Call(function, arguments, _):
            return f"{function}({_listed(arguments)})"
        case ir.Text(text, _):
            return f'"{text}"'
        case ir.ExternValue(instance, name, arguments, _):
            return f"{instance}.{name}({_listed(arguments)})" if instance else f"{name}({_listed(arguments)})"


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


def case_text(case: ir.SelectCase, keys: Sequence[ir.Expression]) -> str:
    """Return the keysets of a case of a select with these keys; `default` where everything fits."""
    if all(isinstance(keyset, ir.KeyAny) for keyset in case.keysets):
        return "default"
    widths = [width_of(key.type) for key in keys]
    texts = [_keyset(keyset, width) for keyset, width in zip(case.keysets, widths, strict=False)]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _keyset(keyset: ir.Keyset, width: int) -> str:
    match keyset:
        case ir.KeyAny():
            return "_"
        case ir.KeyRange(low, high):
            return f"{low:#x} .. {high:#x}"
        case ir.KeyInSet(value_set):
            return value_set
        case ir.KeyMask(value, mask):
            return f"{value:#x}" if mask == (1 << width) - 1 else f"{value:#x} &&& {mask:#x}"


def _listed(nodes: Iterable[ir.Expression]) -> str:
    return ", ".join(map(expression_text, nodes))


def _operand(node: ir.Expression) -> str:
    text = expression_text(node)
    return f"({text})" if isinstance(node, ir.Binary | ir.Conditional | ir.Cast) else text


def _index(node: ir.Expression) -> str:
    return str(node.value) if isinstance(node, ir.Constant) else expression_text(node)


def _constant(value: int, kind: ir.Type) -> str:
    if isinstance(kind, ir.Bool):
        return "true" if value else "false"
    if kind == ir.ERROR and value < len(ir.CORE_ERRORS):  # a program's own are known by number alone
        return f"error.{ir.CORE_ERRORS[value]}"
    return f"{value:#x}" if value > 9 else str(value)
