# SPDX-License-Identifier: Apache-2.0
"""Texts that stand for values of translated types.

A text stands for a number from its first use on: in decimal digits for the number that it says, else for the
smallest one that no text stands for yet, and 0, which is also what was never written, last. A program that
takes over entries takes over what their texts mean; where no number is left, those that nothing names any
more are given back. To show a number gives it no text: what packets bring uses nothing up.
Source: P4Runtime Specification 1.4, "User-defined types", "PSA Metadata Translation".
"""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import ir

from .refusals import illegal
from .value_text import MAX_TEXT_BYTES

MAX_TEXTS = 65_536
"""Texts that stand for numbers, for each translation."""
MAX_DIGITS = 1_234
"""Digits of the largest number there is, of 4096 bits."""


class UnknownTextError(ControlError):
    """A text that stands for no number yet, where none is to be found for it."""


class NoNumberLeftError(ControlError):
    """All numbers of a type have texts: RESOURCE_EXHAUSTED."""


@dataclass(slots=True)
class _Texts:
    numbers: dict[bytes, int] = field(default_factory=dict)
    texts: dict[int, bytes] = field(default_factory=dict)
    next_free: int = 1

    def keep(self, text: bytes, number: int) -> None:
        """Let a text stand for a number; one more than there may be goes on saying its number."""
        if len(self.texts) < MAX_TEXTS:
            self.numbers[text], self.texts[number] = number, text

    def only(self, numbers: Container[int]) -> _Texts:
        """Return these texts without those of other numbers."""
        kept = {number: text for number, text in self.texts.items() if number in numbers}
        return _Texts({text: number for number, text in kept.items()}, kept)

    def forget(self, text: bytes) -> None:
        """Give the number of a text back."""
        number = self.numbers.pop(text)
        del self.texts[number]
        self.next_free = min(self.next_free, max(number, 1))


_NONE = _Texts()


class _Batch:
    """Texts that the updates of a batch bring: how many updates name each, and which each update names."""

    def __init__(self) -> None:
        self.place = 0
        """Of the update that is looked at."""
        self.met: set[tuple[str, int]] = set()
        """Numbers of all texts that updates name."""
        self._uses: dict[tuple[str, bytes], int] = {}
        self._named: dict[int, list[tuple[str, bytes]]] = {}

    def name(self, translation: str, text: bytes, *, is_new: bool) -> None:
        """Note that the update names a text; those that were known before do not matter."""
        key = translation, text
        if is_new or key in self._uses:
            self._uses[key] = self._uses.get(key, 0) + 1
            self._named.setdefault(self.place, []).append(key)

    @property
    def brings(self) -> bool:
        """Whether a text is new."""
        return bool(self._uses)

    def refuse(self, place: int) -> Iterator[tuple[str, bytes]]:
        """Yield the texts that nobody names any more when an update is refused."""
        for key in self._named.pop(place, ()):
            self._uses[key] -= 1
            if not self._uses[key]:
                del self._uses[key]
                yield key


