# SPDX-License-Identifier: Apache-2.0
"""Macros: what #define says, and what stands for a name in the tokens of a program.

They are expanded in the tokens, not in the text, so a message about an expansion points at its use.
Source: ISO C, "Macro replacement", as far as P4 takes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import itemgetter

from .diagnostics import Location, Reporter
from .lexer import Painted, Token, tokens_of

MAX_TOKENS = 500_000
MAX_EXPANSION_DEPTH = 64
_LINE, _FILE, _COUNTER = "__LINE__", "__FILE__", "__COUNTER__"
_REST, _OPTION = "__VA_ARGS__", "__VA_OPT__"
_COMPUTED = (_LINE, _FILE, _COUNTER)
_TEXT = itemgetter(Token._fields.index("text"))


@dataclass(frozen=True, slots=True)
class _Macro:
    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]


class TooManyTokens(Exception):  # noqa: N818  control flow, caught in `preprocess`
    """There are too many tokens: those of the macro `at` a place, or of the whole text."""

    def __init__(self, at: Location | None = None) -> None:
        super().__init__()
        self.at = at


class Macros:
    """The macros that are known at a place of a program."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._macros: dict[str, _Macro] = {name: _Macro(None, ()) for name in _COMPUTED}
        self._depth = 0
        self._asks = False
        """Whether what is expanded is a condition."""
        self._room = MAX_TOKENS
        """How many tokens an expansion may come to."""
        self._uses = 0
        self._counted = 0
        """How often __COUNTER__ has been replaced, as GNU's preprocessor counts it."""

    def __contains__(self, name: str) -> bool:
        return name in self._macros

    def put(self, name: str, body: tuple[Token, ...]) -> None:
        """Make a macro without parameters."""
        self._macros[name] = _Macro(None, body)

    def body_of(self, name: str) -> list[Token] | None:
        """Return what stands for a name alone; None if nothing does, or what depends on its place."""
        macro = self._macros.get(name)
        if macro is None or macro.parameters is not None or name in _COMPUTED:
            return None
        return self._expand(macro.body, frozenset({name}))

    def expanded(self, tokens: Sequence[Token], room: int = MAX_TOKENS) -> list[Token]:
        """Return tokens with what stands for the macros in them. Raises: TooManyTokens beyond `room`."""
        self._room = room
        return self._expand(tokens, frozenset())

    def _computed(self, token: Token) -> Token:
        """Return the line or the file that a token stands in, or the next number of __COUNTER__."""
        name, line = token.location.source.place(token.location.line)
        if token.text == _FILE:
            return Token("string", f'"{name}"', token.location)
        if token.text == _COUNTER:
            line, self._counted = self._counted, self._counted + 1
        return Token("number", str(line), token.location)

    def answered(self, tokens: Sequence[Token]) -> list[Token]:
        """Return the tokens of a condition, with 1 or 0 for each `defined` of a name."""
        self._asks = True
        result = self.expanded(tokens)
        self._asks = False
        return result

    def define(self, word: Token, rest: list[Token]) -> None:
        """Do what the rest of a #define says."""
        if not self._is_macro_name(word, rest):
            return
        name, body = rest[0], rest[1:]
        parameters = None
        if body and body[0].text == "(" and name.touches(body[0]):
            closing = next((at for at, token in enumerate(body) if token.text == ")"), None)
            if closing is None:
                self._reporter.error(body[0].location, "the parameters of this macro are not closed", "add )")
                return
            found = self._parameters(body[1:closing], body[0])
            if found is None:
                return
            parameters, rest_name = found
            body = [
                token._replace(text=_REST) if token.text == rest_name else token
                for token in body[closing + 1 :]
            ]
        if body and "##" in (body[0].text, body[-1].text):
            at = (body[0] if body[0].text == "##" else body[-1]).location
            self._reporter.error(at, "## joins two tokens; it cannot stand at an end of a macro")
            return
        takes_rest = parameters is not None and _REST in parameters
        option = next((at for at, token in enumerate(body) if token.text == _OPTION), None)
        if takes_rest and option is not None and not _closes(body, option + 1):
            self._reporter.error(
                body[option].location, f"{_OPTION} needs what stands for it", "write it as __VA_OPT__(,)"
            )
            return
        self._macros[name.text] = _Macro(parameters, tuple(body))

    def forget(self, word: Token, rest: list[Token]) -> None:
        """Do what the rest of an #undef says."""
        if self._is_macro_name(word, rest):
            self._macros.pop(rest[0].text, None)

    def _is_macro_name(self, word: Token, rest: list[Token]) -> bool:
        """Return whether #define or #undef is followed by a name that a macro may have, or report."""
        if not rest or rest[0].kind not in ("name", "keyword"):
            self._reporter.error(word.location, f"#{word.text} needs a name")
        elif rest[0].text == "defined":
            self._reporter.error(rest[0].location, "defined cannot be the name of a macro")
        else:
            return True
        return False

    def _parameters(
        self, tokens: Sequence[Token], opening: Token
    ) -> tuple[tuple[str, ...], str | None] | None:
        """Return the parameters of a macro, and what it calls all further arguments where it says `name...`;
        None if they were reported.
        """
        names, rest_name = list[str](), None
        parts: list[list[Token]] = [[]]
        for token in tokens:
            if token.text == ",":
                parts.append([])
            else:
                parts[-1].append(token)
        for place, part in enumerate(parts if tokens else ()):
            takes_rest = bool(part) and part[-1].text == "..." and place == len(parts) - 1
            named = part[:-1] if takes_rest else part
            if len(named) > 1 or not part or any(item.kind not in ("name", "keyword") for item in named):
                where = part[0] if part else opening
                self._reporter.error(
                    where.location, "a parameter of a macro is a name", "write commas between"
                )
                return None
            if named and named[0].text in names:
                what = f"two parameters of this macro are called {named[0].text}"
                self._reporter.error(named[0].location, what)
                return None
            if takes_rest and named:
                rest_name = named[0].text
            names.append(_REST if takes_rest else named[0].text)
        return tuple(names), rest_name

    def _expand(self, tokens: Sequence[Token], hidden: frozenset[str]) -> list[Token]:
        self._depth += 1
        if self._depth > MAX_EXPANSION_DEPTH:
            raise TooManyTokens(tokens[0].location if tokens else None)
        result = self._expanded(tokens, hidden)
        self._depth -= 1
        return result

    def _expanded(self, tokens: Sequence[Token], hidden: frozenset[str]) -> list[Token]:
        at, macros = 0, self._macros
        if self._asks:
            tokens = self._asked(tokens)
        places = list(compress(count(), map(macros.__contains__, map(_TEXT, tokens))))
        if not places:
            return list(tokens)
        result: list[Token] = []
        tokens = list(tokens)
        for place in places:
            token = tokens[place]
            if place < at:  # taken as an argument already
                continue
            result += tokens[at:place]
            at = place + 1
            if token.kind not in ("name", "keyword") or isinstance(token, Painted):
                result.append(token)
                continue
            if token.text in hidden:
                result.append(Painted(*token))
                continue
            made, at = self._expansion_of(token, tokens, at, hidden)
            # what a macro became may be the name of one that takes arguments: they stand behind it
            while made and made[-1].text in macros and not isinstance(made[-1], Painted):
                last = made[-1]
                if last.text in hidden or macros[last.text].parameters is None or not _opens(tokens, at):
                    break
                further, at = self._expansion_of(last, tokens, at, hidden)
                made = [*made[:-1], *further]
            if at < len(tokens):
                follows = tokens[at - 1].touches(tokens[at])
                if not made and result and not (follows and result[-1].touches(token)):
                    tokens[at] = tokens[at]._replace(close=False)
                elif follows and (made or result):
                    nearest = made or result
                    nearest[-1] = _up_to(nearest[-1], tokens[at])
            result += made
            if len(result) > self._room:
                raise TooManyTokens(token.location)
        result += tokens[at:]
        return result

    def _asked(self, tokens: Sequence[Token]) -> list[Token]:
        """Return the tokens of a condition with 1 or 0 for each `defined`, whose name stays as it is."""
        result: list[Token] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            at += 1
            if token.text == "defined":
                opened = _opens(tokens, at)
                asked = tokens[at + opened : at + opened + 1]
                at += 1 + opened
                if not asked or asked[0].kind not in ("name", "keyword"):
                    self._reporter.error(
                        token.location, "defined needs the name of a macro", "write defined(NAME)"
                    )
                elif opened and _texts(tokens[at : at + 1]) != [")"]:
                    self._reporter.error(token.location, "the name behind defined( is never closed", "add )")
                at += opened
                token = Token(
                    "number", str(int(bool(asked) and asked[0].text in self._macros)), token.location
                )
            result.append(token)
        return result

    def _expansion_of(
        self, token: Token, tokens: Sequence[Token], at: int, hidden: frozenset[str]
    ) -> tuple[list[Token], int]:
        """Return what the name of a macro becomes, `tokens` from `at` on being behind it, and what is behind
        that.
        """
        self._uses += 1
        if self._uses > MAX_TOKENS:  # they may leave nothing
            raise TooManyTokens(token.location)
        macro = self._macros[token.text]
        if token.text in _COMPUTED:
            return [self._computed(token)], at
        body: Sequence[Token] = macro.body
        if macro.parameters is not None:
            if not _opens(tokens, at):
                return [token], at
            arguments, commas, at, is_closed = _arguments(tokens, at)
            if not is_closed:
                what = f"the arguments of macro {token.text} are never closed"
                self._reporter.error(token.location, what, "write ')' behind them")
                return [], at
            arguments = _with_rest(arguments, commas, macro.parameters)
            if len(arguments) != len(macro.parameters):
                wanted, given = len(macro.parameters), len(arguments)
                self._reporter.miscounted(token.location, f"macro {token.text}", "argument", wanted, given)
                return [], at
            body = self._substituted(macro.body, dict(zip(macro.parameters, arguments, strict=True)), hidden)
        body = self._pasted(body)
        is_close = [token.close, *_closeness(body)[1:]]
        placed = [
            type(item)(item.kind, item.text, token.location, close)
            for item, close in zip(body, is_close, strict=False)
        ]
        return self._expand(placed, hidden | {token.text}), at

    def _substituted(
        self, body: Sequence[Token], given: dict[str, list[Token]], hidden: frozenset[str]
    ) -> list[Token]:
        """Return a macro's body with its arguments: text behind #, as they are beside ##, else expanded.

        All stand in one place, close to what is before them where the macro has no blank there.
        """
        expanded: dict[str, list[Token]] = {}
        if _REST in given:
            body = _with_options(body, bool(self._expand(given[_REST], hidden)))
        is_close = _closeness(body)
        result: list[Token] = []
        has_gap = False

        def put(tokens: Sequence[Token]) -> None:
            nonlocal has_gap
            for at, (item, close) in enumerate(zip(tokens, _closeness(tokens), strict=True)):
                result.append(item._replace(location=body[0].location, close=close if at else not has_gap))
            has_gap = has_gap and not tokens

        for at, item in enumerate(body):
            before, after = body[at - 1].text if at else "", body[at + 1].text if at + 1 < len(body) else ""
            has_gap = has_gap or not is_close[at]
            if item.text == "#" and after in given:
                continue
            if item.text == "," and given.get(_REST) == [] and _texts(body[at + 1 : at + 3]) == ["##", _REST]:
                continue  # goes with the arguments that are not there, as in C
            if item.text not in given:
                put([item])
            elif before == "#":
                put([Token("string", _spelt(given[item.text]), item.location)])
            elif "##" in (before, after):
                put(given[item.text] or [Token("nothing", "", item.location)])
            else:
                if item.text not in expanded:
                    expanded[item.text] = self._expand(given[item.text], hidden)
                put(expanded[item.text])
        return result

    def _pasted(self, body: Sequence[Token]) -> Sequence[Token]:
        """Return a macro's body with what stands on both sides of ## as one token.

        What does not make one token stays two: p4c's preprocessor treats P4 as it treats an assembler's text.
        """
        if all(item.text != "##" for item in body):
            return body
        result: list[Token] = []
        for at, item in enumerate(body):
            if item.text == "##":
                continue
            if result and body[at - 1].text == "##":
                parts = [result.pop()]
                before = result[-1] if result else item
                if (before.kind, parts[0].kind) == ("number", "name") and before.touches(parts[0]):
                    parts.insert(0, result.pop())  # such as 8w, which is no token of P4
                text = "".join(part.text for part in parts) + item.text
                made = tokens_of(text, item.location.source, item.location.line)
                if len(made) == 1:
                    result.append(made[0]._replace(location=parts[0].location, close=parts[0].close))
                else:
                    result += [*parts, item._replace(location=parts[-1].location, close=True)]
            else:
                result.append(item)
        return [item for item in result if item.text]


