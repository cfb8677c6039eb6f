# SPDX-License-Identifier: Apache-2.0
"""Loading a script: what it may import, where it is wrong, and what it handles."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nicemu.errors import ProtocolError, UsageError
from nicemu.firmware import FirmwareError, Varbits, load_firmware, on_event, read_externs

ScriptWriter = Callable[[str], Path]
HANDLER = """
from nicemu.firmware import on_event

@on_event("hello")
async def hello(nic, event):
    pass
"""


@pytest.fixture
def script(tmp_path: Path) -> Iterator[ScriptWriter]:
    """Write a script and return its path."""
    loaded = set(sys.modules)

    def write(text: str) -> Path:
        path = tmp_path / "script.py"
        path.write_text(text)
        return path

    yield write
    for name in set(sys.modules) - loaded:
        if name.startswith("nicemu_firmware_"):
            del sys.modules[name]


def test_a_script_is_run_and_its_handlers_are_listed(script: ScriptWriter) -> None:
    registry = load_firmware(
        script(
            """
from nicemu.firmware import on_arrival, on_connect, on_disconnect, on_event, on_start

@on_event("b")
async def b(nic, event): pass

@on_event("a")
async def a(nic, event): pass

@on_arrival
async def arrival(nic, arrival): pass

@on_start
async def start(nic): pass

@on_connect
def connect(nic, connection): return {"x": 1}

@on_disconnect
def disconnect(nic, qp_num): pass
"""
        )
    )
    assert registry.names() == ["a", "b", "arrival", "start", "connect"]
    assert registry.connect is not None
    assert registry.connect(None, None) == {"x": 1}  # type: ignore[arg-type]
    assert registry.disconnect is not None
    assert registry.events["a"].__name__ == "a"


def test_decorated_functions_stay_what_they_are(script: ScriptWriter) -> None:
    registry = load_firmware(script(HANDLER + "assert hello.__name__ == 'hello'\n"))
    assert list(registry.events) == ["hello"]


def test_two_scripts_do_not_share_a_registry(script: ScriptWriter) -> None:
    first = load_firmware(script(HANDLER))
    second = load_firmware(script(HANDLER.replace("hello", "other")))
    assert (first.names(), second.names()) == (["hello"], ["other"])


@pytest.mark.parametrize("module", ["asyncio", "threading", "time", "asyncio.tasks"])
@pytest.mark.parametrize("form", ["import {}", "from {} import sleep", "def later():\n    import {} as x"])
def test_what_brings_its_own_time_is_refused_with_a_sentence(
    script: ScriptWriter, module: str, form: str
) -> None:
    path = script(HANDLER + form.format(module))
    line = 8 if form.startswith("def") else 7
    with pytest.raises(FirmwareError) as caught:
        load_firmware(path)
    assert str(caught.value) == (
        f"{path}:{line}: firmware cannot import {module}: it runs on the NIC's own scheduler; "
        "await nic.delay(...), a counter or a completion instead"
    )
    assert isinstance(caught.value, ProtocolError)


@pytest.mark.parametrize(
    "text",
    [
        "import os",
        "import numpy as np",
        "import struct, socket",
        "from nicemu.nic import SmartNic",
        "from . import x",
        "from .. import x",
        "from .firmware import Nic",
        "import nicemu",
    ],
)
def test_other_imports_are_refused_and_the_allowed_ones_named(script: ScriptWriter, text: str) -> None:
    path = script("\n" + text + HANDLER)
    with pytest.raises(
        FirmwareError, match=r"script\.py:2: firmware cannot import .*; it may import .*nicemu\.kv"
    ):
        load_firmware(path)


def test_allowed_imports_are_allowed(script: ScriptWriter) -> None:
    text = """
from __future__ import annotations
import enum, functools, itertools, math, struct, zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from nicemu.errors import ResourceError
from nicemu.kv import BLOCK_BYTES
"""
    load_firmware(script(text + HANDLER))


def test_annotations_of_a_script_mean_what_it_says_itself(script: ScriptWriter) -> None:
    """The loader's own __future__ imports are not those of the script."""
    text = "def f(x: int): pass\nassert f.__annotations__ == {'x': int}\n"
    load_firmware(script(text + HANDLER))
    with pytest.raises(FirmwareError, match=r"script\.py:3: AssertionError"):
        load_firmware(script("from __future__ import annotations\n" + text + HANDLER))


