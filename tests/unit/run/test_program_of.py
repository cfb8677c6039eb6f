# SPDX-License-Identifier: Apache-2.0
"""What a controller brings as `p4_device_config`: IR or BMv2 JSON, known by what is in it.

Source: P4Runtime Specification 1.4, "ForwardingPipelineConfig Message".
"""

from __future__ import annotations

import json

import pytest

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.run import program_of
from tests.unit.bmv2.router_json import router_json


def test_bmv2_json_needs_no_meta_as_in_a_file() -> None:
    whole = router_json()
    bare = {name: value for name, value in whole.items() if name != "__meta__"}
    assert program_of(json.dumps(bare).encode()) == program_of(json.dumps(whole).encode())


def test_ir_is_taken_as_it_is() -> None:
    program = program_of(json.dumps(router_json()).encode())
    assert program_of(program.to_json().encode()) == program


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "p4_device_config is not JSON"),
        (b"\0\1\2", "p4_device_config is not JSON"),
        (b"[]", "p4_device_config is a list; the object that p4c-bm2-ss writes was expected"),
        (b"{}", "p4_device_config has no __meta__"),
        (b'{"architecture": "v1model"}', "program IR: $.name is missing"),
        (b'{"architecture": "v1model", "__meta__": {}}', "p4_device_config has no parsers"),
    ],
)
def test_what_is_neither_is_refused_in_the_words_of_what_it_resembles(text: bytes, words: str) -> None:
    with pytest.raises(ControlError) as refused:
        program_of(text)
    assert refused.value.code is P4RuntimeCode.INVALID_ARGUMENT
    assert words in str(refused.value)