def _up_to(token: Token, following: Token) -> Token:
    """Return a token that ends where the following begins, if that stands behind it in a line."""
    here, there = token.location, following.location
    if (here.source, here.line) != (there.source, there.line) or here.column >= there.column:
        return token
    return token._replace(location=here._replace(length=there.column - here.column))


def _opens(tokens: Sequence[Token], at: int) -> bool:
    """Return whether arguments begin at a place."""
    return at < len(tokens) and tokens[at].text == "("


def _texts(tokens: Sequence[Token]) -> list[str]:
    return [token.text for token in tokens]


def _closeness(tokens: Sequence[Token]) -> list[bool]:
    """Return of each token whether nothing stands between it and the one before."""
    return [bool(at) and tokens[at - 1].touches(token) for at, token in enumerate(tokens)]


def _spelt(tokens: Sequence[Token]) -> str:
    """Return what # makes of a macro's argument: its text, with one blank where there were any."""
    blanks = ["" if close else " " for close in _closeness(tokens)]
    texts = [
        re.sub(r'["\\]', r"\\\g<0>", token.text) if token.kind == "string" else token.text for token in tokens
    ]
    words = "".join(blank + text for blank, text in zip(blanks, texts, strict=True))
    return '"' + words.lstrip() + '"'


def _with_rest(
    arguments: list[list[Token]], commas: Sequence[Token], parameters: tuple[str, ...]
) -> list[list[Token]]:
    """Return the arguments of a macro, all that its `...` takes as one, with the commas between."""
    takes_rest = parameters[-1:] == (_REST,)
    count = len(parameters) - takes_rest
    if not arguments and count == 1:
        arguments = [[]]
    if not takes_rest or len(arguments) < count:
        return arguments
    named, rest = arguments[:count], arguments[count:]
    joined: list[Token] = []
    for place, argument in enumerate(rest, len(named)):
        if place > len(named):
            joined.append(commas[place - 1])
        joined += argument
    return [*named, joined]


