# SPDX-License-Identifier: Apache-2.0
"""Every command is read, and every line that is none is pointed at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.stf import ScriptError, parse_script

LEFT_OUT = ("location",)


def told(value: Any) -> Any:  # noqa: ANN401 - any part of a command
    """Return a command's parts without their places, names and numbers as their text."""
    if hasattr(value, "__dataclass_fields__"):
        if type(value).__name__ == "Word":
            return value.text
        parts = [told(getattr(value, name)) for name in value.__dataclass_fields__ if name not in LEFT_OUT]
        return (type(value).__name__, *parts)
    return tuple(told(part) for part in value) if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("packet 0 00 0aFf", ("Packet", 0, b"\x00\x0a\xff")),
        ("PACKET 510", ("Packet", 510, b"")),
        ("expect 1 0A *f *", ("Expect", 1, "0a*f*", False)),
        ("expect 1 0a$", ("Expect", 1, "0a", True)),
        ("expect 1 0a $", ("Expect", 1, "0a", True)),
        ("expect 1 $", ("Expect", 1, "", True)),
        ("expect 1", ("Expect", 1, None, False)),
        ("no_packet", ("NoPacket",)),
        ("wait", ("Wait",)),
        ("remove all", ("RemoveAll",)),
        ("remove aLL", ("RemoveAll",)),
        (
            'add "in.t" 5 h.f:0x1* s[1].f:0b01 run(a:1, b:0x2) = $E  # why',
            (
                "Add",
                "in.t",
                5,
                (("KeyText", "h.f", "0x1*", "", None), ("KeyText", "s[1].f", "0b01", "", None)),
                ("ActionText", "run", (("a", "1"), ("b", "0x2"))),
                "$E",
            ),
        ),
        (
            "add t a:10/8 b:1..9 c:1&&&3 d:* run()",
            (
                "Add",
                "t",
                None,
                (
                    ("KeyText", "a", "10", "/", "8"),
                    ("KeyText", "b", "1", "..", "9"),
                    ("KeyText", "c", "1", "&&&", "3"),
                    ("KeyText", "d", "*", "", None),
                ),
                ("ActionText", "run", ()),
                "",
            ),
        ),
        (
            'add t "a[7:0]":10.0.0.0/8 b:-5..-1 run(c:-0x1)',
            (
                "Add",
                "t",
                None,
                (("KeyText", "a[7:0]", "10.0.0.0", "/", "8"), ("KeyText", "b", "-5", "..", "-1")),
                ("ActionText", "run", (("c", "-0x1"),)),
                "",
            ),
        ),
        ("add t run()", ("Add", "t", None, (), ("ActionText", "run", ()), "")),
        ("setdefault c.t run(a:1)", ("SetDefault", "c.t", ("ActionText", "run", (("a", "1"),)))),
        (
            "check_counter c.n(3) bytes >= 7",
            ("CheckCounter", "c.n", 3, "bytes", ("Condition", ">=", 7)),
        ),
        (
            "check_counter n(0) Packets == 1",
            ("CheckCounter", "n", 0, "packets", ("Condition", "==", 1)),
        ),
        ("check_counter n(0) BYTES == 1", ("CheckCounter", "n", 0, "bytes", ("Condition", "==", 1))),
        ("check_counter n($A)", ("CheckCounter", "n", "$A", "packets", None)),
        ("counter_read n 3", ("CounterRead", "n", 3)),
        ("counter_write n 3 1 64", ("CounterWrite", "n", 3, 1, 64)),
        ("register_read r 3", ("RegisterRead", "r", 3, None)),
        ("register_read r", ("RegisterRead", "r", None, None)),
        ("register_read r 3 != 0x10", ("RegisterRead", "r", 3, ("Condition", "!=", 16))),
        ("register_write r 3 4", ("RegisterWrite", "r", 3, 4)),
        ("register_write r 3 -0x4", ("RegisterWrite", "r", 3, -4)),
        ("register_reset r", ("RegisterReset", "r")),
        ("meter_get_rates m 1", ("MeterRead", "m", 1)),
        ("meter_set_rates m 1 0.5:4 1:9", ("MeterWrite", "m", 1, ((0.5, 4), (1.0, 9)))),
        ("meter_array_set_rates m 0.5:4 1:9", ("MeterWrite", "m", None, ((0.5, 4), (1.0, 9)))),
        ("mirroring_add 5 9", ("MirrorAdd", 5, 9, False)),
        ("mirroring_add_mc 5 9", ("MirrorAdd", 5, 9, True)),
        ("mirroring_delete 5", ("MirrorDelete", 5)),
        ("mirroring_get 5", ("MirrorRead", 5)),
        ("mc_mgrp_create 3", ("GroupCreate", 3)),
        ("mc_node_create 8 1 2 3", ("NodeCreate", 8, (1, 2, 3))),
        ("mc_node_associate 3 0", ("NodeAssociate", 3, 0)),
        ("mc_node_update 0 4", ("NodeUpdate", 0, (4,))),
    ],
)
def test_every_command_is_read(line: str, command: tuple[object, ...]) -> None:
    (found,) = parse_script(line)
    assert told(found) == command


def test_a_comment_may_stand_behind_data() -> None:
    packet, expect, any_frame = parse_script("packet 0 00 ff # why\nexpect 1 0*$# why $\nexpect 2 # any")
    assert told(packet) == ("Packet", 0, b"\x00\xff")
    assert told(expect) == ("Expect", 1, "0*", True)
    assert told(any_frame) == ("Expect", 2, None, False)


def test_blank_lines_and_comments_say_nothing() -> None:
    assert parse_script("\n  \t\n# packet 0 00\n   # more\r\n") == ()


