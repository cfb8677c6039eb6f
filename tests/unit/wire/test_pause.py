# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nicemu.wire import MOST_QUANTA, PAUSE_MAC, MalformedError, PriorityPause

MAC = b"\x02\0\0\0\0\7"


def test_a_pause_names_priorities_and_quanta() -> None:
    frame = PriorityPause({3: MOST_QUANTA, 5: 0}).encode(MAC)
    assert frame[:12] == PAUSE_MAC + MAC
    assert frame[12:18] == bytes.fromhex("8808 0101 0028")  # MAC control, PFC, priorities 3 and 5
    assert frame[18:34] == bytes.fromhex("0000 0000 0000 ffff 0000 0000 0000 0000")
    assert len(frame) == 60
    assert PriorityPause.decode(frame) == PriorityPause({3: MOST_QUANTA, 5: 0})


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (PriorityPause({0: 1}).encode(MAC)[:33], "pause.too_short"),
        (bytes(60), "pause.ethertype"),
        (PAUSE_MAC + MAC + bytes.fromhex("8808 0001") + bytes(44), "pause.opcode"),
    ],
)
def test_what_is_none_is_refused_by_name(frame: bytes, reason: str) -> None:
    with pytest.raises(MalformedError) as caught:
        PriorityPause.decode(frame)
    assert caught.value.reason == reason