def test_a_script_may_define_dataclasses(script: ScriptWriter) -> None:
    """A dataclass with postponed annotations looks its own module up by name."""
    text = """
from __future__ import annotations
from dataclasses import dataclass
from typing import ClassVar

@dataclass
class Waiting:
    session: int
    chunks: list[int]
    limit: ClassVar[int] = 3

assert Waiting(1, [2]) == Waiting(1, [2])
"""
    registry = load_firmware(script(text + HANDLER))
    waiting = registry.events["hello"].__globals__["Waiting"]
    assert sys.modules[waiting.__module__].Waiting is waiting


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\ndef broken(:\n    pass\n", 2, "invalid syntax"),
        ("x = 1\n\nreturn 5\n", 3, "'return' outside function"),
        ("async def f():\n    pass\nawait f()\n", 3, "'await' outside function"),
        ("if True:\nx = 1\n", 2, "expected an indented block"),
        ("def f():\n    nonlocal y\n", 2, "no binding for nonlocal 'y'"),
    ],
)
def test_a_script_that_does_not_parse_is_refused_with_the_line(
    script: ScriptWriter, text: str, line: int, message: str
) -> None:
    with pytest.raises(FirmwareError, match=rf"script\.py:{line}: .*{message}"):
        load_firmware(script(text))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\ny = x / 0\n", 2, "ZeroDivisionError: division by zero"),
        ("def deep():\n    raise ValueError('bad table')\n\ndeep()\n", 2, "ValueError: bad table"),
        ("import struct\n\nstruct.pack('B', 256)\n", 3, "error: ubyte format"),
        ("exit(3)\n", 1, "SystemExit: 3"),
        ("raise SystemExit\n", 1, "SystemExit: "),
        ("from nicemu.firmware import nothing\n", 1, "ImportError: cannot import name 'nothing'"),
        ("from nicemu.firmware import on_event\n\non_event('a', 'b')\n", 3, "TypeError"),
    ],
)
def test_a_script_that_raises_is_refused_with_the_line_of_the_script(
    script: ScriptWriter, text: str, line: int, message: str
) -> None:
    with pytest.raises(FirmwareError, match=rf"script\.py:{line}: {message}"):
        load_firmware(script(text))


@pytest.mark.parametrize("text", ["", '"""Only words."""\n', "async def hello(nic, event): pass\n"])
def test_a_script_that_handles_nothing_is_refused(script: ScriptWriter, text: str) -> None:
    with pytest.raises(FirmwareError, match=r"handles nothing; decorate a coroutine with @on_event"):
        load_firmware(script(text))


@pytest.mark.parametrize("text", ["1 / 0\n", "x = 1\n"])
def test_a_refused_script_leaves_no_module_and_keeps_the_one_before(script: ScriptWriter, text: str) -> None:
    before = set(sys.modules)
    with pytest.raises(FirmwareError):
        load_firmware(script(text))
    assert set(sys.modules) == before
    load_firmware(script(HANDLER))
    (name,) = set(sys.modules) - before
    module = sys.modules[name]
    with pytest.raises(FirmwareError):
        load_firmware(script(text))
    assert sys.modules[name] is module


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FirmwareError, match=r"cannot be read: .*No such file"):
        load_firmware(tmp_path / "none.py")
    (tmp_path / "latin.py").write_bytes(b"# \xe9\n")
    with pytest.raises(FirmwareError, match="cannot be read: 'utf-8' codec"):
        load_firmware(tmp_path / "latin.py")
    (tmp_path / "null.py").write_bytes(b"x = 1\0\n")
    with pytest.raises(FirmwareError, match="null bytes"):
        load_firmware(tmp_path / "null.py")


BOTH = (
    HANDLER
    + """
from nicemu.firmware import HeaderValue, Varbits, extern

@extern("bit<8> half(in bit<8> value)")
def half(value):
    return value // 2

@extern("void fresh(out pair_t pair, out varbit<16> rest)")
def fresh():
    return HeaderValue({"a": 1, "b": 2}, True), Varbits(8, 3)
"""
)


def test_a_file_may_be_firmware_and_externs_of_a_packet_test(script: ScriptWriter) -> None:
    path = script(BOTH)
    assert load_firmware(path).names() == ["hello", "half", "fresh"]
    half, fresh = read_externs([path])
    assert half(8) == 4
    header, rest = fresh()
    assert (header.fields, header.valid, rest) == ({"a": 1, "b": 2}, True, Varbits(8, 3))


def test_firmware_that_was_read_for_its_externs_can_be_imported_by_nobody(script: ScriptWriter) -> None:
    read_externs([script(BOTH)])
    with pytest.raises(UsageError, match="firmware is loaded with `nicemu flash PATH`"):
        on_event("other")(lambda nic, event: None)  # type: ignore[type-var]


def test_firmware_without_externs_has_none_to_give(script: ScriptWriter) -> None:
    with pytest.raises(UsageError, match=r"script\.py has no function or class with @extern"):
        read_externs([script(HANDLER)])