def test_a_command_knows_its_line() -> None:
    first, second = parse_script("# why\nwait\n\n  no_packet")
    assert (first.location.line, first.location.column) == (2, 1)
    assert (second.location.line, second.location.column) == (4, 3)


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("packets 0 00", 1, "packets is no command"),
        ("packet", 8, "a port was expected behind packet: a decimal number up to 65535"),
        ("packet 0x1 00", 8, "a port was expected behind packet: a decimal number up to 65535"),
        (f"packet {'9' * 5000} 00", 8, "a port was expected behind packet: a decimal number up to 65535"),
        ("packet 65536 00", 8, "a port was expected behind packet: a decimal number up to 65535"),
        ("packet 0 00 0g", 14, "'g' found; hexadecimal digits were expected"),
        ("packet 0 00 0*", 14, "'*' found; hexadecimal digits were expected"),
        ("packet 0 00 0", 9, "3 digits found; a frame is whole bytes, two digits each"),
        ("expect 0 00 0$", 9, "3 digits found; a frame is whole bytes, two digits each"),
        ("expect 0 00$ 00", 12, "'$' found; hexadecimal digits were expected"),
        ("no_packet 1", 11, "1 found; the end of the line was expected"),
        ("remove t", 8, "t found; all was expected"),
        ("add", 4, "the line ends; the name of a table was expected"),
        ("add t h.f 0x1 run()", 11, "0x1 found; ':' was expected"),
        ("add t h.f:0x1", 14, "the line ends; a key such as h.f:0x2a, or an action such as send(port:1) was"),
        ("add t h.f:x run()", 11, "x found; a number, or * where anything matches was expected"),
        ("add t h.f:10.0.0.256 run()", 11, "10.0.0.256 is no IPv4 address"),
        ("add t h.f:10.0.0 run()", 11, "10.0 found; a number, or * where anything matches was expected"),
        ("add t h.f:1/1.2.3.4 run()", 13, "1.2.3.4 found; a number was expected"),
        ("add t h.f[7:0]:1 run()", 12, ": found; ']' was expected"),
        ("add t h.f:-0x1* run()", 12, "0x1* has digits that may be anything; a number was expected"),
        ("add t run(a)", 12, ") found; ':' was expected"),
        ("add t run(a:1 b:2)", 15, "b found; ',' was expected"),
        ("add t run(a:0x1*)", 13, "0x1* has digits that may be anything; a number was expected"),
        ("add t run() =", 14, "the line ends; a name for the entry was expected"),
        (
            "add t. run()",
            11,
            "( found; a key such as h.f:0x2a, or an action such as send(port:1) was expected",
        ),
        ("setdefault t run", 17, "the line ends; '(' was expected"),
        ("check_counter n 1", 17, "1 found; '(' was expected"),
        ("check_counter n(1) frames == 1", 20, "frames found; packets or bytes was expected"),
        ("check_counter n(1) packets", 27, "the line ends; a comparison such as == 1 was expected"),
        ("check_counter n(1) packets = 1", 28, "= found; a comparison (== != <= >= < >) was expected"),
        ("counter_write n 1 2", 20, "the line ends; bytes was expected"),
        ("register_write r 1", 19, "the line ends; a value was expected"),
        ("meter_set_rates m 1 x", 21, "x found; a rate and a burst, such as 0.5:100 was expected"),
        ("mirroring_add 5", 16, "the line ends; a port was expected"),
        ("mc_node_create 1 x", 18, "x found; a port was expected"),
        ("add t h.f:1 run() ;", 19, "';' has no meaning in a script"),
        ("wait " + "9" * 1201, 6, "1201 characters in one word; 1200 are allowed"),
    ],
)
def test_a_line_that_is_no_command_is_pointed_at(
    stf: SimpleNamespace, line: str, column: int, message: str
) -> None:
    (found,) = stf.refusal(f"wait\n{line}\n").diagnostics
    assert (found.line, found.column) == (2, column)
    assert found.message.startswith(message)


def test_a_slice_without_quotes_is_told_of_them(stf: SimpleNamespace) -> None:
    (found,) = stf.refusal("add t h.f[7:0]:1 run()").diagnostics
    assert found.hint == 'the name of a key that is a slice stands in quotes: "h.f[7:0]"'


def test_every_wrong_line_is_told_with_a_caret(stf: SimpleNamespace) -> None:
    assert str(stf.refusal("wait 1\nwait\n  nonsense")).splitlines() == [
        "script.stf:1:6: error: 1 found; the end of the line was expected",
        "    wait 1",
        "         ^",
        "script.stf:3:3: error: nonsense is no command",
        "      nonsense",
        "      ^~~~~~~~",
        *[line for line in str(stf.refusal("  nonsense")).splitlines() if "hint" in line],
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.text(st.sampled_from("0123456789abcxf*$.:,()[]=<>- \n\t#"), max_size=60),
    st.sampled_from(["", "add t "]),
)
def test_any_text_is_commands_or_is_pointed_at(text: str, before: str) -> None:
    told = ""
    try:
        parse_script(before + text)
    except ScriptError as error:
        told = str(error)
    assert told == "" or told.startswith("script.stf:")


def test_no_more_than_twenty_wrong_lines_are_told(stf: SimpleNamespace) -> None:
    assert len(stf.refusal("nonsense\n" * 100).diagnostics) == 20


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"meter_set_rates m 0 {'9' * 400}:1 1:1", "1000000000000 is the largest"),
        (f"meter_set_rates m 0 {'9' * 400}.0:1 1:1", "1000000000000 is the largest"),
        (f"meter_set_rates m 0 1:{'9' * 400} 1:1", "9223372036854775807 is the largest"),
    ],
)
def test_a_rate_and_a_burst_have_a_largest(line: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        parse_script(line)
