# SPDX-License-Identifier: Apache-2.0
"""Where compiled code is kept: a folder for each state of the sources that it is compiled from.

numba notices a change in the file of a cached function, but not in the files of the functions and constants
that it uses. Here the name of the folder is a digest of all of them, and nothing else counts: code compiled
in one checkout serves another one, and an installed package, if their sources say the same.
Source: numba, "Notes on Caching" and NUMBA_CACHE_LOCATOR_CLASSES.
"""

from __future__ import annotations

import os
import pickle
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, ClassVar

from nicemu.kept_files import cache_base

PACKAGE = Path(__file__).resolve().parent.parent
_IMPORT = re.compile(r"^from ([\w.]+) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
_NAMES, _COMMENT = re.compile(r"(\w+)(?: as (\w+))?"), re.compile(r"#.*")
_COMPILES_SAY = (b"@hot", b"@cold", b"numba")
_COMPILES = re.compile(rb"^(?:@hot|@cold|from numba|    from numba)", re.MULTILINE)


def cache_folder() -> Path:
    """Return the folder of the code that is compiled from the sources as they are now."""
    digest = blake2b(digest_size=8)
    for source in sources_compiled(PACKAGE):
        text = source.read_bytes()
        digest.update(f"{source.relative_to(PACKAGE)} {len(text)} ".encode() + text)
    return cache_base() / digest.hexdigest()


def sources_compiled(package: Path) -> list[Path]:
    """Return the files that hot functions are written in, and all that those import, to the end."""
    return _Sources(package).compiled()


class _Sources:
    """The files of a package, each read once: most are asked about again and again."""

    def __init__(self, package: Path) -> None:
        self._package = package
        self._imports: dict[Path, list[tuple[Path, str, str]]] = {}
        self._files: dict[tuple[Path, str], Path] = {}

    def compiled(self) -> list[Path]:
        """Return what `sources_compiled` does."""
        found: set[Path] = set()
        waiting = [Path(path) for path in _python_files(self._package) if _compiles(path)]
        while waiting:
            path = waiting.pop()
            if path not in found:
                found.add(path)
                waiting += [self._file_of(place, name) for place, name, _ in self._imports_of(path)]
        return sorted(found)

    def _imports_of(self, path: Path) -> list[tuple[Path, str, str]]:
        """Return what a file imports from the package at its top: module or room, name, and its name here."""
        if path not in self._imports:
            self._imports[path] = [
                (place, name, alias or name)
                for origin, listed, single in _IMPORT.findall(path.read_text(encoding="utf-8"))
                if (place := self._place(origin, path))
                for name, alias in _NAMES.findall(_COMMENT.sub("", listed or single))
            ]
        return self._imports[path]

    def _place(self, origin: str, importer: Path) -> Path | None:
        """Return the module or room that `origin` names; None if it is not of the package."""
        name = origin.lstrip(".")
        if name != origin:
            return importer.parents[len(origin) - len(name) - 1].joinpath(*filter(None, name.split(".")))
        first, *rest = origin.split(".")
        return self._package.joinpath(*rest) if first == "nicemu" else None

    def _file_of(self, place: Path, name: str) -> Path:
        """Return the file that defines `name`, behind the doors of rooms."""
        if (place, name) not in self._files:
            self._files[place, name] = self._found(place, name)
        return self._files[place, name]

    def _found(self, place: Path, name: str) -> Path:
        for file in (place.with_suffix(".py"), place / f"{name}.py"):
            if file.is_file():
                return file
        door = place / "__init__.py"
        for further, origin, given in self._imports_of(door):
            if given == name:
                return self._file_of(further, origin)
        return door


def _python_files(package: Path) -> Iterator[str]:
    for folder, _, names in os.walk(package):
        yield from (os.path.join(folder, name) for name in names if name.endswith(".py"))


def _compiles(path: str) -> bool:
    """Return whether a file has hot functions, or tells numba something."""
    with open(path, "rb") as file:
        text = file.read()
    return any(word in text for word in _COMPILES_SAY) and _COMPILES.search(text) is not None


class CodeLocator:
    """Tells numba where the code of a hot function lies; others are left to numba's own ways."""

    hot: ClassVar[set[CodeType]] = set()
    """The functions that are meant."""

    def __init__(self, function: FunctionType, file: Path) -> None:
        self._line = function.__code__.co_firstlineno
        self._stamp = ""  # nothing is stale: the name of the folder says it all
        if file.is_relative_to(PACKAGE):
            place = file.relative_to(PACKAGE).parent
        else:  # a test's
            place = Path("elsewhere") / blake2b(os.fsencode(file), digest_size=8).hexdigest()
            self._stamp = blake2b(file.read_bytes()).hexdigest()
        self._path = own_cache_folder() / place

    @classmethod
    def from_function(cls, function: FunctionType, file: str) -> CodeLocator | None:
        """Return the locator of a function; None if it is not hot.

        Raises: RuntimeError if nothing can be written: numba would keep the code beside the source, and run
        it when what it inlines has changed.
        """
        if function.__code__ not in cls.hot:
            return None
        try:
            locator = cls(function, Path(file).resolve())
            locator.ensure_cache_path()
        except OSError as error:
            raise RuntimeError(f"nothing can be kept: {error}") from error
        return locator

    def ensure_cache_path(self) -> None:
        """Make the folder. Raises: OSError if nothing can be written there."""
        self._path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=self._path).close()

    def get_cache_path(self) -> str:
        """Return the folder of the function."""
        return str(self._path)

    def get_source_stamp(self) -> str:
        """Return what code must have been compiled from so as not to be stale."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """Return what tells functions of one name and file apart."""
        return str(self._line)


@cache
def own_cache_folder() -> Path:
    """As `cache_folder`, of the sources as they were when this process first asked."""
    return cache_folder()


_DAMAGED = (
    OSError,
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    ImportError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
)
"""What reading a file that is not whole may raise. Source: Python, "pickle", UnpicklingError."""


@cache
def warn_of_no_cache() -> None:
    """Say, once, that machine code is made anew by each process."""
    what = f"{cache_base()} cannot be written, so machine code is made anew each time, for seconds to minutes"
    warnings.warn(f"{what}; set XDG_CACHE_HOME to a folder that can be", RuntimeWarning, stacklevel=2)


@cache
def kept_code() -> Any:  # noqa: ANN401 - numba has no types
    """Return numba's cache of a function's code, but a damaged file is one that is not there, and a disk that
    takes no more keeps nothing.
    """
    from numba.core.caching import FunctionCache

    class KeptCode(FunctionCache):  # type: ignore[misc]
        def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401
            try:
                return super().load_overload(sig, target_context)
            except _DAMAGED:  # by a disk that was full, or a machine that lost its power
                self._remove()
                return None

        def save_overload(self, sig: Any, data: Any) -> None:  # noqa: ANN401
            with suppress(OSError):
                super().save_overload(sig, data)

        def _remove(self) -> None:
            """Remove index and code: a new index must not name code of the old one."""
            for file in Path(self.cache_path).glob(f"{self._impl.filename_base}.*"):
                with suppress(OSError):
                    file.unlink()

    return KeptCode
