# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from nicemu.switch import ByteChange, byte_changes, change_lines

FRAME = bytes(range(40))


def test_an_equal_frame_has_no_changes() -> None:
    assert byte_changes(FRAME, FRAME) == []


def test_frames_of_one_length_are_compared_byte_by_byte_and_near_changes_are_one() -> None:
    after = bytearray(FRAME)
    after[3], after[6], after[20] = 0xA3, 0xA6, 0xB4
    assert byte_changes(FRAME, bytes(after)) == [
        ByteChange(3, bytes([3, 4, 5, 6]), 3, bytes([0xA3, 4, 5, 0xA6])),
        ByteChange(20, bytes([20]), 20, bytes([0xB4])),
    ]


def test_what_was_put_in_or_taken_out_is_found() -> None:
    longer = FRAME[:14] + b"\x81\x00\xff\xff" + FRAME[14:]
    assert byte_changes(FRAME, longer) == [ByteChange(14, b"", 14, b"\x81\x00\xff\xff")]
    assert byte_changes(longer, FRAME) == [ByteChange(14, b"\x81\x00\xff\xff", 14, b"")]


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_the_changes_make_one_frame_of_the_other(before: bytes, after: bytes) -> None:
    made, at = b"", 0
    for change in byte_changes(before, after):
        made += before[at : change.at_before] + change.after
        assert before[change.at_before : change.at_before + len(change.before)] == change.before
        assert after[change.at_after : change.at_after + len(change.after)] == change.after
        at = change.at_before + len(change.before)
    assert made + before[at:] == after


def test_lines_tell_places_in_hexadecimal_and_rows_of_sixteen_bytes() -> None:
    assert change_lines([ByteChange(0x1E, bytes(17), 0x22, b"\xab")]) == [
        "- 001e  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
        "- 002e  00",
        "+ 0022  ab",
    ]
