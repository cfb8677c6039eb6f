# SPDX-License-Identifier: Apache-2.0
"""Division of numbers of any width.

LLVM leaves divisions of 65 to 128 bits to a library that kernels do not have, and makes such ones of wider
ones where it can, so all of more than 64 bits are done here.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from .places import Number

_INDEX = llvm.IntType(32)
_AT_ONCE_BITS = 64


def quotient(builder: llvm.IRBuilder, op: str, left: Number, right: Number, signed: bool) -> Number:
    """Return what "/" or "%" gives: 0 for a division by 0; of the least number by -1 itself, and 0."""
    kind = left.type
    is_zero = builder.icmp_unsigned("==", right, kind(0))
    unsafe, instead = is_zero, kind(0)
    if signed:
        is_minus = builder.icmp_unsigned("==", right, kind((1 << kind.width) - 1))
        unsafe = builder.or_(is_zero, is_minus)
        if op == "/":
            instead = builder.select(is_minus, builder.neg(left), kind(0))
    divisor = builder.select(unsafe, kind(1), right)
    return builder.select(unsafe, instead, _towards_zero(builder, op, left, divisor, signed))


def _towards_zero(builder: llvm.IRBuilder, op: str, left: Number, right: Number, signed: bool) -> Number:
    """Return a quotient or remainder, truncated towards 0; a remainder has the sign of `left`."""
    if not signed:
        return divided(builder, left, right)[op == "%"]
    minus, other = (builder.icmp_signed("<", number, number.type(0)) for number in (left, right))
    left, right = (
        builder.select(negative, builder.neg(number), number)
        for negative, number in ((minus, left), (other, right))
    )
    whole, rest = divided(builder, left, right)
    if op == "/":
        return builder.select(builder.xor(minus, other), builder.neg(whole), whole)
    return builder.select(minus, builder.neg(rest), rest)


def divided(builder: llvm.IRBuilder, left: Number, right: Number) -> tuple[Number, Number]:
    """Return quotient and remainder of unsigned numbers; `right` is not 0."""
    width = left.type.width
    if width <= _AT_ONCE_BITS:
        return builder.udiv(left, right), builder.urem(left, right)
    function = builder.module.globals.get(f"divide_{width}") or _divide(builder.module, width)
    pair = builder.call(function, [left, right])
    return builder.extract_value(pair, 0), builder.extract_value(pair, 1)


def _divide(module: llvm.Module, width: int) -> Any:  # noqa: ANN401
    """Make the function for a width: a bit of the quotient at a time, from the highest."""
    whole, over = llvm.IntType(width), llvm.IntType(width + 1)
    kind = llvm.LiteralStructType([whole, whole])
    function = llvm.Function(module, llvm.FunctionType(kind, [whole, whole]), f"divide_{width}")
    function.linkage = "internal"
    left, right = function.args
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    entry, turn = builder.block, builder.append_basic_block("turn")
    end = builder.append_basic_block("end")
    divisor = builder.zext(right, over)
    builder.branch(turn)
    builder.position_at_end(turn)
    number, rest, quotient = builder.phi(_INDEX), builder.phi(over), builder.phi(whole)
    for phi, first in ((number, _INDEX(width - 1)), (rest, over(0)), (quotient, whole(0))):
        phi.add_incoming(first, entry)
    place = builder.zext(number, whole)
    bit = builder.and_(builder.lshr(left, place), whole(1))
    shifted = builder.or_(builder.shl(rest, over(1)), builder.zext(bit, over))
    fits = builder.icmp_unsigned(">=", shifted, divisor)
    further = builder.select(fits, builder.sub(shifted, divisor), shifted)
    longer = builder.or_(quotient, builder.shl(builder.zext(fits, whole), place))
    for phi, following in ((number, builder.sub(number, _INDEX(1))), (rest, further), (quotient, longer)):
        phi.add_incoming(following, turn)
    builder.cbranch(builder.icmp_unsigned("==", number, _INDEX(0)), end, turn)
    builder.position_at_end(end)
    pair = builder.insert_value(kind(llvm.Undefined), longer, 0)
    builder.ret(builder.insert_value(pair, builder.trunc(further, whole), 1))
    return function
