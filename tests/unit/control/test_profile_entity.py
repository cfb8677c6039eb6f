# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "ActionProfileMember & ActionProfileGroup", "One Shot Action Selector Programming"."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from nicemu.control.messages import messages
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Disposition, profiles

Controller: TypeAlias = Any
"""The class of that name in conftest.py."""
INSERT, MODIFY, DELETE = 1, 2, 3
INVALID, NOT_FOUND = P4RuntimeCode.INVALID_ARGUMENT, P4RuntimeCode.NOT_FOUND


def code(error: ControlError | None) -> P4RuntimeCode | None:
    return error.code if error else None


def member(controller: Controller, number: int, port: int, profile: str = "ways") -> dict[str, object]:
    return {
        "action_profile_id": controller.id("action profile", profile),
        "member_id": number,
        "action": controller.action("send", port),
    }


def group(
    controller: Controller, number: int, *members: tuple[int, int], **rest: object
) -> dict[str, object]:
    return {
        "action_profile_id": controller.id("action profile", "ways"),
        "group_id": number,
        "members": [{"member_id": one, "weight": weight} for one, weight in members],
        **rest,
    }


def way(controller: Controller, flow: int, **action: object) -> dict[str, object]:
    match = [{"field_id": 1, "exact": {"value": bytes([flow])}}]
    return {"table_id": controller.id("table", "way"), "match": match, "action": action}


def shots(controller: Controller, *weighted: tuple[int, int]) -> dict[str, object]:
    actions = [{"action": controller.action("send", port), "weight": weight} for port, weight in weighted]
    return {"action_profile_actions": actions}


def test_members_are_shared_by_the_entries_that_name_them(controller: Controller) -> None:
    assert controller.write(INSERT, "action_profile_member", member(controller, 1, 5)) is None
    assert controller.write(INSERT, "table_entry", way(controller, 7, action_profile_member_id=1)) is None
    assert controller.frame(7).port == 5
    assert controller.write(MODIFY, "action_profile_member", member(controller, 1, 6)) is None
    assert controller.frame(7).port == 6
    (entry,) = controller.read("table_entry", {"table_id": controller.id("table", "way")})
    assert entry.action.action_profile_member_id == 1
    busy = controller.write(DELETE, "action_profile_member", member(controller, 1, 6))
    assert code(busy) is P4RuntimeCode.FAILED_PRECONDITION


def test_a_group_chooses_by_the_hash_of_the_selector_keys(controller: Controller) -> None:
    for number, port in ((1, 5), (2, 6)):
        controller.write(INSERT, "action_profile_member", member(controller, number, port))
    assert controller.write(INSERT, "action_profile_group", group(controller, 3, (1, 1), (2, 3))) is None
    assert controller.write(INSERT, "table_entry", way(controller, 7, action_profile_group_id=3)) is None
    assert [controller.frame(7, hashed).port for hashed in range(4)] == [5, 6, 6, 6]
    assert controller.write(MODIFY, "action_profile_group", group(controller, 3, (2, 1))) is None
    assert [controller.frame(7, hashed).port for hashed in range(2)] == [6, 6]


def test_members_and_groups_are_read_back_all_or_one(controller: Controller) -> None:
    for number in (1, 2):
        controller.write(INSERT, "action_profile_member", member(controller, number, number))
    controller.write(INSERT, "action_profile_member", member(controller, 1, 9, "profile"))
    controller.write(INSERT, "action_profile_group", group(controller, 3, (1, 1), (2, 2), max_size=8))
    assert len(controller.read("action_profile_member", {})) == 3
    ways = controller.id("action profile", "ways")
    (two,) = controller.read("action_profile_member", {"action_profile_id": ways, "member_id": 2})
    assert two == messages().Entity(action_profile_member=member(controller, 2, 2)).action_profile_member
    (found,) = controller.read("action_profile_group", {"action_profile_id": ways})
    assert (
        found
        == messages()
        .Entity(action_profile_group=group(controller, 3, (1, 1), (2, 2), max_size=8))
        .action_profile_group
    )


def test_a_set_of_actions_is_chosen_from_and_read_back_as_it_was_written(controller: Controller) -> None:
    entry = way(controller, 7, action_profile_action_set=shots(controller, (5, 1), (6, 1), (5, 2)))
    assert controller.write(INSERT, "table_entry", entry) is None
    assert [controller.frame(7, hashed).port for hashed in range(4)] == [5, 6, 5, 5]
    (found,) = controller.read("table_entry", {"table_id": controller.id("table", "way")})
    assert found == messages().TableEntry(**entry)


def test_a_table_takes_sets_or_members_and_groups_but_not_both(controller: Controller) -> None:
    controller.write(INSERT, "action_profile_member", member(controller, 1, 5))
    one_shot = way(controller, 7, action_profile_action_set=shots(controller, (5, 1)))
    controller.write(INSERT, "table_entry", one_shot)
    assert (
        code(controller.write(INSERT, "table_entry", way(controller, 8, action_profile_member_id=1)))
        is INVALID
    )
    assert controller.write(DELETE, "table_entry", one_shot) is None
    assert controller.write(INSERT, "table_entry", way(controller, 8, action_profile_member_id=1)) is None
    assert code(controller.write(INSERT, "table_entry", one_shot)) is INVALID


