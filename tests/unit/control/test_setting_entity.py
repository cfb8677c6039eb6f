# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "ValueSetEntry", "DigestEntry"."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from nicemu.control.messages import messages
from nicemu.control.stream import uint128
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Program

Controller: TypeAlias = Any
"""The class of that name in conftest.py."""
INSERT, MODIFY, DELETE = 1, 2, 3
SAVE = 2
INVALID = P4RuntimeCode.INVALID_ARGUMENT


def code(error: ControlError | None) -> P4RuntimeCode | None:
    return error.code if error else None


def ignored(controller: Controller, *flows: int) -> dict[str, object]:
    members = [{"match": [{"field_id": 1, "exact": {"value": bytes([flow])}}]} for flow in flows]
    return {"value_set_id": controller.id("value set", "ignored"), "members": members}


def learn(controller: Controller, **config: int) -> dict[str, object]:
    return {"digest_id": controller.id("digest", "learn_t"), "config": config}


def test_a_value_set_is_replaced_and_read_back(controller: Controller) -> None:
    assert controller.write(MODIFY, "value_set_entry", ignored(controller, 5, 6)) is None
    expected = messages().Entity(value_set_entry=ignored(controller, 5, 6)).value_set_entry
    assert controller.read("value_set_entry", {}) == [expected]
    assert controller.engine.objects.value_set("ignored").holds((6,))
    assert controller.write(MODIFY, "value_set_entry", ignored(controller)) is None
    assert not controller.engine.objects.value_set("ignored").holds((6,))


def test_a_value_set_keeps_to_its_size_and_has_each_member_once(controller: Controller) -> None:
    codes = [
        code(controller.write(kind, "value_set_entry", ignored(controller, *flows)))
        for kind, flows in ((INSERT, ()), (DELETE, ()), (MODIFY, (1, 2, 3, 4, 5)), (MODIFY, (1, 1)))
    ]
    exhausted, twice = P4RuntimeCode.RESOURCE_EXHAUSTED, P4RuntimeCode.ALREADY_EXISTS
    assert codes == [INVALID, INVALID, exhausted, twice]


def test_digests_are_sent_once_they_are_wanted(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "learn"))
    controller.frame(5)
    controller.report()
    assert controller.received() == []
    assert controller.write(INSERT, "digest_entry", learn(controller, max_list_size=1)) is None
    controller.frame(5, port=3)
    controller.report(1_000)
    (message,) = controller.received()
    digest = message.digest
    assert (digest.digest_id, digest.timestamp) == (controller.id("digest", "learn_t"), 1_000)
    (data,) = digest.data
    assert [member.bitstring for member in data.struct.members] == [b"\5", b"\3"]


def test_a_list_that_is_not_acknowledged_keeps_its_digests_from_being_sent_again(
    controller: Controller,
) -> None:
    config = {"max_list_size": 1, "ack_timeout_ns": 500}
    controller.write(INSERT, "digest_entry", learn(controller, **config))
    controller.write(INSERT, "table_entry", controller.port(5, "learn"))

    def lists_at(now_ns: int) -> list[int]:
        controller.frame(5)
        controller.report(now_ns)
        return [message.digest.list_id for message in controller.received()]

    assert [lists_at(now_ns) for now_ns in (0, 499, 500)] == [[1], [], [2]]
    number = controller.id("digest", "learn_t")
    ack = messages().StreamMessageRequest(digest_ack={"digest_id": number, "list_id": 2}).digest_ack
    controller.device.acknowledge(controller.session, ack)
    assert lists_at(600) == [[3]][0]
    ack = messages().StreamMessageRequest(digest_ack={"digest_id": number + 1, "list_id": 2}).digest_ack
    with pytest.raises(ControlError, match="there is no digest") as refused:
        controller.device.acknowledge(controller.session, ack)
    assert refused.value.code is INVALID


