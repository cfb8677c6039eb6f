# SPDX-License-Identifier: Apache-2.0
"""The values of a program that controllers give as texts, where a file has them: texts there, too.

Source: P4Runtime Specification 1.4, "User-defined types".
"""

from __future__ import annotations

from nicemu.pipeline import Program

from .texts import Texts


class TextValues:
    """Values of the types of a program that are translated to texts, each of which stands for a number."""

    def __init__(self, program: Program | None, texts: Texts | None = None) -> None:
        self._texts = Texts() if texts is None else texts
        self._new_types = {
            new.name: new
            for new in (program.new_types if program else ())
            if new.translated and not new.controller_bits
        }

    def __contains__(self, type_name: str) -> bool:
        return type_name in self._new_types

    def number(self, type_name: str, value: int | str, what: str) -> int:
        """Return the number that a text stands for from now on; digits say theirs. Raises: ControlError."""
        data = str(value).encode(errors="surrogatepass")  # which is refused as any bytes that are no UTF-8
        return self._texts.number(self._new_types[type_name], data, what, allot=True)

    def text(self, type_name: str, number: int) -> str:
        """Return the text that stands for a number, its digits where none does."""
        return self._texts.text(self._new_types[type_name], number).decode(errors="replace")

    def has_text(self, type_name: str, number: int) -> bool:
        """Return whether a value's text is another than the digits of its number."""
        return type_name in self and self.text(type_name, number) != str(number)
