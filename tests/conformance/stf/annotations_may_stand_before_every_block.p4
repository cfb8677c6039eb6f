// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Grammar", "Branch prediction annotations".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

bit<8> next(in bit<8> v) @note[why="to see it"] {
    return v + 1;
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.h);
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    action up(inout bit<8> v) @atomic {
        v = v + 1;
    }

    apply @atomic {
        up(headers.h.a);
        if (headers.h.a == 2) @likely {
            headers.h.b = headers.h.b + 1;
        } else @unlikely {
            headers.h.b = headers.h.a;
        }
        switch (headers.h.a) {
            2: @likely @note("two", 2) {
                headers.h.c = headers.h.c + 1;
                headers.h.d = next(headers.h.d);
            }
            default: @unlikely {
                headers.h.c = headers.h.c - 1;
            }
        }
    }
}

control TheEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Computation(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers);
    }
}

V1Switch(TheParser(), Verification(), TheIngress(), TheEgress(), Computation(), TheDeparser()) main;