def test_a_digest_is_inserted_modified_read_and_deleted(controller: Controller) -> None:
    codes = [
        code(controller.write(kind, "digest_entry", learn(controller, max_list_size=size)))
        for kind, size in ((MODIFY, 1), (DELETE, 1), (INSERT, 1), (INSERT, 1), (MODIFY, 7), (MODIFY, -1))
    ]
    missing, there = P4RuntimeCode.NOT_FOUND, P4RuntimeCode.ALREADY_EXISTS
    assert codes == [missing, missing, None, there, None, INVALID]
    (entry,) = controller.read("digest_entry", {})
    assert entry.config.max_list_size == 7
    assert controller.write(DELETE, "digest_entry", learn(controller, max_list_size=-1)) is None
    assert controller.read("digest_entry", {}) == []


def test_nothing_of_a_deleted_digest_is_sent(controller: Controller) -> None:
    controller.write(INSERT, "digest_entry", learn(controller, max_list_size=9, max_timeout_ns=1_000))
    controller.write(INSERT, "table_entry", controller.port(5, "learn"))
    controller.frame(5)
    controller.report(0)
    controller.frame(5, port=3)  # its report is on its way
    controller.write(DELETE, "digest_entry", learn(controller))
    controller.report(5_000)
    assert controller.received() == []


def ports_told(controller: Controller) -> list[list[int]]:
    """Return the ports of the digests in each list that the controller got."""
    return [
        [data.struct.members[1].bitstring[-1] for data in message.digest.data]
        for message in controller.received()
    ]


def test_digests_that_wait_go_as_a_modified_entry_says(controller: Controller) -> None:
    controller.write(INSERT, "digest_entry", learn(controller, max_list_size=9, max_timeout_ns=10**12))
    controller.write(INSERT, "table_entry", controller.port(5, "learn"))
    for port in (1, 2, 3):
        controller.frame(5, port=port)
    controller.report(0)
    controller.frame(5, port=4)  # reported as the entry was before
    config = {"max_list_size": 2, "max_timeout_ns": 10_000}
    assert controller.write(MODIFY, "digest_entry", learn(controller, **config)) is None
    assert controller.device.reports.next_deadline_ns(5) == 0
    controller.report(6)
    assert ports_told(controller) == [[1, 2], [3, 4]]
    controller.frame(5, port=6)
    controller.report(7)
    controller.report(10_006)
    assert ports_told(controller) == []
    controller.report(10_007)
    assert ports_told(controller) == [[6]]


def test_a_digest_of_a_saved_program_is_deleted_as_it_was_inserted(
    controller: Controller, switch: Program
) -> None:
    request = messages().SetForwardingPipelineConfigRequest(action=SAVE, election_id=uint128(9))
    request.config.p4_device_config = switch.to_json().encode()
    controller.write(INSERT, "digest_entry", learn(controller, max_list_size=9, max_timeout_ns=1_000))
    controller.write(INSERT, "table_entry", controller.port(5, "learn"))
    controller.frame(5)
    controller.report(0)
    controller.device.set_config(request)
    for kind in (INSERT, MODIFY, DELETE):
        assert controller.write(kind, "digest_entry", learn(controller, max_list_size=1)) is None
    assert controller.read("digest_entry", {}) == []
    controller.report(1_000)
    assert ports_told(controller) == [[1]], "the program that runs goes on"


def test_unknown_ids_are_not_found(controller: Controller) -> None:
    for form, field in (("digest_entry", "digest_id"), ("value_set_entry", "value_set_id")):
        assert code(controller.write(MODIFY, form, {field: 5})) is P4RuntimeCode.NOT_FOUND
        with pytest.raises(ControlError, match="of id 5"):
            controller.read(form, {field: 5})


def test_who_reads_everything_reads_no_externs(controller: Controller) -> None:
    """The specification's "Wildcard Reads" names extern_entry {} among all else."""
    assert controller.read("extern_entry", {}) == []
