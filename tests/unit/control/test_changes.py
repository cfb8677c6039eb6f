# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "Batch Atomicity": each for itself, or all or none."""

from __future__ import annotations

from typing import Any, TypeAlias
from unittest.mock import Mock

import pytest

from nicemu.control import device as device_module
from nicemu.control.entities import query_of
from nicemu.control.messages import messages
from nicemu.errors import ControlError, P4RuntimeCode

INSERT, MODIFY, DELETE = 1, 2, 3
CONTINUE, ROLLBACK, ATOMIC = range(3)
Controller: TypeAlias = Any
"""The class of that name in conftest.py."""


def codes(outcomes: list[ControlError | None]) -> list[str | None]:
    return [error.code.name if error else None for error in outcomes]


@pytest.fixture
def prepared(controller: Controller) -> Controller:
    """A controller with entries 2, 3 and 4 in table port, of which packets have matched some."""
    for flow in (2, 3, 4):
        meter = {"cir": flow, "pir": flow}
        controller.write(INSERT, "table_entry", controller.port(flow, "send", flow, meter_config=meter))
        controller.frame(flow)
    return controller


@pytest.mark.parametrize("atomicity", [CONTINUE, ROLLBACK, ATOMIC])
def test_a_batch_of_every_kind_is_done(prepared: Controller, atomicity: int) -> None:
    updates = prepared.every_kind()
    assert codes(prepared.write_all(*updates, atomicity=atomicity)) == [None] * len(updates)


@pytest.mark.parametrize("atomicity", [ROLLBACK, ATOMIC])
def test_what_comes_before_a_failure_is_taken_back(prepared: Controller, atomicity: int) -> None:
    before = prepared.state()
    updates = prepared.every_kind()
    wrong = (INSERT, "table_entry", prepared.port(2, "send", 1))
    outcomes = prepared.write_all(*updates, wrong, wrong, atomicity=atomicity)
    assert codes(outcomes) == ["ABORTED"] * len(updates) + ["ALREADY_EXISTS", "ABORTED"]
    assert "update 24 of the batch failed" in str(outcomes[0])
    assert prepared.state() == before
    assert prepared.frame(3).port == 3
    done = prepared.write_all(*updates, atomicity=atomicity)
    assert codes(done) == [None] * len(updates)


def test_a_batch_with_an_update_that_means_nothing_is_not_tried(prepared: Controller) -> None:
    before = prepared.state()
    nothing = (INSERT, "table_entry", {"table_id": 5})
    outcomes = prepared.write_all((DELETE, "table_entry", prepared.port(3, None)), nothing, atomicity=ATOMIC)
    assert codes(outcomes) == ["ABORTED", "NOT_FOUND"]
    assert prepared.state() == before


def test_a_batch_that_is_to_be_atomic_must_not_be_long(
    prepared: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_module, "MAX_ATOMIC_UPDATES", 1)
    twice = [(DELETE, "table_entry", prepared.port(3, None))] * 2
    with pytest.raises(ControlError, match="2 updates to be done as a whole found; 1 are allowed"):
        prepared.write_all(*twice, atomicity=ATOMIC)
    assert codes(prepared.write_all(*twice)) == [None, "NOT_FOUND"]


def test_no_request_is_longer_than_a_server_can_bear(
    prepared: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_module, "MAX_UPDATES", 1)
    monkeypatch.setattr(device_module, "MAX_QUERIES", 1)
    delete = (DELETE, "table_entry", prepared.port(3, None))
    with pytest.raises(ControlError, match="2 updates in one WriteRequest found; 1 are allowed"):
        prepared.write_all(delete, delete)
    request = messages().ReadRequest(entities=[messages().Entity(table_entry={})] * 2)
    with pytest.raises(ControlError, match="2 entities asked for in one ReadRequest found; 1 are allowed"):
        prepared.device.read(request)
    monkeypatch.setattr(device_module, "MAX_TAKEN", 2)
    with pytest.raises(ControlError, match="6 entries asked for") as refused:
        prepared.read("table_entry", {})
    assert refused.value.code is P4RuntimeCode.RESOURCE_EXHAUSTED


def test_what_a_query_looks_at_is_bounded_not_what_it_finds(
    prepared: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = prepared.port(3, None)
    entry.priority = 0
    request = messages().ReadRequest(entities=[messages().Entity(table_entry=entry)] * 5)
    monkeypatch.setattr(device_module, "MAX_TAKEN", 8)
    entities, errors = prepared.device.read(request)
    assert [item.table_entry.priority for item in entities] == [1, 1]
    assert codes(errors) == [None, None, *["RESOURCE_EXHAUSTED"] * 3]
    look = Mock(wraps=query_of)
    monkeypatch.setattr(device_module, "query_of", look)
    prepared.device.read(request)
    assert look.call_count == 3  # behind the part that was too much nothing is looked at


def test_a_long_batch_that_is_taken_back_leaves_what_was_there(prepared: Controller) -> None:
    before = prepared.state()
    updates: list[tuple[int, str, object]] = []
    for _ in range(20):
        updates += [(DELETE, "table_entry", prepared.port(flow, None)) for flow in (2, 3, 4)]
        updates += [(INSERT, "table_entry", prepared.port(flow, "drop")) for flow in (4, 3, 2)]
    failing = (INSERT, "table_entry", prepared.port(2, "drop"))
    assert codes(prepared.write_all(*updates, failing, atomicity=ROLLBACK))[-1] == "ALREADY_EXISTS"
    assert prepared.state() == before