class Texts:
    """Which text stands for which number, for each translation by its URI, or by its type where that is
    empty.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Texts] = {}
        self._lock = threading.Lock()
        self._batch: _Batch | None = None
        self._shown: set[tuple[str, int]] | None = None

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Note meanwhile which update of a batch brings which text, so that it can be refused."""
        self._batch = _Batch()
        try:
            yield
        finally:
            self._batch = None

    def look_at(self, place: int) -> None:
        """Take texts for those of the update at this place."""
        assert self._batch is not None
        self._batch.place = place

    def refuse(self, place: int) -> None:
        """Forget the texts that an update brought, but for those that others name."""
        assert self._batch is not None
        with self._lock:
            for translation, text in self._batch.refuse(place):
                self._known[translation].forget(text)

    @property
    def brings(self) -> bool:
        """Whether the present batch names texts that were not known before."""
        return self._batch is not None and self._batch.brings

    @contextmanager
    def only_what_is_shown(self) -> Iterator[None]:
        """Forget in the end all texts but those of numbers shown meanwhile and of the present batch."""
        self._shown = set()
        try:
            yield
            with self._lock:
                used = self._shown | (self._batch.met if self._batch is not None else set())
                self._known = {
                    translation: known.only({number for owner, number in used if owner == translation})
                    for translation, known in self._known.items()
                }
        finally:
            self._shown = None

    def at_present(self) -> TextsOfNow:
        """Return the texts as they are now, whichever are given back later."""
        return TextsOfNow(self, self._known)

    def number(self, new: ir.NewType, text: bytes, what: str, *, allot: bool) -> int:
        """Return the number that a text stands for; one that is new gets one if they are to `allot` one.

        Raises: ControlError: OUT_OF_RANGE for an empty text and a number too wide, INVALID_ARGUMENT for what
        is no text, RESOURCE_EXHAUSTED if no number is left; UnknownTextError.
        """
        _check_text(text, what)
        assert isinstance(new.type, ir.Bits)
        width = new.type.width
        with self._lock:
            translation = new.uri or new.name
            known = self._known.setdefault(translation, _Texts())
            number = known.numbers.get(text)
            is_new = number is None
            if number is None:
                number = _meant(text, width)
                if number is None or number in known.texts:
                    if not allot:
                        raise UnknownTextError(P4RuntimeCode.NOT_FOUND, f"{what}: nothing is called {text!r}")
                    number = self._allotted(known, width, what)
                if allot:
                    known.keep(text, number)
            if self._batch is not None and text in known.numbers:
                self._batch.name(translation, text, is_new=is_new)
                self._batch.met.add((translation, number))
            if number >> width:
                raise ControlError(
                    P4RuntimeCode.OUT_OF_RANGE, f"{what} is bit<{width}>; {text!r} stands for {number}"
                )
            return number

    def text(self, new: ir.NewType, number: int) -> bytes:
        """Return the text that stands for a number, for one without a text its decimal digits, behind '#'
        where these stand for another.
        """
        with self._lock:
            return self.show(self._known, new.uri or new.name, number)

    def show(self, all_known: Mapping[str, _Texts], translation: str, number: int) -> bytes:
        """Return what stands for a number in what was `all_known` at some time."""
        shown = self._shown  # another thread may end the look meanwhile
        if shown is not None:
            shown.add((translation, number))
        known = all_known.get(translation, _NONE)
        text = known.texts.get(number)
        if text is None:
            text = str(number).encode()
            while text in known.numbers:
                text = b"#" + text
        return text

    def _allotted(self, known: _Texts, width: int, what: str) -> int:
        while known.next_free in known.texts:
            known.next_free += 1
        if known.next_free >> width and 0 not in known.texts:
            return 0
        if known.next_free >> width or len(known.texts) >= MAX_TEXTS:
            raise NoNumberLeftError(
                P4RuntimeCode.RESOURCE_EXHAUSTED,
                f"{what} is bit<{width}>, and {len(known.texts)} texts stand for its values; no more can",
            )
        return known.next_free


class TextsOfNow:
    """What stands for numbers at one time: what is read then and told later says what it was."""

    def __init__(self, texts: Texts, known: Mapping[str, _Texts]) -> None:
        self._texts, self._known = texts, known

    def text(self, new: ir.NewType, number: int) -> bytes:
        """See `Texts`."""
        return self._texts.show(self._known, new.uri or new.name, number)


def _meant(text: bytes, width_bits: int) -> int | None:
    """Return the number that a text says in decimal digits, as few as there can be, None if it says none.

    As in what is shown, '#' may stand before them.
    """
    text = text.lstrip(b"#")
    plain = text.isdigit() and (text == b"0" or not text.startswith(b"0")) and len(text) <= MAX_DIGITS
    number = int(text) if plain else None
    return number if number is not None and not number >> width_bits else None


def _check_text(text: bytes, what: str) -> None:
    if not text:
        raise ControlError(P4RuntimeCode.OUT_OF_RANGE, f"{what}: the text is empty")
    if len(text) > MAX_TEXT_BYTES:
        sentence = f"{what}: the text has {len(text)} bytes; {MAX_TEXT_BYTES} are allowed"
        raise ControlError(P4RuntimeCode.OUT_OF_RANGE, sentence)
    try:
        text.decode()
    except UnicodeDecodeError:
        raise illegal(f"{what} is a text; bytes that are no UTF-8 were given") from None
    if b"\0" in text:
        raise illegal(f"{what} is a text; one with a zero byte was given")
