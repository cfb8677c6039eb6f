# SPDX-License-Identifier: Apache-2.0
"""Where in a script an error came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from nicemu.firmware import Nic, load_firmware, place_of

SCRIPT = """\
from nicemu.firmware import on_event


@on_event("e")
async def handle(nic, event):
    broken()


def broken():
    raise ValueError("boom")
"""


def test_a_fault_names_the_innermost_line_of_the_script(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    handler = load_firmware(path).events["e"]
    coroutine = handler(Nic.__new__(Nic), None)
    with pytest.raises(ValueError, match="boom") as raised:
        coroutine.send(None)
    assert place_of(raised.value) == f" ({path}:10)"


def test_a_fault_from_elsewhere_has_no_place() -> None:
    assert place_of(None) == ""
    assert place_of(ValueError("never raised")) == ""
