# SPDX-License-Identifier: Apache-2.0
"""The file of a sweep: JSON lines, what it is about first, then what each point gave, as it came."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from nicemu import __version__
from nicemu.errors import UsageError

FORMAT = 1


class SweepFile:
    """Reads what a file has, and adds to it; without a path nothing is kept. One sweep at a time has it.

    `outcomes`: point, figures and refusal of each point that it had. A last line that was cut, because the
    sweep was killed while it wrote, is taken away.
    Raises: UsageError if it is of another sweep, in use, or cannot be read or written.
    """

    def __init__(self, path: Path | None, about: Mapping[str, object]) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self.outcomes: list[tuple[dict[str, Any], dict[str, float], str]] = []
        if path is None:
            return
        head = {"nicemu_sweep": FORMAT, "version": __version__, **json.loads(json.dumps(about))}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():
                raise UsageError(f"{path} is no file; give one to --out, for a sweep reads what it has")
            self._file = path.open("ab+")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"{path} is in use: another sweep adds to it") from None
            self._read(head)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def _read(self, head: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.seek(0)
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            self._file.truncate(len(whole))
        lines = whole.splitlines()
        if not lines:
            self._write(head)
            return
        found = self._line(1, lines[0])
        if not isinstance(found, dict) or "nicemu_sweep" not in found:
            raise UsageError(f"{self._path} is no file of a sweep; give another one to --out")
        differs = [name for name in head if found.get(name) != head[name]]
        if differs:
            name = differs[0]
            raise UsageError(
                f"{self._path} is of another sweep: its {name} is {json.dumps(found.get(name))}, not "
                f"{json.dumps(head[name])}; give another file to --out"
            )
        for number, line in enumerate(lines[1:], start=2):
            entry = self._line(number, line)
            try:
                figures = {str(name): float(value) for name, value in entry.get("figures", {}).items()}
                self.outcomes.append((dict(entry["point"]), figures, str(entry.get("refused", ""))))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise UsageError(f"{self._path}, line {number}: no point of a sweep") from error

    def _line(self, number: int, line: bytes) -> Any:  # noqa: ANN401 - what JSON holds
        try:
            return json.loads(line)
        except ValueError as error:
            raise UsageError(f"{self._path}, line {number}: {error}") from error

    def add(self, point: Mapping[str, Any], figures: Mapping[str, float], refused: str) -> None:
        """Write down what a point gave. Raises: UsageError if the file takes no more."""
        said = {"refused": refused} if refused else {"figures": dict(figures)}
        self._write({"point": dict(point), **said})

    def _write(self, entry: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(entry).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise UsageError(f"{self._path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
