# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "P4Data": values of every form that has one."""

from __future__ import annotations

import pytest

from nicemu.control.data_message import fill_data, value_of_data, zero_of
from nicemu.control.messages import messages
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import HeaderValue, StackValue, UnionValue, Value, Varbits, ir, plain

HEADER = ir.HeaderType("h_t", (ir.Field("a", ir.Bits(12)), ir.Field("b", ir.Bits(4, signed=True))))
STRUCT = ir.StructType("s_t", (ir.Field("h", ir.Named("h_t")), ir.Field("ok", ir.BOOL)))
UNION = ir.UnionType("u_t", (ir.Field("h", ir.Named("h_t")),))
LAYOUTS: dict[str, ir.Layout] = {layout.name: layout for layout in (HEADER, STRUCT, UNION)}


def there_and_back(value: Value, kind: ir.Type) -> Value:
    data = messages().P4Data()
    fill_data(data, value, kind, LAYOUTS)
    return value_of_data(data, kind, LAYOUTS, "x")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, ir.Bits(1)),
        (0xABC, ir.Bits(12)),
        (-3, ir.Bits(8, signed=True)),
        (127, ir.Bits(8, signed=True)),
        (1, ir.BOOL),
        (Varbits(5, 17), ir.Varbit(8)),
        (Varbits(), ir.Varbit(8)),
    ],
)
def test_numbers_survive_their_data(value: Value, kind: ir.Type) -> None:
    assert there_and_back(value, kind) == value


def test_a_negative_number_is_as_short_as_it_can_be() -> None:
    data, kind = messages().P4Data(), ir.Bits(12, signed=True)
    fill_data(data, -0x63, kind, LAYOUTS)
    assert data.bitstring == b"\x9d"
    assert value_of_data(messages().P4Data(bitstring=b"\xff\xff\x9d"), kind, LAYOUTS, "x") == -0x63


def test_headers_in_structs_survive_their_data_valid_or_not() -> None:
    for valid in (True, False):
        value: Value = {"h": HeaderValue({"a": 5, "b": -2} if valid else {"a": 0, "b": 0}, valid), "ok": 1}
        found = there_and_back(value, ir.Named("s_t"))
        assert (found["ok"], found["h"].valid, found["h"].fields) == (1, valid, value["h"].fields)


@pytest.mark.parametrize("text", [Varbits(), Varbits(8, 0), Varbits(16, 7)])
def test_a_varbit_in_a_header_is_as_long_as_it_was(text: Varbits) -> None:
    header = ir.HeaderType("v_t", (ir.Field("v", ir.Varbit(16)),))
    layouts, data = {**LAYOUTS, "v_t": header}, messages().P4Data()
    fill_data(data, HeaderValue({"v": text}, True), ir.Named("v_t"), layouts)
    assert value_of_data(data, ir.Named("v_t"), layouts, "x").fields == {"v": text}
    data.header.bitstrings[0] = b"\1\0\0"
    with pytest.raises(ControlError) as refused:
        value_of_data(data, ir.Named("v_t"), layouts, "x")
    assert refused.value.code is P4RuntimeCode.OUT_OF_RANGE


def test_a_place_of_a_type_starts_with_zeros() -> None:
    zero = zero_of(ir.Named("s_t"), LAYOUTS)
    assert plain(zero) == {"h": None, "ok": 0}
    assert plain(there_and_back(zero, ir.Named("s_t"))) == plain(zero)


def test_plain_values_are_what_json_has() -> None:
    value = {"h": HeaderValue({"a": 5, "b": -2}, True), "v": Varbits(3, 6)}
    assert plain(value) == {"h": {"a": 5, "b": -2}, "v": 6}


def test_unions_and_stacks_survive_their_data() -> None:
    def union(valid: bool) -> UnionValue:
        return UnionValue({"h": HeaderValue({"a": 5 * valid, "b": -2 * valid}, valid)})

    header = {"a": 5, "b": -2}
    for value, kind, shown in (
        (union(True), ir.Named("u_t"), {"h": header}),
        (union(False), ir.Named("u_t"), None),
        (StackValue([union(False), union(True)]), ir.Stack("u_t", 2), [None, {"h": header}]),
        (StackValue([HeaderValue(header, True), HeaderValue(header)]), ir.Stack("h_t", 2), [header, None]),
    ):
        assert plain(there_and_back(value, kind)) == plain(value) == shown


@pytest.mark.parametrize("kind", [ir.Stack("s", 2), ir.Named("unknown"), ir.ERROR])
def test_types_without_a_form_are_unimplemented(kind: ir.Type) -> None:
    for attempt in (
        lambda: fill_data(messages().P4Data(), 0, kind, LAYOUTS),
        lambda: value_of_data(messages().P4Data(bitstring=b"\0"), kind, LAYOUTS, "x"),
    ):
        with pytest.raises(ControlError) as refused:
            attempt()
        assert refused.value.code is P4RuntimeCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"header": {"is_valid": True, "bitstrings": [b"\1"]}}, ir.Named("h_t")),
        ({"varbit": {"bitwidth": 9, "bitstring": b"\1"}}, ir.Varbit(8)),
        ({"varbit": {"bitwidth": -1, "bitstring": b"\1"}}, ir.Varbit(8)),
        ({"struct": {}}, ir.Named("s_t")),
        ({"header_stack": {"entries": [{"is_valid": False}]}}, ir.Stack("h_t", 2)),
        ({"header_union": {"valid_header_name": "other"}}, ir.Named("u_t")),
    ],
)
def test_data_that_does_not_fit_is_refused(data: dict[str, object], kind: ir.Type) -> None:
    with pytest.raises(ControlError) as refused:
        value_of_data(messages().P4Data(**data), kind, LAYOUTS, "x")
    assert refused.value.code is P4RuntimeCode.INVALID_ARGUMENT