def test_groups_keep_to_their_max_size(controller: Controller) -> None:
    controller.write(INSERT, "action_profile_member", member(controller, 1, 5))
    heavy = controller.write(INSERT, "action_profile_group", group(controller, 3, (1, 5), max_size=4))
    assert code(heavy) is P4RuntimeCode.RESOURCE_EXHAUSTED
    controller.write(INSERT, "action_profile_group", group(controller, 3, (1, 4), max_size=4))
    changed = controller.write(MODIFY, "action_profile_group", group(controller, 3, (1, 4), max_size=5))
    assert code(changed) is INVALID


def test_what_is_missing_or_unknown_is_refused(controller: Controller) -> None:
    def refused(kind: int, form: str, message: object) -> P4RuntimeCode | None:
        return code(controller.write(kind, form, message))

    lacking = member(controller, 1, 5) | {"action": None}
    assert refused(INSERT, "action_profile_member", lacking) is INVALID
    assert refused(INSERT, "action_profile_member", member(controller, 0, 5)) is INVALID
    assert refused(MODIFY, "action_profile_member", member(controller, 1, 5)) is NOT_FOUND
    assert refused(INSERT, "action_profile_member", {"action_profile_id": 5, "member_id": 1}) is NOT_FOUND
    assert refused(INSERT, "action_profile_group", group(controller, 1, (4, 1))) is NOT_FOUND
    controller.write(INSERT, "action_profile_member", member(controller, 1, 5))
    assert refused(INSERT, "action_profile_group", group(controller, 1, (1, 0))) is INVALID
    assert refused(INSERT, "action_profile_group", group(controller, 1, (1, 1), (1, 1))) is INVALID
    absent = (b"\1" * 5, b"\1\xff")
    ports: list[dict[str, Any]] = [*({"watch_port": data} for data in absent), {"watch": 511}, {"watch": -1}]
    for port in ports:
        watched = group(controller, 1) | {"members": [{"member_id": 1, "weight": 1, **port}]}
        assert refused(INSERT, "action_profile_group", watched) is INVALID
    plain = {"action": controller.action("send", 5)}
    assert refused(INSERT, "table_entry", way(controller, 7, **plain)) is INVALID
    assert refused(INSERT, "table_entry", way(controller, 7, action_profile_member_id=9)) is NOT_FOUND


def test_the_ports_that_members_watch_are_told_again(controller: Controller) -> None:
    for number in (1, 2, 3):
        controller.write(INSERT, "action_profile_member", member(controller, number, number))
    members = [
        {"member_id": 1, "weight": 1, "watch_port": b"\2"},
        {"member_id": 2, "weight": 1, "watch": 7},
        {"member_id": 3, "weight": 2},
    ]
    watched = group(controller, 1) | {"members": members}
    assert controller.write(INSERT, "action_profile_group", watched) is None
    expected = messages().Entity(action_profile_group=watched).action_profile_group
    assert controller.read("action_profile_group", {}) == [expected]
    plain = group(controller, 1, (1, 1))
    batch = [(MODIFY, "action_profile_group", plain), (DELETE, "action_profile_group", group(controller, 9))]
    assert all(controller.write_all(*batch, atomicity=1))
    assert controller.read("action_profile_group", {}) == [expected]
    assert controller.write(MODIFY, "action_profile_group", plain) is None
    assert not controller.read("action_profile_group", {})[0].members[0].WhichOneof("watch_kind")


def test_the_ports_that_actions_in_one_shot_watch_are_told_again(controller: Controller) -> None:
    shot = shots(controller, (5, 1), (6, 2))
    shot["action_profile_actions"][1]["watch_port"] = b"\2"  # type: ignore[index]
    entry = way(controller, 7, action_profile_action_set=shot)
    assert controller.write(INSERT, "table_entry", entry) is None
    (found,) = controller.read("table_entry", {"table_id": controller.id("table", "way")})
    kinds = [
        item.WhichOneof("watch_kind")
        for item in found.action.action_profile_action_set.action_profile_actions
    ]
    assert kinds == [None, "watch_port"]
    assert controller.frame(7).disposition is Disposition.PORT


@pytest.mark.parametrize(
    "asked", [{"action_selection_mode": 2}, {"size_semantics": 2}, {"group_action": {"action_id": 1}}]
)
def test_other_ways_to_choose_are_unimplemented(controller: Controller, asked: dict[str, object]) -> None:
    entry = way(controller, 7, action_profile_action_set=shots(controller, (5, 1)) | asked)
    assert code(controller.write(INSERT, "table_entry", entry)) is P4RuntimeCode.UNIMPLEMENTED


def test_a_profile_without_a_selector_takes_members_alone(controller: Controller) -> None:
    entry = way(controller, 7) | {"table_id": controller.id("table", "shared")}
    both: list[dict[str, Any]] = [{"action_profile_group_id": 1}, {"action_profile_action_set": {}}]
    for wrong in both:
        assert code(controller.write(INSERT, "table_entry", entry | {"action": wrong})) is INVALID


def test_groups_that_are_empty_are_bounded_too(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "MAX_GROUPS", 2)
    outcomes = [
        controller.write(INSERT, "action_profile_group", group(controller, number)) for number in (1, 2, 3)
    ]
    assert [code(error) for error in outcomes] == [None, None, P4RuntimeCode.RESOURCE_EXHAUSTED]
