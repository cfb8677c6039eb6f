# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "ID Allocation for P4Info Objects", with ids as p4c gives them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import P4Info, allocate_ids, ir, p4info_of
from nicemu.pipeline.p4info import aliases_of


def test_ids_are_those_that_p4c_gives() -> None:
    """The two ids were read from p4c's own P4Info for a control I with table t and action fwd."""
    assert allocate_ids(0x02, {"I.t": 0}) == {"I.t": 49059515}
    assert allocate_ids(0x01, {"I.fwd": 0}) == {"I.fwd": 31384409}


def test_a_taken_id_is_followed_by_the_next_free_one() -> None:
    taken = 49059515 & 0xFFFFFF
    ids = allocate_ids(0x02, {"I.t": 0, "A.chosen": taken, "B.chosen": taken + 1})
    assert ids["I.t"] == 0x02 << 24 | taken + 2


def test_an_alias_is_the_shortest_suffix_that_nothing_else_ends_in() -> None:
    names = aliases_of(["A.t", "B.t", "A.u", "A.b.v"])
    assert names == {"A.t": "A.t", "B.t": "B.t", "A.u": "u", "A.b.v": "v"}


def test_the_description_of_a_program_comes_back_from_json(hand: SimpleNamespace) -> None:
    info = p4info_of(hand.program())
    assert P4Info.from_json(info.to_json()) == info
    assert info.table(info.tables[0].id).alias == "forward"
    assert info.action(info.tables[0].actions[0].id).params[0].name == "port"


def test_ids_chosen_by_the_program_and_scopes_are_kept(hand: SimpleNamespace) -> None:
    refs = (ir.ActionRef("C.send", table_only=True), ir.ActionRef("C.drop", default_only=True))
    info = p4info_of(hand.program(tables=(hand.table(actions=refs, id=0x77, const_default=True),)))
    table = info.tables[0]
    assert table.id == 0x02000077
    assert [ref.scope for ref in table.actions] == ["table_only", "default_only"]
    assert table.const_default_action_id == table.actions[1].id


def test_action_data_alone_is_shown_to_the_controller(hand: SimpleNamespace) -> None:
    program = hand.program()
    send = program.actions[0]
    bound = replace(send, parameters=(replace(send.parameters[0], direction=ir.Direction.IN),))
    actions = (bound, *program.actions[1:])
    assert p4info_of(replace(program, actions=actions)).actions[1].params == ()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"program": 1, "architecture": "a", "tables": [], "actions": []}']
)
def test_what_is_no_description_is_refused(text: str) -> None:
    with pytest.raises(ControlError) as caught:
        P4Info.from_json(text)
    assert caught.value.code is P4RuntimeCode.INVALID_ARGUMENT


def test_an_unknown_id_is_not_found(hand: SimpleNamespace) -> None:
    with pytest.raises(ControlError, match="no table with id 0x02000001"):
        p4info_of(hand.program()).table(0x02000001)
