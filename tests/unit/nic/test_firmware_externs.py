# SPDX-License-Identifier: Apache-2.0
"""Externs of a NIC's program that its firmware does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from nicemu.errors import ControlError
from nicemu.firmware import FirmwareError, FirmwareOverrun, load_firmware
from nicemu.p4 import compile_text
from tests.unit.nic.conftest import Bench, request_frame

PROGRAM = """
#include <core.p4>
#include <nicemu.p4>
extern Limit { Limit(bit<32> most); bool passes(in bit<32> length); }
header bytes_t { bit<112> ethernet; }
struct headers_t { bytes_t h; }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
    state start { b.extract(h.h); transition accept; }
}
control C(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
    Limit(2) limit;
    apply { if (!limit.passes(nic.packet_length)) { drop_packet(); } }
}
control D(packet_out b, in headers_t h, in metadata_t m, in nic_metadata_t nic) { apply { b.emit(h); } }
SmartNic(P(), C(), D()) main;
"""
FIRMWARE = """
from nicemu.firmware import extern

@extern("Limit(bit<32> most)")
class Limit:
    def __init__(self, most: int) -> None:
        self.left = most

    @extern("bool passes(in bit<32> length)")
    def passes(self, length: int) -> bool:
        self.left -= 1
        return self.left >= 0
"""


@pytest.fixture
def limited(bench: Bench) -> Bench:
    """A NIC that lets two packets pass, and a host that listens."""
    bench.here.pipeline.load(compile_text(PROGRAM).program)
    bench.nic.listen()
    return bench


def test_firmware_does_what_externs_of_the_program_do(limited: Bench) -> None:
    limited.arrive(request_frame())
    assert limited.drops() == {"extern.missing": 1}
    limited.flash("here", FIRMWARE)
    limited.arrive(*[request_frame()] * 3)
    assert limited.drops() == {"extern.missing": 1, "pipeline.dropped": 1}


def test_objects_begin_anew_with_new_firmware(limited: Bench) -> None:
    for _ in range(2):
        limited.flash("here", FIRMWARE)
        limited.arrive(*[request_frame()] * 2)
    assert limited.drops() == {}


def test_firmware_that_declares_an_extern_in_another_way_is_refused_and_the_old_one_goes_on(
    limited: Bench,
) -> None:
    limited.flash("here", FIRMWARE)
    with pytest.raises(ControlError, match=r"extern Limit\.passes: the program declares bool passes"):
        limited.flash("here", FIRMWARE.replace("bool passes(in bit<32>", "bool passes(in bit<16>"))
    limited.arrive(*[request_frame()] * 3)
    assert limited.drops() == {"pipeline.dropped": 1}


def test_an_extern_that_does_not_return_drops_its_packet(make_bench: Callable[..., Bench]) -> None:
    is_late = False

    @contextmanager
    def guard() -> Iterator[None]:
        yield
        if is_late:
            raise FirmwareOverrun("it did not return")

    bench = make_bench(guard=guard)
    bench.here.pipeline.load(compile_text(PROGRAM).program)
    bench.flash("here", FIRMWARE)
    is_late = True
    bench.arrive(request_frame())
    assert bench.drops() == {"extern.TimeoutError": 1}
    with pytest.raises(
        ControlError, match=r"object C\.limit cannot be made: TimeoutError: it did not return"
    ):
        bench.flash("here", FIRMWARE)


def test_firmware_may_have_externs_alone(bench: Bench) -> None:
    script = bench.folder / "externs.py"
    script.write_text(FIRMWARE)
    assert [thing.__name__ for thing in load_firmware(script).externs] == ["Limit"]
    script.write_text("x = 1\n")
    with pytest.raises(FirmwareError, match="or a function with @extern"):
        load_firmware(script)
