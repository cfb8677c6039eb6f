# SPDX-License-Identifier: Apache-2.0
"""Parses types and expressions: precedence climbing, with a scope of type names for casts and type arguments.

Source: P4-16 Language Specification 1.2.5, "Expressions" and the grammar's operator precedence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from . import syntax
from .diagnostics import Location, Reporter, did_you_mean
from .lexer import Token
from .number_literals import number_of
from .syntax_copy import fresh
from .token_reader import MAX_EXPRESSION_DEPTH, SyntaxFault, TokenReader

_LEVELS = (
    ("||",),
    ("&&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>"),
    ("++", "+", "-", "|+|", "|-|"),
    ("*", "/", "%"),
)
_PRECEDENCE = {op: level for level, ops in enumerate(_LEVELS) for op in ops}
_ASSOCIATIVE = {op: op for op in ("||", "&&", "|", "^", "&", "++", "+", "*")} | {"-": "+"}
"""Operators of which a chain means the same whichever is done first, with what they stand beside there."""
_LONG_CHAIN = 16
_OPPOSITE = {"+": "-", "-": "+"}
BASE_TYPES = frozenset(
    {"bit", "int", "bool", "error", "string", "void", "varbit", "tuple", "list", "match_kind"}
)
_WITH_WIDTHS = ("bit", "int", "varbit")
_AFTER_TYPE_ARGUMENTS = frozenset({"(", ")", ",", ";", ".", "{"})
_BEHIND_A_VALUE = frozenset({".", "[", "(", "<"})
_CAST_OPERANDS = frozenset({"(", "{", "~", "!", "-", "+", ".", "...", "true", "false", "this", "error"})


class _Term(NamedTuple):
    """An operand with the operator before it."""

    op: str
    at: Location
    operand: syntax.Expression


class ExpressionParser(TokenReader):
    """Types and expressions."""

    def __init__(self, tokens: list[Token], reporter: Reporter) -> None:
        super().__init__(tokens, reporter)
        self._width_end = -1
        """Where the ">" is that ends the width that is being parsed."""
        self._type_arguments: dict[
            int, bool
        ] = {}  # what was found out at a "<", so that nothing is tried twice

    # Types

    def sees_type(self) -> bool:
        """Return whether a type is next: a base type, or a name known to be one."""
        token = self.next
        is_named = self.sees_name() and self.is_type(token.text)
        return token.text in BASE_TYPES or is_named or self.is_outermost_type()

    def type_ref(self) -> syntax.TypeRef:
        """Parse a type. Raises: SyntaxFault."""
        token = self.next
        if token.text in BASE_TYPES and token.kind == "keyword":
            self.take()
            ref = syntax.TypeRef(token.location, token.text)
            if token.text in _WITH_WIDTHS and self.takes("<"):
                ref.width = self._width()
                self.expect(">", f"after the width of {token.text}")
            elif token.text in ("tuple", "list"):
                self.expect("<", f"after {token.text}")
                ref.arguments = self._type_list()
        else:
            absolute = self.takes(".")
            token = self.name("a type")
            ref = syntax.TypeRef(token.location, token.text, absolute=absolute)
            if self.sees("<") and self.peek().kind == "number" and not self.is_type(token.text):
                self.no_type(token, did_you_mean(token.text, _WITH_WIDTHS))
            if self.takes("<"):
                ref.arguments = self._type_list()
        ref.sizes = self._sizes()
        return ref

    def declarator(self, ref: syntax.TypeRef, what: str) -> Token:
        """Parse the name of what has a type; sizes of arrays may stand behind it, as in C."""
        name = self.name(what)
        ref.sizes += reversed(self._sizes())
        return name

    def _sizes(self) -> list[syntax.Expression]:
        sizes = []
        while self.takes("["):
            sizes.append(self.expression())
            self.expect("]", "after the size of the array or header stack")
        return sizes

    def _width(self) -> syntax.Expression:
        """Parse a width; a ">" in it stands in parentheses (p4c #5590)."""
        if self.next.kind == "number" and self.peek().text == ">":  # what most are
            return self._primary()
        outer, self._width_end = self._width_end, self._closing_angle()
        try:
            return self.expression()
        finally:
            self._width_end = outer

    def _closing_angle(self) -> int:
        """Return where the next ">" is that stands in no parentheses."""
        depth, at = 0, self._at
        while (text := self._tokens[at].text) not in (";", "") and (depth or text != ">"):
            depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
            if depth < 0:
                break
            at += 1
        return at

    def _type_list(self) -> list[syntax.TypeRef]:
        """Parse type arguments behind "<", with the ">"."""
        if self.takes(">"):
            return []
        with self.nested():
            arguments = [self._type_argument()]
            while self.takes(","):
                arguments.append(self._type_argument())
        self.expect(">", "after the type arguments")
        return arguments

    def _type_argument(self) -> syntax.TypeRef:
        if self.next.text == "_":
            return syntax.TypeRef(self.take().location, "_")
        return self.type_ref()

    def _type_arguments_follow(self) -> bool:
        """Return whether the "<" that is next opens type arguments rather than comparing."""
        if self._at not in self._type_arguments:
            self._type_arguments[self._at] = self._try_type_arguments()
        return self._type_arguments[self._at]

    def behind_type(self) -> str:
        """Return what stands behind the type that is next and its type arguments, "" if they are none."""
        start, mark = self._at, self.reporter.mark()
        try:
            self.type_ref()
            return self.next.text
        except SyntaxFault:
            return ""
        finally:
            self._at = start
            self.reporter.rewind(mark)

    def _try_type_arguments(self) -> bool:
        start, mark = self._at, self.reporter.mark()
        following = self.peek()
        starts = following.text in BASE_TYPES or following.text in (">", "_") or self.is_type(following.text)
        if not starts and following.kind == "name":
            is_empty = [self.peek(further).text for further in (2, 3, 4)] == [">", "(", ")"]
            starts = is_empty or not self.is_known(following.text)  # compared, it would be no value either
        if not starts and not self.is_outermost_type(1):
            return False
        try:
            self.take()
            self._type_list()
            return self.next.text in _AFTER_TYPE_ARGUMENTS
        except SyntaxFault:
            return False
        finally:
            self._at = start
            self.reporter.rewind(mark)

    # Expressions

    def expression(self) -> syntax.Expression:
        """Parse an expression. Raises: SyntaxFault."""
        levels = self.nested()
        levels.append({})  # what `with` does, for half the time
        try:
            condition = self._operation(0)
            if not self.sees("?"):
                return condition
            at = self.take().location
            yes = self.expression()
            self.expect(":", "between the two values of ?:")
            no = self.expression()
            node = syntax.ConditionalOp(at=at, condition=condition, yes=yes, no=no)
            return self.deepened(node, condition, yes, no)
        finally:
            levels.pop()

    def keyset(self) -> syntax.Expression:
        """Parse one keyset: a value, value &&& mask, low .. high, default or _."""
        token = self.next
        if token.text in ("default", "_") and token.kind != "string":
            return syntax.AnySet(at=self.take().location)
        left = self.expression()
        if self.takes("&&&"):
            return syntax.MaskSet(at=left.at, left=left, mask=self.expression())
        if self.takes(".."):
            return syntax.RangeSet(at=left.at, low=left, high=self.expression())
        return left

    def arguments(self) -> tuple[list[syntax.Expression], list[str] | None]:
        """Parse a call's arguments with both parentheses; return their names too, if they have any."""
        opened = self.expect("(", "before the arguments")
        arguments: list[syntax.Expression] = []
        names: list[str] = []
        while arguments or not self.sees(")"):  # behind a comma stands another
            if self.sees_name() and self.peek().text == "=":
                names.append(self.take().text)
                self.take()
            if self.next.text == "_" and self.peek().text in (",", ")"):
                arguments.append(syntax.AnySet(at=self.take().location))
            else:
                arguments.append(self.expression())
            if not self.takes(","):
                break
        self.expect(")", "after the arguments")
        if names and len(names) != len(arguments):
            self.reporter.error(opened.location, "either all or none of the arguments have names")
            raise SyntaxFault
        return arguments, names or None

    def call(
        self,
        at: Location,
        callee: syntax.Expression | None,
        type_arguments: Sequence[syntax.TypeRef] = (),
        constructed: syntax.TypeRef | None = None,
    ) -> syntax.Call:
        """Parse the arguments of a call of `callee`, or of a constructor."""
        arguments, names = self.arguments()
        node = syntax.Call(
            at=at,
            callee=callee,
            arguments=arguments,
            names=names,
            type_arguments=list(type_arguments),
            constructed=constructed,
        )
        if callee is not None:
            self.deepened(node, callee, *arguments)
        return node

    def deepened(self, node: syntax.Expression, *parts: syntax.Expression) -> syntax.Expression:
        """Set the depth of `node` from its parts. Raises: SyntaxFault where it is too deep."""
        depth = 0
        for part in parts:
            if part.depth > depth:
                depth = part.depth
        node.depth = depth + 1
        if node.depth > MAX_EXPRESSION_DEPTH:
            self.reporter.unsupported(
                node.at,
                f"an expression deeper than {MAX_EXPRESSION_DEPTH} operators",
                "use a variable for a part",
            )
            raise SyntaxFault
        return node

    def _operator(self) -> tuple[str, Location]:
        """Return the binary operator that is next, "" if none, without stepping over it."""
        token = self._tokens[self._at]
        if token.kind != "symbol":
            return "", token.location
        if token.text == ">":
            if self._at == self._width_end:
                return "", token.location
            if (after := self.peek()).text in (">", ">=") and token.touches(after):
                joined = ">>" if after.text == ">" else ""
                return joined, Location(token.location.source, token.location.line, token.location.column, 2)
        if token.text == "+" and self.peek().text == ":":  # of a slice
            return "", token.location
        return (token.text if token.text in _PRECEDENCE else ""), token.location

    def _operation(self, level: int) -> syntax.Expression:
        left = self._unary()
        chain: list[_Term] = []
        while True:
            op, at = self._operator()
            ends = not op or _PRECEDENCE[op] < level
            if chain and (ends or _ASSOCIATIVE.get(op, "") != _ASSOCIATIVE.get(chain[-1].op)):
                left, chain = self._chained(left, chain), []
            if ends:
                return left
            self.take()
            if op == ">>":
                self.take()
            chain.append(_Term(op, at, self._operation(_PRECEDENCE[op] + 1)))

    def _chained(self, first: syntax.Expression, chain: Sequence[_Term]) -> syntax.Expression:
        """Return operations from left to right, or halves of halves where so many would be too deep."""
        if len(chain) > _LONG_CHAIN and chain[0].op in _ASSOCIATIVE:
            return self._halved([_Term("", first.at, first), *chain])
        for op, at, operand in chain:
            first = self.deepened(syntax.BinaryOp(at=at, op=op, left=first, right=operand), first, operand)
        return first

    def _halved(self, terms: Sequence[_Term]) -> syntax.Expression:
        """Return a chain of operations as one of its first half and its second half."""
        if len(terms) == 1:
            return terms[0].operand
        op, at, _ = terms[len(terms) // 2]
        before, behind = terms[: len(terms) // 2], terms[len(terms) // 2 :]
        if op == "-":  # a - b + c is a - (b - c)
            behind = [term._replace(op=_OPPOSITE[term.op]) for term in behind]
        left, right = self._halved(before), self._halved(behind)
        return self.deepened(syntax.BinaryOp(at=at, op=op, left=left, right=right), left, right)

    def _unary(self) -> syntax.Expression:
        token = self._tokens[self._at]
        if token.kind == "symbol" and token.text in ("-", "~", "!", "+"):
            with self.nested():
                self.take()
                operand = self._unary()
                return self.deepened(
                    syntax.UnaryOp(at=token.location, op=token.text, operand=operand), operand
                )
        if token.text == "(" and self._cast_follows():
            with self.nested():
                self.take()
                target = self.type_ref()
                self.expect(")", "after the type of a cast")
                operand = self._unary()
                return self.deepened(
                    syntax.CastOp(at=token.location, target=target, operand=operand), operand
                )
        return self._postfix(self._primary())

    def _cast_follows(self) -> bool:
        following = self.peek()
        if following.text in BASE_TYPES and following.kind == "keyword":
            return following.text != "error" or self.peek(2).text == ")"
        dotted = int(following.text == ".")
        behind, after = self.peek(2 + dotted), self.peek(3 + dotted)
        if not (self.is_outermost_type(1) if dotted else self.is_type(following.text)):
            return self.sees_name(1 + dotted) and behind.text == ")" and after.text == "{"
        is_value = after.kind in ("number", "string") or self.sees_name(3 + dotted)
        starts = is_value or after.text in _CAST_OPERANDS
        return behind.text in ("<", "[") or (behind.text == ")" and starts)

    def _postfix(self, node: syntax.Expression) -> syntax.Expression:
        while True:
            token = self._tokens[self._at]
            if token.text not in _BEHIND_A_VALUE or token.kind != "symbol":
                return node
            if token.text == ".":
                self.take()
                member = self.name("a member after '.'")
                access = syntax.MemberRef(at=node.at, base=node, name=member.text, name_at=member.location)
                node = self.deepened(access, node)
            elif token.text == "[":
                node = self.deepened(self._subscript(node), node)
            elif token.text == "(":
                node = self.call(node.at, node)
            elif self._type_arguments_follow():
                self.take()
                node = self.call(node.at, node, self._type_list())
            else:
                return node

    def _subscript(self, node: syntax.Expression) -> syntax.Expression:
        at = self.take().location
        high = self.expression()
        if self.takes(":"):
            low = self.expression()
            self.expect("]", "after the slice")
            return syntax.SliceRef(at=at, base=node, high=high, low=low)
        if self.sees("+"):
            return self._slice_from(at, node, high)
        self.expect("]", "after the index")
        return syntax.IndexRef(at=at, base=node, index=high)

    def _slice_from(self, at: Location, base: syntax.Expression, low: syntax.Expression) -> syntax.Expression:
        """Parse the rest of `base[low+:width]`, which is base[low + width - 1:low]."""
        self.take()
        self.expect(":", "after '[low +'")
        width = self.expression()
        self.expect("]", "after the slice")
        end = self.deepened(syntax.BinaryOp(at=at, op="+", left=fresh(low), right=fresh(width)), low, width)
        one = syntax.Number(at=at, number=1)
        high = self.deepened(syntax.BinaryOp(at=at, op="-", left=end, right=one), end)
        return syntax.SliceRef(at=at, base=base, high=high, low=low, width=width)

    def _sees_constructor(self) -> bool:
        """Return whether a named type is next, with arguments of its constructor or type arguments."""
        dotted = self.is_outermost_type()
        is_named = dotted or (self.sees_name() and self.is_type(self.next.text))
        return is_named and self.peek(1 + dotted).text in ("(", "<")

    def _primary(self) -> syntax.Expression:
        token = self._tokens[self._at]
        if token.kind == "name" and not self.is_type(token.text):  # what most are stands first
            self.take()
            return syntax.NameRef(at=token.location, name=token.text)
        if token.kind == "number":
            return self._number(self.take())
        if token.kind == "string":
            self.take()
            return syntax.StringLiteral(at=token.location, text=token.text[1:-1])
        if token.text in ("true", "false"):
            self.take()
            return syntax.BoolLiteral(at=token.location, truth=token.text == "true")
        if token.text == "(":
            self.take()
            named = self.next
            inner = self.expression()
            self.expect(")", "to close '('")
            if isinstance(inner, syntax.NameRef) and self.next.kind in ("name", "number"):
                self.no_type(named, "a value behind parentheses is cast to the type in them")
            return inner
        if token.text == "{":
            return self._list()
        if token.text == "error" and self.peek().text == ".":
            self.take()
            return syntax.NameRef(at=token.location, name="error")
        if self._sees_constructor():
            ref = self.type_ref()
            if self.sees("."):
                return syntax.TypeName(at=token.location, ref=ref)
            return self.call(token.location, None, constructed=ref)
        if token.text == ".":
            self.take()
            name = self.name("something declared outside")
            return syntax.NameRef(at=name.location, name=name.text, absolute=True)
        if self.sees_name():
            self.take()
            return syntax.NameRef(at=token.location, name=token.text)
        if token.text == "this":
            return syntax.ThisRef(at=self.take().location)
        if token.text == "...":
            return syntax.DefaultValue(at=self.take().location)
        self.fail("expected an expression")

    def _list(self) -> syntax.Expression:
        opened = self.take()
        if self.sees("#"):
            places = [opened.location, self.take().location, self.expect("}", "to close '{#'").location]
            if any(not _touch(one, other) for one, other in pairwise(places)):
                self.reporter.error(opened.location, "there is space inside {#}", "write {#}")
            return syntax.InvalidHeader(at=opened.location)
        items: list[syntax.Expression] = []
        names: list[str] = []
        rest = False
        while not self.sees("}"):
            if self.sees("...") and self.peek().text in ("}", ","):
                rest = True
                self.take()
                self.takes(",")
                break
            if self.sees_name() and self.peek().text == "=":
                names.append(self.take().text)
                self.take()
            items.append(self.expression())
            if not self.takes(","):
                break
        self.expect("}", "to close '{'")
        if names and len(names) != len(items):
            self.reporter.error(opened.location, "either all or none of the values have names")
            raise SyntaxFault
        node = syntax.ListValue(at=opened.location, items=items, names=names or None, rest=rest)
        return self.deepened(node, *items) if items else node

    def _number(self, token: Token) -> syntax.Expression:
        number, bits, signed, fault = number_of(token.text)
        if fault:
            self.reporter.error(token.location, fault)
        return syntax.Number(at=token.location, number=number, width=bits, signed=signed)


def _touch(one: Location, other: Location) -> bool:
    """Return whether a character stands right behind another; those of a macro stand in one place."""
    return one.is_on_line_of(other) and other.column - one.column in (0, 1)
