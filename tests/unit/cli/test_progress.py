# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import sys
import time

import pytest

from nicemu.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "told"), [(Terminal, "\r1,024 entries\r"), (io.StringIO, "")])
def test_progress_is_told_once_a_second_and_on_a_terminal_alone(
    stream: type[io.StringIO], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([5.0, 5.5, 6.1, 6.2])
    written = stream()
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    monkeypatch.setattr(sys, "stderr", written)
    line = Progress("entries")
    for count in (512, 1024, 2048):
        line.tell(count)
    line.end()
    monkeypatch.undo()
    assert written.getvalue() == told
