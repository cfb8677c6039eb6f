// SPDX-License-Identifier: Apache-2.0
// Blocks that do not fit the architecture.
#include <core.p4>
#include <nicemu.p4>

struct headers_t { }
struct other_t { }
struct m_t { }
parser P(packet_in packet, out headers_t headers, inout m_t m, inout nic_metadata_t nic) {
    state start { transition accept; }
}
control C(inout other_t headers, in m_t m, inout nic_metadata_t nic) { apply { } }
control D(packet_out packet, in headers_t headers, in m_t m) { apply { } }
SmartNic(P(), C(), D()) main;
