# SPDX-License-Identifier: Apache-2.0
"""#include, #define, #if: files to one stream of tokens that keep their true places.

Macros are expanded in the tokens, not in the text, so a message about an expansion points at its use.
Source: P4-16 Language Specification 1.2.5, "Preprocessing"; ISO C, "Preprocessing directives", as far as P4
takes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from nicemu.programs import read_source

from .condition import Condition
from .diagnostics import Location, Reporter, did_you_mean
from .lexer import Painted, Piece, SourceText, Token, included_text, tokens_of

MAX_INCLUDE_DEPTH = 16
MAX_TOKENS = 500_000
OTHER_ARCHITECTURES = frozenset({"psa.p4", "pna.p4", "tna.p4", "ebpf_model.p4", "ubpf_model.p4"})
"""What programs for other targets include; none of it is shipped."""
MAX_FILE_BYTES = 8 << 20
MAX_EXPANSION_DEPTH = 64
_LINE, _FILE, _REST = "__LINE__", "__FILE__", "__VA_ARGS__"
_TARGET = "__TARGET_BMV2__"
"""What p4c defines as 1 for its BMv2 back end; programs for several targets ask for it."""


_WORD = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\b[A-Za-z_]\w*", re.DOTALL)
"""A word, or a comment, which has none."""
_TEXT = itemgetter(Token._fields.index("text"))
_LINE_NUMBER = re.compile(r"[0-9]{1,10}")
_DIRECTIVE = re.compile(r"^[^\S\n]*#[^\n]*(?:(?<=\\)\n[^\n]*)*", re.MULTILINE)
"""A line with a directive, and those that a backslash joins to it."""


@dataclass(frozen=True, slots=True)
class _Macro:
    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]


@dataclass(slots=True)
class _Condition:
    location: Location
    active: bool
    taken: bool
    parent_active: bool
    seen_else: bool = False


class TooMany(Exception):  # noqa: N818  control flow, caught in `preprocess`
    """There are too many tokens: those of the macro `at` a place, or of the whole text."""

    def __init__(self, at: Location | None = None) -> None:
        super().__init__()
        self.at = at


class Preprocessor:
    """Reads one program and what it includes; `include_paths` are searched in order."""

    def __init__(self, reporter: Reporter, include_paths: Sequence[Path] = ()) -> None:
        self._reporter = reporter
        self._include_paths = list(include_paths)
        self._macros: dict[str, _Macro] = {name: _Macro(None, ()) for name in (_LINE, _FILE)}
        self._output: list[Token] = []
        self._pending: list[Token] = []
        self._string: Token | None = None
        """The string that the lines taken last are in, as far as it is known."""
        self._depth = 0
        self._asks = False
        """Whether what is expanded is a condition."""
        self._within: list[Path] = []
        """The included files that are being read, each included by the one before."""
        self._once: set[Path] = set()
        """Included files that are not to be read again."""
        self.sought: dict[Path, str | None] = {}
        """Files that includes were sought in: their text, None where there was none to be read."""

    def preprocess(self, text: str, name: str, folder: Path | None, given: str = "") -> list[Token]:
        """Return the tokens of the program in `text`, the last one of kind "end"; `given` are directives that
        come before it.
        """
        file = SourceText(name, text)
        source = file.source
        self._macros[_TARGET] = _Macro(None, (Token("number", "1", Location(source, 1, 1)),))
        try:
            self._file(SourceText("<command line>", given), folder, 0)
            self._file(file, folder, 0)
        except TooMany as error:
            self._reporter.error(
                error.at or Location(source, 1, 1),
                f"the program expands to more than {MAX_TOKENS} tokens, or macros are nested too deeply",
                "look for macros that use themselves",
            )
        if self._string is not None:
            self._reporter.error(self._string.location, "this string is never closed", 'add "')
        last = len(source.lines)
        end = Location(source, max(1, last), len(source.lines[-1]) + 1 if last else 1)
        return [*self._output, Token("end", "", end)]

    def _file(self, file: SourceText, folder: Path | None, depth: int) -> None:
        if file.crowded is not None:
            what = "too many strings and comments begin in lines as long as this one"
            self._reporter.error(file.crowded, what, "break it into several")
            return
        conditions: list[_Condition] = []
        text = file.text
        at, line = 0, 1
        for directive in _DIRECTIVE.finditer(text):
            start, end = directive.span()
            self._lines(file, line, at, start, conditions)
            self._flush()
            line += text.count("\n", at, start)
            tokens = file.directive(line, start, end, MAX_TOKENS)
            if len(tokens) == MAX_TOKENS:
                raise TooMany
            line += text.count("\n", start, end)
            self._directive(tokens, conditions, folder, depth, line)
            at = end
        self._lines(file, line, at, len(text.rstrip()), conditions)
        self._flush()
        if file.unclosed is not None:
            self._reporter.error(file.unclosed, "this comment is never closed", "add */")
        for condition in conditions:
            self._reporter.error(condition.location, "this #if has no #endif", "add #endif")

    def _lines(self, file: SourceText, line: int, start: int, end: int, conditions: list[_Condition]) -> None:
        """Take in the lines between two directives, if the conditions around them hold."""
        if start < end and all(condition.active for condition in conditions):
            limit = MAX_TOKENS + 1 + file.text.count("\n", start, end)
            if file.has_long_strings or self._string is not None:
                self._pieces(file.pieces(line, start, end, limit, self._string is not None))
            else:
                self._pending += file.tokens(line, start, end, limit)
            if len(self._pending) + len(self._output) > MAX_TOKENS:
                raise TooMany

    def _pieces(self, pieces: Iterator[Piece]) -> None:
        """Take in lines between or in strings of several lines, in which directives and macros hold, too."""
        for piece in pieces:
            if self._string is None:
                self._pending += piece.tokens
                self._string = piece.quote and Token("string", '"', piece.quote)
                continue
            opened = self._string
            first, newline, rest = piece.text.partition("\n") if opened.text == '"' else ("", "", piece.text)
            text = opened.text + first + newline + _WORD.sub(self._word, rest)
            self._string = opened._replace(text=text)
            if piece.quote is not None:
                self._pending.append(opened._replace(text=text + '"'))
                self._string = None

    def _word(self, found: re.Match[str]) -> str:
        """Return what stands for a word in a string of several lines."""
        macro = self._macros.get(found[0])
        if macro is None or macro.parameters is not None or found[0] in (_LINE, _FILE):
            return found[0]
        return " ".join(token.text for token in self._expand(macro.body, frozenset({found[0]})))

    # Directives

    def _directive(
        self, tokens: list[Token], conditions: list[_Condition], folder: Path | None, depth: int, last: int
    ) -> None:
        """Do what a directive says, whose `last` line may be behind the first."""
        if len(tokens) < 2:
            return
        word, rest = tokens[1], tokens[2:]
        active = all(condition.active for condition in conditions)
        if word.text in ("if", "ifdef", "ifndef"):
            holds = active and self._condition(word, rest)
            conditions.append(_Condition(word.location, holds, holds, active))
        elif word.text in ("elif", "else", "endif"):
            self._alternative(word, rest, conditions)
        elif not active:
            return
        elif word.text == "include":
            self._include(word, rest, folder, depth)
        elif word.text == "define":
            self._define(word, rest)
        elif word.text == "undef":
            if self._is_macro_name(word, rest):
                self._macros.pop(rest[0].text, None)
        elif word.text == "error":
            self._reporter.error(word.location, f"#error {' '.join(token.text for token in rest)}")
        elif word.text == "warning":
            self._reporter.warning(word.location, f"#warning {' '.join(token.text for token in rest)}")
        elif word.text == "line" or word.kind == "number":
            self._mark(word, rest if word.text == "line" else tokens[1:], last + 1)
        elif word.text == "pragma" and _texts(rest) == ["once"]:
            self._once.update(self._within[-1:])
        elif word.text != "pragma":
            known = ("include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error")
            self._reporter.error(
                word.location, f"unknown directive #{word.text}", did_you_mean(word.text, known)
            )

    def _mark(self, word: Token, given: list[Token], first: int) -> None:
        """Have the lines from `first` on told as others, maybe of another file; flags may follow."""
        number, name, *_ = [*self._expand(given, frozenset()), None, None]
        if number is None or not _LINE_NUMBER.fullmatch(number.text) or (name and name.kind != "string"):
            hint = 'write #line 12 "file.p4"'
            self._reporter.error(word.location, "#line takes the number of a line, and maybe a file", hint)
            return
        source = word.location.source
        file = name.text[1:-1] if name else source.place(word.location.line)[0]
        source.marks.append((first, int(number.text), file))

    def _alternative(self, word: Token, rest: list[Token], conditions: list[_Condition]) -> None:
        if not conditions:
            self._reporter.error(word.location, f"#{word.text} without #if", "remove it, or add the #if")
            return
        condition = conditions[-1]
        if word.text == "endif":
            conditions.pop()
            return
        if condition.seen_else:
            self._reporter.error(word.location, f"#{word.text} after #else", "end the #if first")
        condition.seen_else = condition.seen_else or word.text == "else"
        eligible = condition.parent_active and not condition.taken
        condition.active = eligible and (word.text == "else" or self._condition(word, rest))
        condition.taken = condition.taken or condition.active

    def _condition(self, word: Token, rest: list[Token]) -> bool:
        if not rest:
            self._reporter.error(word.location, f"#{word.text} needs a condition")
            return False
        if word.text == "ifdef":
            return rest[0].text in self._macros
        if word.text == "ifndef":
            return rest[0].text not in self._macros
        self._asks = True
        tokens = self._expand(rest, frozenset())
        self._asks = False
        return bool(Condition(tokens, word, self._reporter).value())

    def _answered(self, tokens: Sequence[Token]) -> list[Token]:
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

    def _include(self, word: Token, rest: list[Token], folder: Path | None, depth: int) -> None:
        where = rest[0].location if rest else word.location
        if rest and rest[0].kind == "name":
            rest = self._expand(rest, frozenset())
        quoted = bool(rest) and rest[0].kind == "string"
        name = rest[0].text[1:-1] if quoted else _between_angles(rest)
        if not name:
            self._reporter.error(where, '#include needs <file> or "file"')
            return
        if depth >= MAX_INCLUDE_DEPTH:
            deep = f"includes are nested deeper than {MAX_INCLUDE_DEPTH}"
            self._reporter.error(where, deep, "does a file include itself?")
            return
        folders = ([folder] if quoted and folder else []) + self._include_paths
        for candidate in (place / name for place in folders):
            self.sought[candidate] = None
            try:
                if candidate.is_file() and candidate.stat().st_size <= MAX_FILE_BYTES:
                    self.sought[candidate] = text = read_source(candidate)
                    break
            except (OSError, ValueError):
                continue
        else:
            places = ", ".join(map(str, folders)) or "nowhere"
            hint = f"looked in {places}; give a further include path"
            if name in OTHER_ARCHITECTURES:
                hint = f"nicemu has no {name.removesuffix('.p4')} yet; write for nicemu.p4 (docs/p4.md)"
            self._reporter.error(where, f"cannot read {name}", hint)
            return
        same = candidate.resolve()
        if same not in self._once:
            self._within.append(same)
            self._file(included_text(name, text), candidate.parent, depth + 1)
            self._within.pop()

    def _define(self, word: Token, rest: list[Token]) -> None:
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
        self._macros[name.text] = _Macro(parameters, tuple(body))

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

    # Expansion

    def _flush(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, []
            self._output.extend(self._expand(pending, frozenset()) if self._macros else pending)

    def _expand(self, tokens: Sequence[Token], hidden: frozenset[str]) -> list[Token]:
        self._depth += 1
        if self._depth > MAX_EXPANSION_DEPTH:
            raise TooMany(tokens[0].location if tokens else None)
        result = self._expanded(tokens, hidden)
        self._depth -= 1
        return result

    def _expanded(self, tokens: Sequence[Token], hidden: frozenset[str]) -> list[Token]:
        at, macros = 0, self._macros
        if self._asks:
            tokens = self._answered(tokens)
        if macros.keys().isdisjoint(map(_TEXT, tokens)):
            return list(tokens)
        result: list[Token] = []
        for place in [place for place, token in enumerate(tokens) if token.text in macros]:
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
            made, at = self._made_of(token, tokens, at, hidden)
            # what a macro became may be the name of one that takes arguments: they stand behind it
            while made and made[-1].text in macros and not isinstance(made[-1], Painted):
                last = made[-1]
                if last.text in hidden or macros[last.text].parameters is None or not _opens(tokens, at):
                    break
                further, at = self._made_of(last, tokens, at, hidden)
                made = [*made[:-1], *further]
            result += made
            if len(result) + len(self._output) > MAX_TOKENS:
                raise TooMany(token.location)
        result += tokens[at:]
        return result

    def _made_of(
        self, token: Token, tokens: Sequence[Token], at: int, hidden: frozenset[str]
    ) -> tuple[list[Token], int]:
        """Return what the name of a macro becomes, `tokens` from `at` on being behind it, and what is behind
        that.
        """
        macro = self._macros[token.text]
        if token.text in (_LINE, _FILE):
            return [_place_of(token)], at
        body: Sequence[Token] = macro.body
        if macro.parameters is not None:
            if not _opens(tokens, at):
                return [token], at
            arguments, at, is_closed = _arguments(tokens, at)
            if not is_closed:
                what = f"the arguments of macro {token.text} are never closed"
                self._reporter.error(token.location, what, "write ')' behind them")
                return [], at
            arguments = _with_rest(arguments, macro.parameters)
            if len(arguments) != len(macro.parameters):
                wanted, given = len(macro.parameters), len(arguments)
                self._reporter.miscounted(token.location, f"macro {token.text}", "argument", wanted, given)
                return [], at
            body = self._substituted(macro.body, dict(zip(macro.parameters, arguments, strict=True)), hidden)
        body = self._pasted(body)
        placed = [
            type(item)(item.kind, item.text, token.location, close)
            for item, close in zip(body, _closeness(body), strict=True)
        ]
        return self._expand(placed, hidden | {token.text}), at

    def _substituted(
        self, body: Sequence[Token], given: dict[str, list[Token]], hidden: frozenset[str]
    ) -> list[Token]:
        """Return a macro's body with its arguments: text behind #, as they are beside ##, else expanded."""
        expanded = {name: self._expand(argument, hidden) for name, argument in given.items()}
        result: list[Token] = []
        for at, item in enumerate(body):
            before, after = body[at - 1].text if at else "", body[at + 1].text if at + 1 < len(body) else ""
            if item.text == "#" and after in given:
                continue
            if item.text == "," and given.get(_REST) == [] and _texts(body[at + 1 : at + 3]) == ["##", _REST]:
                continue  # goes with the arguments that are not there, as in C
            if item.text not in given:
                result.append(item)
            elif before == "#":
                result.append(Token("string", _spelt(given[item.text]), item.location))
            elif "##" in (before, after):
                result += given[item.text] or [Token("nothing", "", item.location)]
            else:
                result += expanded[item.text]
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