def _closes(tokens: Sequence[Token], at: int) -> int:
    """Return the place behind the ")" of the "(" at a place; 0 if there is none, or no "(" there."""
    if not _opens(tokens, at):
        return 0
    *_, behind, is_closed = _arguments(tokens, at)
    return behind if is_closed else 0


def _with_options(body: Sequence[Token], are_given: bool) -> Sequence[Token]:
    """Return a macro's body with what stands in each __VA_OPT__( ), or nothing where `...` took nothing."""
    result: list[Token] = []
    at = 0
    while at < len(body):
        token = body[at]
        behind = _closes(body, at + 1) if token.text == _OPTION else 0
        if behind:
            inner = body[at + 2 : behind - 1] if are_given else ()
            is_joined = "##" in _texts([*body[at - 1 : at], *body[behind : behind + 1]])
            result += inner or [Token("nothing", "", token.location)] * is_joined
        else:
            result.append(token)
        at = behind or at + 1
    return result


def _arguments(tokens: Sequence[Token], at: int) -> tuple[list[list[Token]], list[Token], int, bool]:
    """Return the arguments of the macro call whose "(" stands at `at`, the commas between them, the place
    behind its ")", and whether there is one.
    """
    arguments: list[list[Token]] = [[]]
    commas: list[Token] = []
    depth = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token.text == "(":
            depth += 1
            if depth == 1:
                continue
        elif token.text == ")":
            depth -= 1
            if depth == 0:
                break
        if token.text == "," and depth == 1:
            arguments.append([])
            commas.append(token)
        else:
            arguments[-1].append(token)
    return ([] if arguments == [[]] else arguments), commas, at, depth == 0
