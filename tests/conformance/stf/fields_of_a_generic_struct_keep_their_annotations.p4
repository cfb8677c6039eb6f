// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Type specialization", "Annotations".
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> value; }
struct headers_t { byte_t h; }
struct kept_t<T> { @field_list(1) T x; T y; }

parser P(packet_in b, out headers_t h, inout kept_t<bit<8>> m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout kept_t<bit<8>> m) { apply { } }
control I(inout headers_t h, inout kept_t<bit<8>> m, inout standard_metadata_t s) {
    apply {
        if (s.instance_type == 0) {
            m.x = 0x77;
            m.y = 0x88;
            resubmit_preserving_field_list(1);
        } else {
            h.h.value = m.x + m.y;
            s.egress_spec = 2;
        }
    }
}
control E(inout headers_t h, inout kept_t<bit<8>> m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
