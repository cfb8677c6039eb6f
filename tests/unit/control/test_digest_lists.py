# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "DigestEntry": when lists are sent, and what is not sent again."""

from __future__ import annotations

import pytest

from nicemu.control import digest_lists
from nicemu.control.digest_lists import DigestList, DigestLists
from nicemu.pipeline import DigestConfig, DigestPosted, DigestReport


def report(number: int, config: DigestConfig, name: str = "learn") -> DigestReport:
    return DigestReport(DigestPosted(name, 1, 8, number), config)


def numbers(lists: list[DigestList]) -> list[list[int]]:
    return [[digest.number for digest in one.digests] for one in lists]


def test_a_list_is_sent_when_it_is_full() -> None:
    lists, config = DigestLists(), DigestConfig(max_timeout_ns=1_000, max_list_size=2)
    assert numbers(lists.post(report(1, config), 0)) == []
    assert numbers(lists.post(report(2, config), 1)) == [[1, 2]]
    assert numbers(lists.due(5_000)) == []


def test_a_list_is_sent_when_its_first_digest_has_waited_long_enough() -> None:
    lists, config = DigestLists(), DigestConfig(max_timeout_ns=1_000, max_list_size=5)
    lists.post(report(1, config), 100)
    lists.post(report(2, config), 900)
    assert lists.next_deadline_ns() == 1_100
    assert numbers(lists.due(1_099)) == []
    assert numbers(lists.due(1_100)) == [[1, 2]]
    assert lists.next_deadline_ns() is None


def test_without_a_timeout_every_digest_is_sent_at_once() -> None:
    lists, config = DigestLists(), DigestConfig(max_list_size=5)
    assert numbers(lists.post(report(1, config), 0)) == [[1]]


def test_a_list_holds_a_digest_once() -> None:
    lists, config = DigestLists(), DigestConfig(max_timeout_ns=1_000)
    for number in (1, 1, 2):
        lists.post(report(number, config), 0)
    assert numbers(lists.due(1_000)) == [[1, 2]]


def test_what_is_not_acknowledged_is_not_sent_again_for_a_time() -> None:
    lists, config = DigestLists(), DigestConfig(max_list_size=1, ack_timeout_ns=1_000)
    (first,) = lists.post(report(1, config), 0)
    assert lists.post(report(1, config), 999) == []
    assert numbers(lists.post(report(1, config), 1_000)) == [[1]]
    assert not lists.acknowledge("learn", first.id)


def test_an_acknowledgement_ends_the_wait() -> None:
    lists, config = DigestLists(), DigestConfig(max_list_size=1, ack_timeout_ns=1_000)
    (first,) = lists.post(report(1, config), 0)
    assert not lists.acknowledge("learn", first.id + 1)
    assert not lists.acknowledge("other", first.id)
    assert lists.acknowledge("learn", first.id)
    (second,) = lists.post(report(1, config), 1)
    assert second.id == first.id + 1


def test_a_controller_that_never_acknowledges_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_lists, "MAX_UNACKNOWLEDGED", 4)
    lists, config = DigestLists(), DigestConfig(10**9, 2, 10**12)
    for number in range(6):
        lists.post(report(number, config), 0)
    for number in (0, 5):
        lists.post(report(number, config), 0)
    assert numbers(lists.due(10**9)) == [[0]]


def test_lists_without_a_limit_are_bounded_all_the_same() -> None:
    lists, config = DigestLists(), DigestConfig(max_timeout_ns=10**12)
    sent = [one for number in range(2_500) for one in lists.post(report(number, config), 0)]
    assert [len(one.digests) for one in sent] == [digest_lists.MAX_LIST] * 2


def test_what_waits_is_sent_by_its_newest_configuration() -> None:
    lists = DigestLists()
    for number in range(5):
        lists.post(report(number, DigestConfig(10_000, 9)), 100)
    lists.configure("learn", DigestConfig(500, 2))
    lists.configure("other", DigestConfig())
    assert lists.next_deadline_ns() == 100
    assert numbers(lists.due(101)) == [[0, 1], [2, 3]]
    assert lists.next_deadline_ns() == 600
    assert numbers(lists.due(600)) == [[4]]


def test_nothing_waits_of_a_digest_that_was_stopped() -> None:
    lists, config = DigestLists(), DigestConfig(max_timeout_ns=1_000)
    lists.post(report(1, config), 0)
    lists.stop("learn")
    assert lists.due(5_000) == []
