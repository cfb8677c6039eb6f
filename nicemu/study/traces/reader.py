# SPDX-License-Identifier: Apache-2.0
"""Files of traces: found out what format they have, unpacked if need be, read row by row and no further."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import BinaryIO, Final

from nicemu.errors import UsageError

from .request import Request
from .rows import (
    AZURE_COLUMNS,
    BURSTGPT_COLUMNS,
    Row,
    Rows,
    azure_rows,
    burstgpt_rows,
    columns_of,
    mooncake_rows,
)

FORMATS: Final[dict[str, Rows]] = {
    "mooncake": mooncake_rows,
    "azure": azure_rows,
    "burstgpt": burstgpt_rows,
}
"""The formats that are read, by name."""
MOST_LINE: Final = 1 << 26
"""Characters of a line; the block names of the longest prompt that is taken need half of it."""
_GZIP = b"\x1f\x8b"


class TraceFile:
    """A trace in a file, `with TraceFile(path) as trace`; iterating gives its requests, once.

    `failed` counts the rows so far that are left out because the request failed. The first request comes at
    0 s. Raises: UsageError, with file and line, where a row is not what the format has, a request comes
    before the one above it, or there is none at all.
    """

    def __init__(self, path: Path, form: str = "auto") -> None:
        self.path = path
        self.failed = 0
        try:
            if not S_ISREG(path.stat().st_mode):
                raise UsageError(f"{path} is no file; one was expected, for a trace is read more than once")
            self._file: BinaryIO = path.open("rb")
            self._length = os.fstat(self._file.fileno()).st_size
            packed = self._file.read(2) == _GZIP
            self._file.seek(0)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from error
        unpacked: BinaryIO = gzip.GzipFile(fileobj=self._file) if packed else self._file  # type: ignore[assignment]
        self._lines = io.TextIOWrapper(unpacked, encoding="utf-8-sig", newline="")
        self._form = form

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._file.close()

    def part(self) -> float:
        """Return which part of the file has been read, 0 to 1."""
        return min(1.0, self._file.tell() / self._length) if self._length else 1.0

    def __iter__(self) -> Iterator[Request]:
        first_s = last_s = None
        try:
            for row in self._rows():
                if row.request is None:
                    self.failed += 1
                    continue
                at_s = row.request.arrival_s
                if first_s is None or last_s is None:
                    first_s = last_s = at_s
                if at_s < last_s:
                    raise UsageError(
                        f"line {row.line}: the request comes {last_s - at_s:g} s before the one above it; "
                        "sort the trace by time"
                    )
                last_s = at_s
                yield row.request._replace(arrival_s=at_s - first_s)
        except UsageError as error:
            raise UsageError(f"{self.path}: {error}") from None
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.path}: text was expected; {error}") from error
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(f"{self.path} cannot be read: {error}") from error
        if first_s is None:
            raise UsageError(f"{self.path} has no requests")

    def _rows(self) -> Iterator[Row]:
        lines = self._bounded()
        head = []
        for line in lines:
            head.append(line)
            if line.strip():
                break
        form = format_of(head[-1] if head else "") if self._form == "auto" else self._form
        return FORMATS[form](chain(head, lines))

    def _bounded(self) -> Iterator[str]:
        for number in count(1):
            line = self._lines.readline(MOST_LINE)
            if len(line) == MOST_LINE:
                raise UsageError(
                    f"line {number} has {MOST_LINE:,} characters or more; no request needs so many"
                )
            if not line:
                return
            yield line


def format_of(line: str) -> str:
    """Return the format of a trace by its first line. Raises: UsageError if it is none that is known."""
    if line.lstrip().startswith("{"):
        return "mooncake"
    columns = columns_of(line)
    for form, wanted in (("azure", AZURE_COLUMNS), ("burstgpt", BURSTGPT_COLUMNS)):
        if set(wanted) <= set(columns):
            return form
    if not line.strip():
        raise UsageError("there are no requests in it")
    raise UsageError(
        f"line 1: {line.strip()[:60]!r} begins no trace that is known; a JSON object (Mooncake), or columns "
        f"{', '.join(AZURE_COLUMNS)} (Azure) or {', '.join(BURSTGPT_COLUMNS)} (BurstGPT) were expected"
    )
