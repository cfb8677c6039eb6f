# SPDX-License-Identifier: Apache-2.0
"""p4/include/rocev2.p4 takes apart what our RDMA engine puts on a wire."""

from __future__ import annotations

from functools import cache

import pytest

from nicemu.p4 import compile_text
from nicemu.pipeline import Engine
from nicemu.wire import RcOpcode, RoceFramer, UdOpcode, decode_roce_frame

PROGRAM = """
#include <core.p4>
#include <nicemu.p4>
#include <kv.p4>
#include <rocev2.p4>
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; udp_t udp; roce_t roce; }
struct metadata_t { }
parser P(packet_in packet, out headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
    RoceParser() roce;
    state start {
        packet.extract(h.ethernet);
        packet.extract(h.ipv4);
        packet.extract(h.udp);
        transition select(h.udp.destination_port) { ROCEV2_PORT: rdma; default: accept; }
    }
    state rdma { roce.apply(packet, h.roce); transition accept; }
}
control C(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
    apply { send_to_port(0); h.roce.bth.becn = 1; }
}
control D(packet_out packet, in headers_t h, in metadata_t m, in nic_metadata_t nic) {
    apply { packet.emit(h); }
}
SmartNic(P(), C(), D()) main;
"""
EXTENSION = bytes(range(28))


@cache
def engine() -> Engine:
    made = Engine()
    made.load(compile_text(PROGRAM).program)
    return made


@pytest.mark.parametrize(
    "opcode", [*RcOpcode, *UdOpcode], ids=lambda opcode: type(opcode).__name__ + opcode.name
)
def test_headers_of_every_opcode_are_those_that_the_engine_reads(opcode: RcOpcode | UdOpcode) -> None:
    framer = RoceFramer(bytes(6), bytes(6), bytes(4), bytes(4))
    frame = framer.frame(
        opcode, 0xABCDEF, 0x123456, ack_request=True, extension=EXTENSION, payload=[b"payload"]
    )
    read = decode_roce_frame(frame)
    found = {place.name: place.number for place in engine().dissect(frame)}
    expected: dict[str, int] = {
        "roce.bth.opcode": opcode,
        "roce.bth.destination_qp": read.bth.destination_qp,
        "roce.bth.psn": read.bth.psn,
        "roce.bth.ack_request": 1,
        "roce.bth.migration_request": 1,
        "roce.bth.pad_count": read.bth.pad_count,
        "roce.bth.partition_key": 0xFFFF,
    }
    if read.reth is not None:
        expected |= {
            f"roce.reth.{name}": getattr(read.reth, name) for name in ("address", "rkey", "dma_length")
        }
    if read.atomic is not None:
        names = ("address", "rkey", "swap_add", "compare")
        expected |= {f"roce.atomic_eth.{name}": getattr(read.atomic, name) for name in names}
    if read.aeth is not None:
        expected |= {"roce.aeth.syndrome": read.aeth.syndrome, "roce.aeth.msn": read.aeth.msn}
    if read.atomic_ack is not None:
        expected["roce.atomic_ack_eth.original"] = read.atomic_ack.original
    if read.deth is not None:
        expected |= {"roce.deth.q_key": read.deth.q_key, "roce.deth.source_qp": read.deth.source_qp}
    if read.imm_data is not None:
        expected["roce.immediate.data"] = read.imm_data
    assert {name: found[name] for name in expected} == expected
    extended = {name.split(".")[1] for name in found if name.startswith("roce.")} - {"bth"}
    assert extended == {name.split(".")[1] for name in expected} - {"bth"}


def test_a_program_may_change_a_header_and_leaves_the_rest() -> None:
    frame = RoceFramer(bytes(6), bytes(6), bytes(4), bytes(4)).cnp(5)
    verdict = engine().process(frame, 0)
    changed = [place for place, (one, two) in enumerate(zip(frame, verdict.frame, strict=True)) if one != two]
    assert changed == []  # a CNP has BECN set already
    plain = RoceFramer(bytes(6), bytes(6), bytes(4), bytes(4)).frame(
        RcOpcode.SEND_ONLY, 5, 6, payload=[b"abc"]
    )
    verdict = engine().process(plain, 0)
    assert [
        place for place, (one, two) in enumerate(zip(plain, verdict.frame, strict=True)) if one != two
    ] == [46]
