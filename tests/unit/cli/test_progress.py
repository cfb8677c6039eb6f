# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import sys
import time

import pytest

from nicemu.cli.progress import Progress, is_terminal


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


def test_a_stream_that_is_closed_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has None for a standard stream that the shell has closed (2>&-)."""
    monkeypatch.setattr(sys, "stderr", None)
    line = Progress("entries")
    line.tell(1)
    line.end()
    assert not is_terminal(None)
