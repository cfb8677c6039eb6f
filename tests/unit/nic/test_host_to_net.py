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
    ethernet = Ethernet(b"\x02\x00" + USER_IP, b"\x02\x00" + HOST_IP, ETHERTYPE_IPV4)
    frame = encode_udp_frame(ethernet, HOST_IP, USER_IP, 1, 2, bytes([first]))
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
