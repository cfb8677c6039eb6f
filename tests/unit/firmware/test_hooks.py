# SPDX-License-Identifier: Apache-2.0
"""The plain functions of a script, its top level, and what decorators take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nicemu.errors import ResourceError
from nicemu.firmware import FirmwareError, FirmwareOverrun, HookError, load_firmware

if TYPE_CHECKING:
    from tests.unit.firmware.conftest import Core


@contextmanager
def overrun_inside() -> Iterator[None]:
    """A guard whose budget is over at once."""
    yield
    raise FirmwareOverrun("it did not return within 0.1 s")


def test_a_hook_is_called_within_the_budget_of_a_step(make_core: Callable[..., Core]) -> None:
    assert make_core().scheduler.call("on_connect", lambda: {"x": 1}) == {"x": 1}
    core = make_core(overrun_inside)
    with pytest.raises(HookError, match=r"@on_connect failed: it did not return within 0\.1 s") as raised:
        core.scheduler.call("on_connect", lambda: {"x": 1})
    assert raised.value.fault == "firmware.overrun"
    assert core.scheduler.faults == {"firmware.overrun": 1}


@pytest.mark.parametrize(
    ("error", "fault"), [(ZeroDivisionError("no"), "ZeroDivisionError"), (SystemExit(2), "SystemExit")]
)
def test_a_hook_that_raises_is_counted_by_name(core: Core, error: BaseException, fault: str) -> None:
    def hook() -> None:
        raise error

    with pytest.raises(HookError, match=f"@on_disconnect failed: {fault}: "):
        core.scheduler.call("on_disconnect", hook)
    assert core.scheduler.faults == {f"firmware.{fault}": 1}


def test_a_hook_refuses_with_an_error_of_nicemu_which_is_no_fault(core: Core) -> None:
    def hook() -> None:
        raise ResourceError("no slot left")

    with pytest.raises(ResourceError, match="no slot left"):
        core.scheduler.call("on_connect", hook)
    assert not core.scheduler.faults


@pytest.mark.parametrize("decorator", ["on_event('x')", "on_arrival", "on_start"])
def test_a_handler_must_be_a_coroutine(tmp_path: Path, decorator: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"from nicemu.firmware import *\n@{decorator}\ndef handle(*operands): pass\n")
    with pytest.raises(FirmwareError, match=r"script\.py:2: .* takes a coroutine: write `async def` handle"):
        load_firmware(script)


@pytest.mark.parametrize("decorator", ["on_connect", "on_disconnect"])
def test_a_hook_must_be_a_plain_function(tmp_path: Path, decorator: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"from nicemu.firmware import *\n@{decorator}\nasync def hook(*operands): pass\n")
    with pytest.raises(FirmwareError, match=r"script\.py:2: .* takes a plain function: write `def` hook"):
        load_firmware(script)


def test_a_script_whose_top_level_does_not_return_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from nicemu.firmware import on_start\n@on_start\nasync def start(nic): pass\n")
    with pytest.raises(FirmwareError, match=r"script\.py:0: FirmwareOverrun: it did not return"):
        load_firmware(script, overrun_inside)
