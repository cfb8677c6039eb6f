# SPDX-License-Identifier: Apache-2.0
"""The words of one line of a script, taken from left to right, with messages that point at them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NoReturn

from nicemu.errors import ProtocolError
from nicemu.p4 import Diagnostic, Location, Severity, SourceFile

from .commands import Condition, Word

_WORD = re.compile(
    r"""(?P<blank>[ \t\r]+|\#.*)
      | (?P<quoted>"[^"]+")
      | (?P<address>[0-9]+(?:\.[0-9]+){3})
      | (?P<float>[0-9]+\.[0-9]+)
      | (?P<number>0[xX][0-9a-fA-F*]+|0[bB][01*]+|0[oO][0-7*]+|[0-9]+|\*)
      | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<symbol>&&&|\.\.|==|!=|<=|>=|[<>=:,./()\[\]-])""",
    re.VERBOSE,
)
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
MAX_RATE = 1e12
"""Largest rate of a meter, in packets or bytes a microsecond."""
MAX_BURST = (1 << 63) - 1
MAX_NUMBER_DIGITS = 1200
"""Longest number; 4096 bits, the widest field there is, are 1024 hexadecimal digits."""


class ScriptError(ProtocolError):
    """A script that cannot be read, or a command that the program has no place for.

    `diagnostics` holds every message, in the order of the script.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(item.render() for item in diagnostics))


def fault(location: Location, message: str, hint: str = "") -> ScriptError:
    """Return the error that says `message` of a place in the script."""
    return ScriptError((Diagnostic(Severity.ERROR, location, message, hint),))


class LineReader:
    """One line's words; every `take_` method raises ScriptError where something else stands."""

    def __init__(self, source: SourceFile, line: int, start: int = 0) -> None:
        self._source = source
        self._line = line
        text = source.lines[line - 1]
        self._words: list[tuple[str, Word]] = []
        at = start
        while at < len(text):
            found = _WORD.match(text, at)
            if found is None:
                raise fault(self._place(at), f"{text[at]!r} has no meaning in a script")
            kind = str(found.lastgroup)
            if kind != "blank":
                self._words.append(self._word(kind, found))
            at = found.end()
        self._at = 0
        self._end = self._place(len(text.rstrip()))

    def _word(self, kind: str, found: re.Match[str]) -> tuple[str, Word]:
        place = self._place(found.start(), len(found[0]))
        if len(found[0]) > MAX_NUMBER_DIGITS:
            raise fault(place, f"{len(found[0])} characters in one word; {MAX_NUMBER_DIGITS} are allowed")
        if kind == "quoted":
            return "name", Word(found[0][1:-1], place)
        return kind, Word(found[0], place)

    def _place(self, at: int, length: int = 1) -> Location:
        return Location(self._source, self._line, at + 1, length)

    @property
    def is_done(self) -> bool:
        """Whether no word is left."""
        return self._at == len(self._words)

    def sees(self, *texts: str) -> bool:
        """Return whether the next word is one of these symbols or names."""
        return not self.is_done and self._words[self._at][1].text in texts

    def sees_kind(self, kind: str) -> bool:
        """Return whether the next word is a "name", "number", "address", "float" or "symbol"."""
        return not self.is_done and self._words[self._at][0] == kind

    def takes(self, *texts: str) -> bool:
        """Step over the next word if it is one of these."""
        if self.sees(*texts):
            self._at += 1
            return True
        return False

    def takes_keyword(self, text: str) -> bool:
        """Step over the next word if it is this one, in small letters, capitals or both."""
        found = not self.is_done and self._words[self._at][1].text.lower() == text
        self._at += found
        return found

    def expected(self, what: str, hint: str = "") -> NoReturn:
        """Say that something else was expected here."""
        if self.is_done:
            raise fault(self._end, f"the line ends; {what} was expected", hint)
        word = self._words[self._at][1]
        raise fault(word.location, f"{word.text} found; {what} was expected", hint)

    def take(self, text: str) -> None:
        """Step over a symbol."""
        if not self.takes(text):
            self.expected(repr(text))

    def take_end(self) -> None:
        """Take that nothing is left."""
        if not self.is_done:
            self.expected("the end of the line")

    def take_name(self, what: str) -> Word:
        """Return a qualified name: parts joined by dots, each with an index in brackets or without."""
        first = self._take_kind("name", what)
        text = first.text
        while True:
            if self.takes("["):
                text += f"[{self.take_number('an index')}]"
                if self.sees(":"):
                    self.expected("']'", 'the name of a key that is a slice stands in quotes: "h.f[7:0]"')
                self.take("]")
            elif self.takes("."):
                text += "." + self._take_kind("name", "a name behind the dot").text
            else:
                break
        return Word(text, self._span(first, self._words[self._at - 1][1]))

    def take_pattern(self, what: str) -> Word:
        """Return a number whose digits may be `*`, or what is a value without them."""
        return self._take_kind("number", what) if self.sees_kind("number") else self.take_value(what)

    def take_value(self, what: str) -> Word:
        """Return a number without `*`, maybe with a minus before it, or an IPv4 address, with its place."""
        if self.sees_kind("address"):
            return self._take_address()
        if not self.sees("-"):
            return self.take_word(what)
        minus = self._take_kind("symbol", what)
        word = self.take_word(what)
        return Word(f"-{word.text}", self._span(minus, word))

    def take_word(self, what: str) -> Word:
        """Return a number without `*`, with its place."""
        word = self._take_kind("number", what)
        self._plain(word)
        return word

    def take_number(self, what: str) -> int:
        """Return the value of a number without `*`."""
        return self._plain(self._take_kind("number", what))

    def take_signed(self, what: str) -> int:
        """Return the value of a number without `*`, with a minus before it or without."""
        return -self.take_number(what) if self.takes("-") else self.take_number(what)

    def take_rate(self) -> tuple[float, int]:
        """Return a rate and a burst: `0.5:100`."""
        if not (self.sees_kind("float") or self.sees_kind("number")):
            self.expected("a rate and a burst, such as 0.5:100")
        word = self._words[self._at][1]
        self._at += 1
        try:
            rate = float(word.text if "." in word.text else self._plain(word))
        except OverflowError:
            rate = math.inf
        if rate > MAX_RATE:
            raise fault(word.location, f"a rate of {word.text[:40]}; {MAX_RATE:.0f} is the largest")
        self.take(":")
        burst = self._take_kind("number", "a burst")
        if self._plain(burst) > MAX_BURST:
            raise fault(burst.location, f"a burst of {burst.text[:40]}; {MAX_BURST} is the largest")
        return rate, self._plain(burst)

    def take_condition(self) -> Condition | None:
        """Return a comparison with a number, None where the line ends."""
        if self.is_done:
            return None
        for operator in COMPARISONS:
            if self.takes(operator):
                return Condition(operator, self.take_signed("a number"))
        return self.expected(f"a comparison ({' '.join(COMPARISONS)})")

    def _take_address(self) -> Word:
        word = self._take_kind("address", "an address")
        try:
            word.number()
        except ValueError:
            raise fault(word.location, f"{word.text} is no IPv4 address") from None
        return word

    def _span(self, first: Word, last: Word) -> Location:
        start, end = first.location.column, last.location.column + last.location.length
        return Location(self._source, self._line, start, end - start)

    def _take_kind(self, kind: str, what: str) -> Word:
        if not self.sees_kind(kind):
            self.expected(what)
        self._at += 1
        return self._words[self._at - 1][1]

    def _plain(self, word: Word) -> int:
        if "*" in word.text:
            raise fault(word.location, f"{word.text} has digits that may be anything; a number was expected")
        return word.number()
