# SPDX-License-Identifier: Apache-2.0
"""What a host transmits passes the program of its NIC where that has a control for it."""

from __future__ import annotations

import pytest

from nicemu.p4 import compile_text
from nicemu.wire import ETHERTYPE_IPV4, Ethernet, encode_udp_frame
from tests.unit.nic.conftest import HOST_IP, USER_IP, Bench, request_frame

PROGRAM = """
#include <core.p4>
#include <nicemu.p4>
header bytes_t { bit<336> outer; bit<8> first; }
struct headers_t { bytes_t h; }
struct metadata_t { }
struct seen_t { bit<8> first; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
    state start { b.extract(h.h); transition accept; }
}
control In(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) { apply { drop_packet(); } }
control Out(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
    FirmwareEvent<seen_t>("sent") sent;
    apply {
        sent.post({ h.h.first });
        if (h.h.first == 1) { drop_packet(); }
        if (h.h.first == 2) { send_to_host(); }
        if (h.h.first == 3) { hold_packet(); }
    }
}
control D(packet_out b, in headers_t h, in metadata_t m, in nic_metadata_t nic) { apply { b.emit(h); } }
SmartNic(P(), In(), D(), Out()) main;
"""
FIRMWARE = """
from nicemu.firmware import Event, Nic, on_event

@on_event("sent")
async def count(nic: Nic, event: Event) -> None:
    nic.count(f"sent_{event['first']}")
"""


def sent_by_host(first: int) -> bytes:
    ethernet = Ethernet(b"\x02\x00" + USER_IP, b"\x02\x00" + HOST_IP, ETHERTYPE_IPV4)
    return encode_udp_frame(ethernet, HOST_IP, USER_IP, 1, 2, bytes([first]))


@pytest.mark.parametrize(
    ("first", "leaves", "comes_back", "dropped"), [(0, 1, False, 0), (1, 0, False, 1), (2, 0, True, 0)]
)
def test_the_program_says_where_a_frame_of_the_host_goes(
    bench: Bench, first: int, leaves: int, comes_back: bool, dropped: int
) -> None:
    inbox = bench.simulation.add_client(USER_IP)
    bench.flash("here", FIRMWARE)
    bench.here.pipeline.load(compile_text(PROGRAM).program)
    bench.nic.listen()
    frame = sent_by_host(first)
    bench.nic.transmit(frame)
    bench.simulation.run_until_idle()
    packet = bench.nic.receive(0.0)
    assert (packet is not None and packet.payload == bytes([first])) is comes_back
    assert bench.drops() == {f"sent_{first}": 1} | ({"pipeline.dropped": 1} if dropped else {})
    assert list(inbox) == [frame] * leaves


def test_what_comes_from_the_network_passes_the_other_control(bench: Bench) -> None:
    bench.here.pipeline.load(compile_text(PROGRAM).program)
    bench.arrive(request_frame())
    assert bench.drops() == {"pipeline.dropped": 1}


@pytest.mark.parametrize(
    ("handler", "leaves", "comes_back", "counted"),
    [
        ("nic.transmit(event)", True, False, ""),
        ("nic.transmit(event); nic.transmit(event); nic.miss(event)", True, False, ""),
        ("await nic.delay(1000); nic.transmit(event)", True, False, ""),
        ("nic.miss(event)", False, True, ""),
        ("nic.miss(event); nic.transmit(event)", False, True, ""),
        ("pass", False, False, ""),
        ("assert event.port == HOST_PORT; raise KeyError", True, False, "firmware.KeyError"),
        ("await nic.delay(1 << 60)", True, False, "firmware.timeout"),
        ("nic.transmit(event); raise KeyError", True, False, "firmware.KeyError"),
    ],
)
def test_a_frame_of_the_host_that_is_held_goes_where_the_handler_says_or_else_to_the_network(
    bench: Bench, handler: str, leaves: bool, comes_back: bool, counted: str
) -> None:
    inbox = bench.simulation.add_client(USER_IP)
    imports = "from nicemu.firmware import HOST_PORT, on_event\n"
    bench.flash("here", f'{imports}@on_event("sent")\nasync def sent(nic, event):\n    {handler}\n')
    bench.here.pipeline.load(compile_text(PROGRAM).program)
    bench.nic.listen()
    frame = sent_by_host(3)
    bench.nic.transmit(frame)
    bench.simulation.run_until_idle()
    assert list(inbox) == [frame] * leaves
    packet = bench.nic.receive(0.0)
    assert (packet is not None and packet.payload == b"\x03") is comes_back
    assert bench.drops() == ({counted: 1} if counted else {})


@pytest.mark.parametrize("is_handled", [False, True])
def test_new_firmware_and_none_let_a_held_frame_of_the_host_go_to_the_network(
    bench: Bench, is_handled: bool
) -> None:
    inbox = bench.simulation.add_client(USER_IP)
    other = "from nicemu.firmware import on_event\n@on_event('other')\nasync def f(nic, event): ...\n"
    wait = other.replace("other", "sent").replace("...", "await nic.delay(9)")
    bench.flash("here", wait if is_handled else other)
    bench.here.pipeline.load(compile_text(PROGRAM).program)
    bench.nic.listen()
    bench.nic.transmit(sent_by_host(3))
    bench.flash("here", other)
    bench.simulation.run_until_idle()
    assert list(inbox) == [sent_by_host(3)]
    assert bench.nic.receive(0.0) is None
    assert bench.drops() == ({} if is_handled else {"firmware.no_handler": 1})
