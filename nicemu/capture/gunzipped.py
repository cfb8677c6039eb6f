# SPDX-License-Identifier: Apache-2.0
"""A gzipped file, as the one that was gzipped. Source: RFC 1952, "GZIP file format specification"."""

from __future__ import annotations

import gzip
import zlib
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nicemu.errors import ProtocolError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIP_MAGIC: Final = b"\x1f\x8b"


class Gunzipped(RawIOBase):
    """Reads what `source` holds gzipped; `source` is closed with it. It may be a pipe."""

    def __init__(self, path: Path, source: BufferedReader) -> None:
        super().__init__()
        self._path, self._source = path, source
        self._unzipped = gzip.GzipFile(fileobj=source, mode="rb")

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, room: WriteableBuffer) -> int:
        """Read some bytes into memory; return how many, 0 at the end.

        Raises: ProtocolError where the file was cut or is damaged.
        """
        try:
            data = self._unzipped.read1(memoryview(room).nbytes)
        except EOFError as error:
            raise ProtocolError(f"{self._path} ends in the middle of what was gzipped; it was cut") from error
        except (zlib.error, gzip.BadGzipFile) as error:
            raise ProtocolError(f"{self._path} is damaged: it cannot be unzipped ({error})") from error
        memoryview(room).cast("B")[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._unzipped.close()
        self._source.close()
        super().close()
