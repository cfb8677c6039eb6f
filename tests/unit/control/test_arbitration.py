# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nicemu.control.arbitration import MAX_ROLES, Arbitration, Notice, passing_role
from nicemu.errors import ControlError, P4RuntimeCode

OK, TAKEN, NOBODY = P4RuntimeCode.OK, P4RuntimeCode.ALREADY_EXISTS, P4RuntimeCode.NOT_FOUND


def told(notices: list[Notice]) -> list[tuple[object, P4RuntimeCode, int | None]]:
    return [(notice.session, notice.status, notice.election_id) for notice in notices]


def test_the_first_client_with_an_election_id_becomes_primary() -> None:
    arbitration = Arbitration(1)
    assert told(arbitration.announce("a", "", 7)) == [("a", OK, 7)]
    arbitration.require_primary("", 7)


def test_election_id_zero_is_an_election_id_and_none_is_not() -> None:
    arbitration = Arbitration(1)
    assert told(arbitration.announce("a", "", None)) == [("a", NOBODY, None)]
    assert told(arbitration.announce("b", "", 0)) == [("a", TAKEN, 0), ("b", OK, 0)]


def test_a_higher_election_id_takes_over_and_the_others_hear_of_it_first() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("a", "", 7)
    assert told(arbitration.announce("b", "", 1 << 127)) == [("a", TAKEN, 1 << 127), ("b", OK, 1 << 127)]
    with pytest.raises(ControlError, match="election id 7 is not the primary") as refused:
        arbitration.require_primary("", 7)
    assert refused.value.code is P4RuntimeCode.PERMISSION_DENIED


def test_a_lower_election_id_makes_a_backup_and_only_it_is_told() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("a", "", 7)
    assert told(arbitration.announce("b", "", 6)) == [("b", TAKEN, 7)]


def test_when_the_primary_leaves_there_is_none_until_somebody_claims_it_anew() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("a", "", 7)
    arbitration.announce("b", "", 6)
    assert told(arbitration.leave("a")) == [("b", NOBODY, 7)]
    with pytest.raises(ControlError, match="an id of at least 7"):
        arbitration.require_primary("", 7)
    assert told(arbitration.announce("b", "", 6)) == [("b", NOBODY, 7)]
    assert told(arbitration.announce("b", "", 8)) == [("b", OK, 8)]


def test_a_primary_is_missed_where_nobody_has_had_an_election_id() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("a", "", None)
    with pytest.raises(ControlError, match=r"nobody is; arbitrate with an id$"):
        arbitration.require_primary("", 7)


def test_a_backup_that_leaves_concerns_nobody() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("a", "", 7)
    arbitration.announce("b", "", 6)
    assert arbitration.leave("b") == []
    assert arbitration.leave("never seen") == []


def test_a_primary_may_step_down_by_a_lower_id_and_all_are_told() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("a", "", 7)
    arbitration.announce("b", "", 6)
    assert told(arbitration.announce("a", "", 5)) == [("a", NOBODY, 7), ("b", NOBODY, 7)]


def test_a_primary_that_announces_itself_again_stays_primary() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("a", "", 7)
    assert told(arbitration.announce("a", "", 7)) == [("a", OK, 7)]


def test_an_election_id_belongs_to_one_live_client_a_role() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("a", "", 7)
    with pytest.raises(ControlError, match="election id 7 of the default role") as refused:
        arbitration.announce("b", "", 7)
    assert refused.value.code is P4RuntimeCode.INVALID_ARGUMENT
    assert told(arbitration.announce("b", "stats", 7)) == [("b", OK, 7)]
    arbitration.leave("a")
    assert told(arbitration.announce("c", "", 7)) == [("c", OK, 7)]


def test_a_stream_keeps_its_role() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("a", "", 7)
    with pytest.raises(ControlError, match="close it and open another") as refused:
        arbitration.announce("a", "stats", 7)
    assert refused.value.code is P4RuntimeCode.FAILED_PRECONDITION


def test_a_role_that_nobody_took_is_not_found() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("a", "", 7)
    with pytest.raises(ControlError, match="no role 'stats'; it has the default role") as refused:
        arbitration.require_primary("stats", 7)
    assert refused.value.code is P4RuntimeCode.NOT_FOUND


def test_a_request_without_election_id_is_never_the_primary_s() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("a", "", 7)
    with pytest.raises(ControlError, match="without election id"):
        arbitration.require_primary("", None)
    with pytest.raises(ControlError, match="open a StreamChannel"):
        Arbitration(1).require_primary("", 7)


def test_the_number_of_roles_is_bounded() -> None:
    arbitration = Arbitration(1)
    for number in range(MAX_ROLES):
        arbitration.announce(number, f"role{number}", 1)
    with pytest.raises(ControlError, match="use one of them") as refused:
        arbitration.announce("one more", "another", 1)
    assert refused.value.code is P4RuntimeCode.RESOURCE_EXHAUSTED
    assert arbitration.leave("one more") == []
    assert arbitration.announce("anybody", "", 1)[0].status is P4RuntimeCode.OK


def test_the_role_that_nobody_has_had_for_longest_makes_room_for_another() -> None:
    arbitration = Arbitration(1)
    for number in range(MAX_ROLES):
        arbitration.announce(number, f"role{number}", 5)
    for number in (3, 2):
        arbitration.leave(number)
    arbitration.announce("new", "another", 1)
    with pytest.raises(ControlError, match="no role 'role3'"):
        arbitration.require_primary("role3", 5)
    with pytest.raises(ControlError, match="arbitrate with an id of at least 5"):
        arbitration.require_primary("role2", 5)


def test_a_passing_role_is_nobody_elses_and_goes_with_its_client() -> None:
    arbitration = Arbitration(1)
    first, second = passing_role(), passing_role()
    assert told(arbitration.announce("a", first, 1)) == [("a", OK, 1)]
    assert told(arbitration.announce("b", second, 1)) == [("b", OK, 1)]
    arbitration.require_primary(first, 1)
    assert arbitration.leave("a") == []
    with pytest.raises(ControlError, match="has no role") as gone:
        arbitration.require_primary(first, 1)
    assert gone.value.code is P4RuntimeCode.NOT_FOUND
    arbitration.require_primary(second, 1)


def test_passing_roles_take_no_room_from_those_that_come_again() -> None:
    arbitration = Arbitration(1)
    arbitration.announce("controller", "stats", 5)
    arbitration.leave("controller")
    for number in range(2 * MAX_ROLES):
        arbitration.announce(number, passing_role(), 1)
        arbitration.leave(number)
    assert told(arbitration.announce("stale", "stats", 4)) == [("stale", NOBODY, 5)]
