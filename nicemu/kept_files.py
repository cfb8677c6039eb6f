# SPDX-License-Identifier: Apache-2.0
"""Files that save work the next time, machine code and programs; they may be gone or damaged at any time."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

_DIGEST_BYTES = 32
"""What a file begins with: a digest of the rest, for LLVM believes what it is given."""


def cache_base() -> Path:
    """Return the folder that holds what nicemu keeps for this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nicemu"


def kept(path: Path) -> bytes | None:
    """Return what a file keeps; None where nothing is kept, or what is kept was damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, data = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return data if digest == _digest(data) else None


def keep(path: Path, data: bytes) -> None:
    """Keep data in a file, whole or not at all, whoever else does so at the same time."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        number, partial = tempfile.mkstemp(dir=path.parent)
        try:
            with open(number, "wb") as file:
                file.write(_digest(data) + data)
            os.replace(partial, path)
        except OSError:
            os.unlink(partial)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()