def _opens(tokens: Sequence[Token], at: int) -> bool:
    """Return whether arguments begin at a place."""
    return at < len(tokens) and tokens[at].text == "("


def _place_of(token: Token) -> Token:
    """Return the line or the file that a token stands in."""
    name, line = token.location.source.place(token.location.line)
    if token.text == _LINE:
        return Token("number", str(line), token.location)
    return Token("string", f'"{name}"', token.location)


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


def _with_rest(arguments: list[list[Token]], parameters: tuple[str, ...]) -> list[list[Token]]:
    """Return the arguments of a macro, all that its `...` takes as one, commas between."""
    if not parameters or parameters[-1] != _REST or len(arguments) < len(parameters) - 1:
        return [[]] if not arguments and len(parameters) == 1 else arguments
    named, rest = arguments[: len(parameters) - 1], arguments[len(parameters) - 1 :]
    joined: list[Token] = []
    for argument in rest:
        if joined:
            joined.append(Token("symbol", ",", joined[-1].location))
        joined += argument
    return [*named, joined]


def _arguments(tokens: Sequence[Token], at: int) -> tuple[list[list[Token]], int, bool]:
    """Return the arguments of the macro call whose "(" stands at `at`, the place behind its ")", and whether
    there is one.
    """
    arguments: list[list[Token]] = [[]]
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
        else:
            arguments[-1].append(token)
    return ([] if arguments == [[]] else arguments), at, depth == 0


def _between_angles(tokens: list[Token]) -> str:
    if not tokens or tokens[0].text != "<" or tokens[-1].text != ">":
        return ""
    return "".join(token.text for token in tokens[1:-1])
