# SPDX-License-Identifier: Apache-2.0
"""Whatever a client sends, the server answers with a code, and goes on as before."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest
from google.protobuf import message_factory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nicemu.control.messages import Message, messages
from nicemu.control.stream import Session, uint128
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Program

Controller: TypeAlias = Any
"""The class of that name in conftest.py."""
SCALARS = {
    "bool": st.booleans(),
    "bytes": st.one_of(st.sampled_from([b"", b"\0", b"\1", b"\xff"]), st.binary(max_size=40)),
    "string": st.sampled_from(["", "x", "learn_t"]),
}
RANGES = {"int32": 31, "int64": 63, "uint32": 32, "uint64": 64}
FEW_EXAMPLES = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Garbage:
    """Draws messages of any shape, with a liking for ids and numbers that mean something."""

    def __init__(self, controller: Controller) -> None:
        info = controller.schema.p4info
        kinds = (info.tables, info.actions, info.profiles, info.counters, info.meters, info.registers)
        ids = [item.id for kind in (*kinds, info.value_sets, info.digests) for item in kind]
        small = [*range(-1, 7), 15, 16, 17, 255, 256, 510, 511]
        self._likely = [*ids, *small]

    def message(self, draw: Any, descriptor: Any, depth: int = 0) -> Message:  # noqa: ANN401
        """Return a message of a descriptor's kind."""
        message = message_factory.GetMessageClass(descriptor)()
        fields = [field for field in descriptor.fields if not _is_map(field)]
        if not fields:
            return message
        chosen = draw(st.lists(st.sampled_from(fields), max_size=4, unique_by=lambda field: field.name))
        for field in chosen:
            count = draw(st.integers(0, 3)) if _is_repeated(message, field) else 1
            for _ in range(count):
                self._fill(draw, message, field, depth)
        return message

    def _fill(self, draw: Any, message: Message, field: Any, depth: int) -> None:  # noqa: ANN401
        if field.message_type is not None:
            if depth < 7:
                value = self.message(draw, field.message_type, depth + 1)
                if _is_repeated(message, field):
                    getattr(message, field.name).append(value)
                else:
                    getattr(message, field.name).CopyFrom(value)
            return
        value = draw(self._scalar(field))
        if _is_repeated(message, field):
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)

    def _scalar(self, field: Any) -> st.SearchStrategy[object]:  # noqa: ANN401
        names = {
            3: "int64",
            4: "uint64",
            5: "int32",
            8: "bool",
            9: "string",
            12: "bytes",
            13: "uint32",
            14: "enum",
        }
        kind = names[field.type]
        if kind in SCALARS:
            return SCALARS[kind]
        if kind == "enum":
            return st.integers(0, 4)
        signed = not kind.startswith("u")
        low, high = (-(1 << RANGES[kind]) if signed else 0), (1 << RANGES[kind]) - 1
        likely = [number for number in self._likely if low <= number <= high]
        return st.one_of(st.sampled_from(likely), st.integers(low, high))


def _is_repeated(message: Message, field: Any) -> bool:  # noqa: ANN401
    return hasattr(getattr(message, field.name), "extend")


def _is_map(field: Any) -> bool:  # noqa: ANN401
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


@pytest.fixture
def garbage(controller: Controller) -> Garbage:
    return Garbage(controller)


def check(errors: list[ControlError | None]) -> None:
    faults = (P4RuntimeCode.INTERNAL, P4RuntimeCode.UNKNOWN)
    for error in errors:
        assert error is None or error.code not in faults, str(error)


def state(controller: Controller) -> list[object]:
    """Return everything that can be read, but for the order of what was put back."""
    return [sorted(map(str, part)) for part in controller.state()]


@FEW_EXAMPLES
@given(data=st.data())
def test_no_update_and_no_query_is_a_fault_of_the_server(
    controller: Controller, garbage: Garbage, data: st.DataObject
) -> None:
    entity = messages().Entity.DESCRIPTOR
    request = messages().WriteRequest(election_id=uint128(9), atomicity=data.draw(st.integers(0, 2)))
    for _ in range(data.draw(st.integers(1, 3))):
        form = data.draw(st.sampled_from(list(entity.fields)))
        update = request.updates.add(type=data.draw(st.integers(0, 4)))
        part = garbage.message(data.draw, form.message_type)
        getattr(update.entity, form.name).CopyFrom(part)
    before = state(controller)
    errors = controller.device.write(request)
    check(errors)
    if request.atomicity and any(errors):
        assert all(errors), "as a whole or not at all"
        assert state(controller) == before
    query = messages().ReadRequest(entities=[update.entity for update in request.updates])
    entities, errors = controller.device.read(query)
    check(errors)
    written = list(entities)
    again = messages().ReadRequest(entities=written)
    check(controller.device.read(again)[1])
    controller.frame(5)


@FEW_EXAMPLES
@given(data=st.data())
def test_no_stream_message_is_a_fault_of_the_server(
    controller: Controller, garbage: Garbage, data: st.DataObject
) -> None:
    request = garbage.message(data.draw, messages().StreamMessageRequest.DESCRIPTOR)
    takers = {
        "arbitration": lambda: controller.device.announce(Session(), request.arbitration),
        "packet": lambda: controller.device.packet_out(controller.session, request.packet),
        "digest_ack": lambda: controller.device.acknowledge(controller.session, request.digest_ack),
    }
    taker = takers.get(request.WhichOneof("update") or "")
    if taker is not None:
        try:
            taker()
        except ControlError as error:
            assert error.code is not P4RuntimeCode.INTERNAL  # noqa: PT017 - most are not refused


@FEW_EXAMPLES
@given(data=st.data())
def test_no_config_is_a_fault_of_the_server(
    controller: Controller, garbage: Garbage, switch: Program, data: st.DataObject
) -> None:
    info = messages().P4Info.DESCRIPTOR
    request = messages().SetForwardingPipelineConfigRequest(action=data.draw(st.integers(0, 6)))
    request.election_id.CopyFrom(uint128(9))
    request.config.p4info.CopyFrom(garbage.message(data.draw, info))
    request.config.p4_device_config = data.draw(st.sampled_from([switch.to_json().encode(), b"{}"]))
    try:
        controller.device.set_config(request)
    except ControlError as error:
        assert error.code is not P4RuntimeCode.INTERNAL  # noqa: PT017 - some are taken
    assert controller.engine.program is not None
