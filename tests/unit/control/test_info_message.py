# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest

from nicemu.control.info_message import info_message, p4info_of_message
from nicemu.control.messages import Message
from nicemu.errors import ControlError
from nicemu.pipeline import Program, p4info_of


def test_a_description_survives_the_message(routing: Program) -> None:
    assert p4info_of_message(info_message(p4info_of(routing))) == p4info_of(routing)


def test_everything_of_a_switch_survives_the_message(switch: Program) -> None:
    own = p4info_of(switch)
    message = info_message(own)
    assert p4info_of_message(message) == own
    assert message.registers[1].type_spec.struct.name == "pair_t"
    assert message.type_info.structs["learn_t"].members[1].type_spec.bitstring.bit.bitwidth == 9
    matches = [(item.match[0].name, item.match[0].bitwidth, item.size) for item in message.value_sets]
    assert matches == [("", 8, 4)]
    assert [meter.spec.unit for meter in message.meters] == [1]
    assert [counter.spec.unit for counter in message.counters] == [3]
    assert [profile.with_selector for profile in message.action_profiles] == [False, True]
    assert message.action_profiles[1].HasField("sum_of_weights")


def test_a_table_shows_its_kinds_of_match_scopes_and_constness(routing: Program) -> None:
    message = info_message(p4info_of(routing))
    tables = {table.preamble.name: table for table in message.tables}
    assert [field.match_type for field in tables["R.acl"].match_fields] == [4, 5]
    assert [ref.scope for ref in tables["R.session"].action_refs] == [1, 2]
    assert tables["R.fixed"].is_const_table
    assert tables["R.fixed"].const_default_action_id == tables["R.fixed"].action_refs[1].id
    assert tables["R.route"].size == 100
    assert tables["R.route"].preamble.alias == "route"


def test_every_table_of_a_nic_has_a_direct_counter(routing: Program) -> None:
    message = info_message(p4info_of(routing))
    owners = {counter.preamble.id: counter.direct_table_id for counter in message.direct_counters}
    assert {table.direct_resource_ids[0]: table.preamble.id for table in message.tables} == owners
    assert {counter_id >> 24 for counter_id in owners} == {0x13}


def _unknown_action(message: Message) -> None:
    message.tables[0].action_refs[0].id = 99


def _action_twice(message: Message) -> None:
    message.actions.add().CopyFrom(message.actions[0])


def _table_twice(message: Message) -> None:
    message.tables.add().CopyFrom(message.tables[0])


def _unheard_of_match(message: Message) -> None:
    message.tables[0].match_fields[0].match_type = 7


def _foreign_match(message: Message) -> None:
    message.tables[0].match_fields[0].other_match_type = "selector"


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_unknown_action, "refers to an action of id 99"),
        (_action_twice, "occurs twice: R.drop, R.drop"),
        (_table_twice, "occurs twice: R.acl, R.acl"),
        (_unheard_of_match, "has match type 7; the pipeline has exact (2)"),
        (_foreign_match, "has match type selector"),
    ],
)
def test_a_contradictory_message_is_refused(
    routing: Program, spoil: Callable[[Message], None], sentence: str
) -> None:
    message = info_message(p4info_of(routing))
    spoil(message)
    with pytest.raises(ControlError) as refused:
        p4info_of_message(message)
    assert sentence in str(refused.value)


def test_an_unknown_scope_is_taken_as_both(routing: Program) -> None:
    message = info_message(p4info_of(routing))
    message.tables[0].action_refs[0].scope = 77
    assert p4info_of_message(message).tables[0].actions[0].scope == "both"
