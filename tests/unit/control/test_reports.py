# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "Packet I/O", and who is told what the pipeline says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from nicemu.control import reports, stream
from nicemu.control.messages import Message, messages
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Disposition

INSERT = 1
Controller: TypeAlias = Any
"""The class of that name in conftest.py."""


def packet(payload: bytes, *metadata: tuple[int, bytes]) -> Message:
    fields = [{"metadata_id": number, "value": value} for number, value in metadata]
    return messages().StreamMessageRequest(packet={"payload": payload, "metadata": fields}).packet


@pytest.fixture
def punting(controller: Controller) -> Controller:
    """A controller that gets every packet of flow 5."""
    controller.write(INSERT, "table_entry", controller.port(5, "punt"))
    return controller


def test_a_packet_to_the_host_s_port_comes_with_its_metadata(punting: Controller) -> None:
    assert punting.frame(5, port=0x101).disposition is Disposition.CONTROLLER
    punting.report()
    (message,) = punting.received()
    assert message.packet.payload == b"\5\0rest"
    assert [(item.metadata_id, item.value) for item in message.packet.metadata] == [(1, b"\1\1"), (2, b"\0")]


def test_every_role_s_primary_is_told_and_nobody_else(punting: Controller) -> None:
    other_role, backup = punting.join(3, role="stats"), punting.join(4)
    punting.frame(5)
    punting.report()
    assert [len(punting.received(session)) for session in (None, other_role, backup)] == [1, 1, 0]


def test_without_a_primary_packets_are_dropped_and_counted(punting: Controller) -> None:
    punting.device.leave(punting.session)
    punting.frame(5)
    assert punting.engine.drops["pipeline.no_controller"] == 1


def test_reports_beyond_what_may_wait_are_dropped_and_counted(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MAX_WAITING_REPORTS", 4)
    monkeypatch.setattr(stream, "MAX_WAITING_OFFERS", 3)
    small = type(controller)(controller.engine.program)
    small.report()
    small.write(INSERT, "table_entry", small.port(5, "punt"))
    for _ in range(6):
        small.frame(5)
    assert small.engine.drops["pipeline.controller_queue_full"] == 2
    small.report()
    assert len(small.received()) == 2  # beside the answer to the arbitration
    assert small.engine.drops["pipeline.controller_too_slow"] == 2


def test_a_packet_out_comes_in_from_the_host_s_port(punting: Controller) -> None:
    taken: list[bytes] = []
    punting.engine.inject = taken.append
    punting.device.packet_out(punting.session, packet(b"\7\0rest", (1, b"\1\2"), (2, b"\0")))
    assert taken == [b"\x81\0\7\0rest"]
    verdict = punting.engine.process(taken[0], 510)
    assert (verdict.port, verdict.frame) == (0x102, b"\7\0rest")


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (packet(b"x"), P4RuntimeCode.INVALID_ARGUMENT),
        (packet(b"x", (1, b"\1"), (2, b"\0"), (2, b"\0")), P4RuntimeCode.INVALID_ARGUMENT),
        (packet(b"x", (1, b"\1"), (3, b"\0")), P4RuntimeCode.INVALID_ARGUMENT),
        (packet(b"x", (1, b"\2\0"), (2, b"\0")), P4RuntimeCode.OUT_OF_RANGE),
        (packet(bytes(10_000), (1, b"\1"), (2, b"\0")), P4RuntimeCode.INVALID_ARGUMENT),
    ],
)
def test_a_packet_out_whose_metadata_is_wrong_is_dropped(
    controller: Controller, request_: Message, code: P4RuntimeCode
) -> None:
    with pytest.raises(ControlError) as refused:
        controller.device.packet_out(controller.session, request_)
    assert refused.value.code is code


def test_who_is_not_primary_neither_sends_packets_nor_acknowledges(controller: Controller) -> None:
    backup = controller.join(3)
    acknowledgement = messages().StreamMessageRequest(digest_ack={}).digest_ack
    attempts: tuple[Callable[[], None], ...] = (
        lambda: controller.device.packet_out(backup, packet(b"x")),
        lambda: controller.device.acknowledge(backup, acknowledgement),
    )
    for attempt in attempts:
        with pytest.raises(ControlError, match="not a primary") as refused:
            attempt()
        assert refused.value.code is P4RuntimeCode.PERMISSION_DENIED
