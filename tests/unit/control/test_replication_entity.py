# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "PacketReplicationEngineEntry"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from nicemu.control.messages import messages
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import objects

Controller: TypeAlias = Any
"""The class of that name in conftest.py."""
FORM = "packet_replication_engine_entry"
INSERT, MODIFY, DELETE = 1, 2, 3
INVALID, NOT_FOUND = P4RuntimeCode.INVALID_ARGUMENT, P4RuntimeCode.NOT_FOUND


def code(error: ControlError | None) -> P4RuntimeCode | None:
    return error.code if error else None


def group(number: int, *replicas: dict[str, object], **rest: object) -> dict[str, object]:
    return {"multicast_group_entry": {"multicast_group_id": number, "replicas": replicas, **rest}}


def session(number: int, *replicas: dict[str, object], **rest: object) -> dict[str, object]:
    return {"clone_session_entry": {"session_id": number, "replicas": replicas, **rest}}


def replica(port: int, instance: int = 0) -> dict[str, object]:
    return {"port": bytes([port]), "instance": instance}


def test_a_multicast_group_replicates_until_it_is_deleted(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "flood", 7))
    assert controller.write(INSERT, FORM, group(7, replica(3, 1), replica(4, 2))) is None
    verdict = controller.frame(5)
    assert [verdict.port, *(port for port, _ in verdict.copies)] == [3, 4]
    assert controller.write(MODIFY, FORM, group(7, replica(6))) is None
    assert controller.frame(5).port == 6
    assert controller.write(DELETE, FORM, group(7)) is None
    assert controller.frame(5).drop_reason == "pipeline.no_multicast_group"


def test_a_clone_session_mirrors_and_truncates(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "mirror", 9))
    assert controller.write(INSERT, FORM, session(9, replica(8), packet_length_bytes=3)) is None
    verdict = controller.frame(5)
    frames = {verdict.port: verdict.frame, **dict(verdict.copies)}
    assert {port: len(frame) for port, frame in frames.items()} == {1: 6, 8: 3}


def test_groups_and_sessions_are_read_back_as_they_were_written(controller: Controller) -> None:
    written = [
        group(7, replica(3, 1), {"egress_port": 4, "instance": 2}, metadata=b"mine"),
        session(9, replica(8), class_of_service=2, packet_length_bytes=64),
    ]
    for message in written:
        assert controller.write(INSERT, FORM, message) is None
    for message, wildcard in zip(written, (group(0), session(0)), strict=True):
        expected = messages().Entity(**{FORM: message}).packet_replication_engine_entry
        assert controller.read(FORM, wildcard) == [expected]
        assert controller.read(FORM, message) == [expected]
    assert controller.read(FORM, group(8)) == []


@pytest.mark.parametrize("make", [group, session])
def test_what_is_there_is_not_inserted_and_what_is_not_is_not_changed(
    controller: Controller, make: Callable[..., dict[str, object]]
) -> None:
    codes = [code(controller.write(kind, FORM, make(3))) for kind in (MODIFY, DELETE, INSERT, INSERT)]
    assert codes == [NOT_FOUND, NOT_FOUND, None, P4RuntimeCode.ALREADY_EXISTS]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (group(0), INVALID),
        (group(1 << 16), INVALID),
        (session(0), INVALID),
        (session(1, packet_length_bytes=-1), INVALID),
        (group(1, {"port": b"\2\0"}), INVALID),
        (group(1, {"port": b"\1", "instance": 1 << 16}), INVALID),
        (group(1, {"instance": 1}), P4RuntimeCode.OUT_OF_RANGE),
        (group(1, replica(1), replica(1)), INVALID),
        (group(1, replica(1) | {"backup_replicas": [{"port": b"\2\0"}]}), INVALID),
        (group(1, replica(1) | {"backup_replicas": [replica(2)] * 5000}), P4RuntimeCode.RESOURCE_EXHAUSTED),
        (group(1, replica(1) | {"backup_replicas": [replica(1, 5)]}), INVALID),
        (group(1, replica(1) | {"backup_replicas": [replica(2), replica(2)]}), INVALID),
        (group(1, replica(1) | {"backup_replicas": [replica(2)]}, replica(2)), INVALID),
        (group(1, metadata=bytes(300)), INVALID),
        (group(1, *[replica(1)] * 5000), P4RuntimeCode.RESOURCE_EXHAUSTED),
        ({}, INVALID),
    ],
)
def test_what_no_switch_can_do_is_refused(
    controller: Controller, message: dict[str, object], expected: P4RuntimeCode
) -> None:
    assert code(controller.write(INSERT, FORM, message)) is expected


def test_a_deletion_of_a_group_looks_at_its_number_alone(controller: Controller) -> None:
    assert controller.write(INSERT, FORM, group(1)) is None
    assert controller.write(DELETE, FORM, group(1, metadata=bytes(300))) is None


def test_backups_of_a_replica_are_kept_for_their_writer_alone(controller: Controller) -> None:
    backed = replica(2) | {"backup_replicas": [{"port": b"\3", "instance": 1}, {"port": b"\4"}]}
    assert controller.write(INSERT, FORM, group(1, backed)) is None
    expected = messages().Entity(packet_replication_engine_entry=group(1, backed))
    found = controller.read(FORM, {"multicast_group_entry": {}})
    assert found == [expected.packet_replication_engine_entry]
    (made,) = controller.engine.objects.multicast_groups[1]
    assert (made.port, made.rid) == (2, 0)


def test_all_groups_and_sessions_together_are_bounded(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "MAX_ALL_REPLICAS", 9)
    assert controller.write(INSERT, FORM, group(1, replica(1), replica(2))) is None
    assert controller.write(INSERT, FORM, session(1, replicas=[replica(1), replica(2)])) is None
    full = group(2, replica(1), replica(2), replica(3))
    assert code(controller.write(INSERT, FORM, full)) is P4RuntimeCode.RESOURCE_EXHAUSTED
    batch = [(DELETE, FORM, session(1)), (INSERT, FORM, full), (INSERT, FORM, full)]
    assert all(controller.write_all(*batch, atomicity=1))
    assert controller.engine.objects.replica_count == 6
    assert controller.write(MODIFY, FORM, group(1, replica(1))) is None
    assert controller.write(INSERT, FORM, full) is None
    assert code(controller.write(INSERT, FORM, session(2))) is P4RuntimeCode.RESOURCE_EXHAUSTED
    assert controller.write(DELETE, FORM, group(1)) is None
    assert controller.write(INSERT, FORM, session(2)) is None
