# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "P4Info Objects": what can be asked of a description."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.errors import ControlError
from nicemu.pipeline import p4info_of


def test_tables_and_actions_are_found_by_id(hand: SimpleNamespace) -> None:
    info = p4info_of(hand.program())
    assert info.table(info.tables[0].id).alias == "forward"
    assert info.action(info.tables[0].actions[0].id).params[0].name == "port"


def test_an_unknown_id_is_not_found(hand: SimpleNamespace) -> None:
    with pytest.raises(ControlError, match="no table with id 0x02000001"):
        p4info_of(hand.program()).table(0x02000001)
