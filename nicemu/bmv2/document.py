# SPDX-License-Identifier: Apache-2.0
"""Values of a BMv2 JSON file, each with the path to it; nothing in the file is trusted."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nicemu.errors import ProtocolError
from nicemu.pipeline import ir, json_of

MAX_FILE_BYTES = 64 << 20
"""Largest file that is taken."""

_HEXSTR = re.compile(r"(-?)(?:0[xX]|(?=[0-9a-fA-F]))([0-9a-fA-F]*)")


ROOT = "$"
"""The path of the whole document."""


class Bmv2Error(ProtocolError):
    """A BMv2 JSON program that cannot be taken: where the fault is, what was found, what was expected."""

    def __init__(self, name: str, path: str, sentence: str) -> None:
        self.name, self.path = name, path
        super().__init__(f"{name} {sentence}" if path == ROOT else f"{name}: {path} {sentence}")


@dataclass(frozen=True, slots=True)
class Json:
    """A value, and where it stands in which file."""

    value: Any
    path: str
    name: str

    def fault(self, sentence: str) -> Bmv2Error:
        """Return the error for a fault here; `sentence` goes on behind the path."""
        return Bmv2Error(self.name, self.path, sentence)

    def unsupported(self, construct: str) -> Bmv2Error:
        """Return the error for something legal that nicemu does not take."""
        return self.fault(f"is not supported by nicemu yet: {construct}")

    def get(self, key: str) -> Json | None:
        """Return a member of an object, None where it is missing or null."""
        if not isinstance(self.value, dict):
            raise self._wrong("an object")
        found = self.value.get(key)
        return None if found is None else Json(found, f"{self.path}.{key}", self.name)

    def __getitem__(self, key: str) -> Json:
        found = self.get(key)
        if found is None:
            raise self.fault(f"has no {key}")
        return found

    @property
    def is_object(self) -> bool:
        """Whether this is an object."""
        return isinstance(self.value, dict)

    def members(self) -> list[tuple[str, Json]]:
        """Return the members of an object; those that are null are among them."""
        if not isinstance(self.value, dict):
            raise self._wrong("an object")
        return [(key, Json(item, f"{self.path}.{key}", self.name)) for key, item in self.value.items()]

    def items(self, count: int | None = None) -> list[Json]:
        """Return the items of a list, of which there must be `count`."""
        if not isinstance(self.value, list):
            raise self._wrong("a list")
        if count is not None and len(self.value) != count:
            raise self.fault(f"has {len(self.value)} items; {count} were expected")
        return [Json(item, f"{self.path}[{index}]", self.name) for index, item in enumerate(self.value)]

    def list(self, key: str) -> list[Json]:
        """Return the items of a member that may be left out."""
        found = self.get(key)
        return [] if found is None else found.items()

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str) or len(self.value) > 4096:
            raise self._wrong("a text")
        return self.value

    def number(self, low: int = 0, high: int = (1 << 31) - 1) -> int:
        """Return a number from `low` to `high`."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
            raise self._wrong(f"a number from {low} to {high}")
        return self.value

    def flag(self) -> bool:
        """Return a truth value; 0 and 1 are such, too."""
        if self.value not in (True, False) or isinstance(self.value, float):
            raise self._wrong("true or false")
        return bool(self.value)

    def hexstr(self) -> int:
        """Return the number that a hexadecimal text stands for; BMv2 takes one without "0x", too."""
        found = _HEXSTR.fullmatch(self.value) if isinstance(self.value, str) else None
        if found is None or len(found[2]) > ir.MAX_WIDTH_BITS // 4 + 2:
            raise self._wrong(f'a hexadecimal text such as "0x0a" of {ir.MAX_WIDTH_BITS} bits at most')
        return int(found[1] + (found[2] or "0"), 16)

    def unsigned_hexstr(self) -> int:
        """Return the number of a text that BMv2 takes as bytes, where a sign has no meaning."""
        number = self.hexstr()
        if self.value.startswith("-"):
            raise self.fault(
                f"is {self.value}; BMv2 takes no sign here, so write the bits in two's complement"
            )
        return number

    def choice(self, allowed: Sequence[str]) -> str:
        """Return a text that is one of those allowed."""
        if self.value not in allowed:
            raise self._wrong(f"one of {', '.join(allowed)}")
        return str(self.value)

    def _wrong(self, wanted: str) -> Bmv2Error:
        return self.fault(f"is {self.shown}; {wanted} was expected")

    @property
    def shown(self) -> str:
        """The value as people read it."""
        if isinstance(self.value, dict | list):
            return "an object" if isinstance(self.value, dict) else "a list"
        text = json.dumps(self.value)
        return text if len(text) <= 60 else text[:57] + "..."


def document_of(text: str | bytes, name: str) -> Json:
    """Return the whole file. Raises: Bmv2Error unless it is an object of format version 2 or of none."""
    if len(text) > MAX_FILE_BYTES:
        raise Bmv2Error(name, ROOT, f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        value = json_of(text)
    except RecursionError:
        raise Bmv2Error(name, ROOT, "is nested too deeply") from None
    except ValueError as error:
        raise Bmv2Error(name, ROOT, f"is not JSON: {error}") from None
    document = Json(value, ROOT, name)
    if not document.is_object:
        raise document.fault(f"is {document.shown}; the object that p4c-bm2-ss writes was expected")
    about = document.get("__meta__")
    if about is None and not {"parsers", "pipelines", "header_types"} <= value.keys():
        raise document.fault("has no __meta__; the JSON that p4c-bm2-ss writes was expected")
    version = about.get("version") if about is not None else None
    if version is not None and version.items(2)[0].value != 2:
        raise version.fault(f"is {version.value}; version 2 of the format was expected")
    return document
