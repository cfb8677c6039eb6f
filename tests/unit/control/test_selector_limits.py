# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "ActionProfile", "Rules on Setting max_size", "One Shot Action Selector Programming"."""

from __future__ import annotations

import pytest

from nicemu.control.info_message import info_message, p4info_of_message
from nicemu.control.messages import Message, messages
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.p4 import CompileError, compile_text
from nicemu.pipeline import Program, p4info_of
from tests.unit.control.conftest import INSERT, MODIFY, Controller

SOURCE = """
#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> value; }
struct headers_t { byte_t h; }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    LIMITS action_selector(HashAlgorithm.identity, 8, 16) ways;
    action send(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    action keep() { }
    table way {
        key = { h.h.value: exact; h.h.value: selector; }
        actions = { send; @defaultonly drop; @tableonly keep; NoAction; }
        implementation = ways;
    }
    apply { way.apply(); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
BY_MEMBERS = '@selector_size_semantics("sum_of_members") @max_member_weight(5)'
INVALID, EXHAUSTED = P4RuntimeCode.INVALID_ARGUMENT, P4RuntimeCode.RESOURCE_EXHAUSTED


def program_of(limits: str) -> Program:
    return compile_text(SOURCE.replace("LIMITS", limits)).program


def controller_of(limits: str) -> Controller:
    """Return a controller of the program with four members."""
    controller = Controller(program_of(limits))
    for number in range(1, 5):
        member = {
            "action_profile_id": controller.id("action profile", "ways"),
            "member_id": number,
            "action": controller.action("send", number),
        }
        assert controller.write(INSERT, "action_profile_member", member) is None
    return controller


def code(error: ControlError | None) -> P4RuntimeCode | None:
    return error.code if error else None


def group(controller: Controller, number: int, max_size: int, *weights: int) -> Message:
    members = [{"member_id": place, "weight": weight} for place, weight in enumerate(weights, 1)]
    profile = controller.id("action profile", "ways")
    entity = {"action_profile_id": profile, "group_id": number, "members": members, "max_size": max_size}
    return messages().Entity(action_profile_group=entity).action_profile_group


def shot(controller: Controller, flow: int, *weights: int) -> Message:
    actions = [{"action": controller.action("send", 1), "weight": weight} for weight in weights]
    return messages().TableEntry(
        table_id=controller.id("table", "way"),
        match=[{"field_id": 1, "exact": {"value": bytes([flow])}}],
        action={"action_profile_action_set": {"action_profile_actions": actions}},
    )


def test_p4info_says_how_large_groups_may_be_and_what_sizes_count() -> None:
    infos = [info_message(p4info_of(program_of(text))) for text in ("", "@max_group_size(32w6)", BY_MEMBERS)]
    (plain, limited, by_members) = (info.action_profiles[0] for info in infos)
    assert (plain.max_group_size, plain.WhichOneof("selector_size_semantics")) == (0, "sum_of_weights")
    assert (limited.max_group_size, limited.WhichOneof("selector_size_semantics")) == (6, "sum_of_weights")
    assert by_members.sum_of_members.max_member_weight == 5
    assert [info_message(p4info_of_message(info)) for info in infos] == infos


@pytest.mark.parametrize(
    ("annotation", "sentence"),
    [
        ("@max_group_size", "@max_group_size needs a number"),
        ('@max_member_weight("5")', "@max_member_weight needs a number"),
        ('@selector_size_semantics("sum")', "@selector_size_semantics needs"),
    ],
)
def test_an_annotation_that_says_nothing_of_sizes_is_refused(annotation: str, sentence: str) -> None:
    with pytest.raises(CompileError) as refused:
        program_of(annotation)
    assert sentence in str(refused.value)


def test_max_size_is_above_0_and_at_most_max_group_size_where_there_is_one() -> None:
    controller = controller_of("@max_group_size(6)")
    outcomes = [
        controller.write(INSERT, "action_profile_group", group(controller, size + 1, size, 1))
        for size in (0, 7, 6, 1)
    ]
    assert list(map(code, outcomes)) == [INVALID, INVALID, None, None]
    heavy = controller.write(MODIFY, "action_profile_group", group(controller, 7, 6, 4, 3))
    assert code(heavy) is EXHAUSTED


def test_a_max_size_that_no_group_can_have_is_refused_when_the_group_is_made() -> None:
    controller = controller_of("")
    outcomes = [
        controller.write(INSERT, "action_profile_group", group(controller, size, size, 1)) for size in (9, 8)
    ]
    assert list(map(code, outcomes)) == [EXHAUSTED, None]


def test_sizes_count_members_where_the_selector_says_so() -> None:
    controller = controller_of(BY_MEMBERS)
    outcomes = [
        controller.write(INSERT, "action_profile_group", group(controller, number, 0, *weights))
        for number, weights in ((1, (5, 5, 5, 5)), (2, (5, 5, 5)), (3, (1, 1)), (4, (6,)), (5, (5,)))
    ]
    assert list(map(code, outcomes)) == [None, None, EXHAUSTED, INVALID, None]


def test_a_set_of_actions_keeps_to_max_group_size_by_weights_or_by_members() -> None:
    by_weights = controller_of("@max_group_size(6)")
    outcomes = [
        by_weights.write(INSERT, "table_entry", shot(by_weights, 1, *sizes)) for sizes in ((4, 3), (4, 2))
    ]
    assert list(map(code, outcomes)) == [INVALID, None]
    by_members = controller_of("@max_group_size(2)" + BY_MEMBERS)
    outcomes = [
        by_members.write(INSERT, "table_entry", shot(by_members, 1, *sizes))
        for sizes in ((1, 1, 1), (6,), (5, 5))
    ]
    assert list(map(code, outcomes)) == [INVALID, INVALID, None]


def test_all_sets_together_keep_to_the_size_of_their_selector() -> None:
    controller = controller_of("")
    outcomes = [controller.write(INSERT, "table_entry", shot(controller, flow, 3)) for flow in (1, 2, 3)]
    assert list(map(code, outcomes)) == [None, None, EXHAUSTED]
    assert controller.write(MODIFY, "table_entry", shot(controller, 2, 5)) is None
    assert code(controller.write(MODIFY, "table_entry", shot(controller, 2, 6))) is EXHAUSTED
    assert controller.read("table_entry", {})[1] == shot(controller, 2, 5)


def test_members_sets_and_default_entries_keep_to_the_scopes_of_their_actions() -> None:
    controller = controller_of("")
    profile, table = controller.id("action profile", "ways"), controller.id("table", "way")

    def outcomes(action: str) -> list[P4RuntimeCode | None]:
        chosen = controller.action(action)
        default = {"table_id": table, "is_default_action": True, "action": {"action": chosen}}
        one_shot = shot(controller, 1, 1)
        one_shot.action.action_profile_action_set.action_profile_actions[0].action.action_id = chosen[
            "action_id"
        ]
        one_shot.action.action_profile_action_set.action_profile_actions[0].action.ClearField("params")
        member = {"action_profile_id": profile, "member_id": 9, "action": chosen}
        return [
            code(controller.write(INSERT, "table_entry", one_shot)),
            code(controller.write(INSERT, "action_profile_member", member)),
            code(controller.write(MODIFY, "table_entry", default)),
        ]

    denied = P4RuntimeCode.PERMISSION_DENIED
    assert outcomes("drop") == [denied, denied, None]
    assert outcomes("keep") == [None, None, denied]
