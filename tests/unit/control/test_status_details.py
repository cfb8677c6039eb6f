# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from nicemu.control.messages import messages
from nicemu.control.status_details import MAX_DETAILS_BYTES, batch_status, code_of, errors_of_status
from nicemu.errors import ControlError, P4RuntimeCode

FULL = ControlError(P4RuntimeCode.RESOURCE_EXHAUSTED, "the table is full " + "x" * 300)


def codes(errors: list[ControlError | None]) -> list[P4RuntimeCode | None]:
    return [error.code if error else None for error in errors]


def test_every_part_has_its_error_in_order_successes_included() -> None:
    status = batch_status([None, FULL, None], "update", MAX_DETAILS_BYTES)
    found = errors_of_status(status.SerializeToString())
    assert codes(found) == [None, P4RuntimeCode.RESOURCE_EXHAUSTED, None]
    assert str(found[1]) == str(FULL)
    assert status.code == P4RuntimeCode.UNKNOWN
    assert status.message.startswith("1 of 3 updates failed; update 1: RESOURCE_EXHAUSTED: the table is full")


def test_sentences_are_cut_before_codes_are_lost() -> None:
    status = batch_status([FULL] * 50, "update", 5_000)
    found = errors_of_status(status.SerializeToString())
    assert status.ByteSize() <= 5_000
    assert codes(found) == [P4RuntimeCode.RESOURCE_EXHAUSTED] * 50
    assert len(str(found[0])) < len(str(FULL))


def test_all_codes_of_almost_three_hundred_parts_fit_where_clients_allow_the_least() -> None:
    """Whoever unpacks them finds them: only what stands behind the last slash of a type's URL counts."""
    status = batch_status([None] * 279 + [FULL], "update", 5_000)
    assert codes(errors_of_status(status.SerializeToString())) == [None] * 279 + [
        P4RuntimeCode.RESOURCE_EXHAUSTED
    ]
    found = messages().Error()
    assert status.details[-1].Unpack(found)
    assert found.canonical_code == P4RuntimeCode.RESOURCE_EXHAUSTED


def test_details_that_can_not_fit_are_left_out_and_the_count_stays() -> None:
    status = batch_status([FULL] * 5_000, "update", 5_000)
    assert errors_of_status(status.SerializeToString()) == []
    assert status.message.startswith("5000 of 5000 updates failed")


def test_foreign_or_broken_details_are_no_error() -> None:
    assert errors_of_status(b"\xff\xff") == []
    assert errors_of_status(b"") == []
    assert code_of(99) is P4RuntimeCode.UNKNOWN


def test_entities_are_told_in_the_plural() -> None:
    assert batch_status([FULL, FULL], "entity", 5_000).message.startswith("2 of 2 entities failed; entity 0:")
