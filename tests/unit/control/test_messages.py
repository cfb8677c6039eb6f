# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import weakref

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from nicemu.control.messages import messages, parse, serialize
from nicemu.errors import ControlError, P4RuntimeCode


def test_the_classes_live_in_a_pool_of_their_own() -> None:
    assert messages().WriteRequest.DESCRIPTOR.file.pool is not descriptor_pool.Default()
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindFileByName("p4/v1/p4runtime.proto")


def test_the_classes_of_messages_inside_others_stay() -> None:
    """A class that went with its last message was made anew beside threads that used it, which ended them."""
    messages.cache_clear()
    request = messages().StreamMessageRequest(arbitration={"election_id": {"low": 1}})
    kinds = [weakref.ref(type(request.arbitration)), weakref.ref(type(request.arbitration.election_id))]
    del request
    gc.collect()
    assert all(kind() is not None for kind in kinds)


def test_field_numbers_are_those_of_p4runtime() -> None:
    request = messages().WriteRequest(device_id=1)
    request.updates.add(type=2).entity.table_entry.table_id = 5
    assert serialize(request) == b"\x08\x01\x22\x08\x08\x02\x12\x04\x12\x02\x08\x05"


@given(st.binary(max_size=60))
def test_bytes_are_a_message_or_a_control_error(data: bytes) -> None:
    if _parses(data):
        parse("WriteRequest", data)
        return
    with pytest.raises(ControlError, match=f"^the {len(data)} bytes received are not a p4") as refused:
        parse("WriteRequest", data)
    assert refused.value.code is P4RuntimeCode.INVALID_ARGUMENT


def _parses(data: bytes) -> bool:
    try:
        messages().WriteRequest.FromString(data)
    except DecodeError:
        return False
    return True
