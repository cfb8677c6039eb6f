// A switch with an object of every kind that a controller may read or write.
#include <core.p4>
#include <v1model.p4>

@controller_header("packet_in") header packet_in_header_t { bit<9> ingress_port; bit<7> unused; }
@controller_header("packet_out") header packet_out_header_t { bit<9> egress_port; bit<7> unused; }
header flow_t { bit<8> flow; bit<8> hashed; }
struct headers_t { packet_out_header_t packet_out; packet_in_header_t packet_in; flow_t flow; }
struct metadata_t { }
struct learn_t { bit<8> flow; bit<9> port; }
struct pair_t { bit<8> count; bool seen; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    value_set<bit<8>>(4) ignored;
    state start { transition select(s.ingress_port) { 510: from_controller; default: flow; } }
    state from_controller { packet.extract(hdr.packet_out); transition flow; }
    state flow {
        packet.extract(hdr.flow);
        transition select(hdr.flow.flow) { ignored: reject; default: accept; }
    }
}
control V(inout headers_t hdr, inout metadata_t m) { apply { } }
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<12>>(16) last;
    @id(0x77) register<pair_t>(4) pairs;
    counter(8, CounterType.packets_and_bytes) flows;
    meter(8, MeterType.bytes) rates;
    direct_counter(CounterType.packets) hits;
    direct_meter<bit<2>>(MeterType.packets) marks;
    action_selector(HashAlgorithm.identity, 32, 16) ways;
    action_profile(4) profile;
    bit<2> colour = 0;
    bit<8> length = 0;

    action send(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); marks.read(colour); }
    action learn() { digest<learn_t>(1, { hdr.flow.flow, s.ingress_port }); }
    action punt() {
        s.egress_spec = 510;
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = s.ingress_port;
    }
    action flood(bit<16> group) { s.mcast_grp = group; }
    action mirror(bit<32> session) { clone(CloneType.I2E, session); s.egress_spec = 1; }

    table port {
        key = { hdr.flow.flow: optional; }
        actions = { send; drop; learn; punt; flood; mirror; }
        counters = hits;
        meters = marks;
        support_timeout = true;
        default_action = drop();
        size = 16;
    }
    table way {
        key = { hdr.flow.flow: exact; hdr.flow.hashed: selector; }
        actions = { send; drop; NoAction; }
        implementation = ways;
    }
    table shared {
        key = { hdr.flow.flow: exact; }
        actions = { send; NoAction; }
        implementation = profile;
    }
    apply {
        if (hdr.packet_out.isValid()) {
            s.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (port.apply().hit) {
            flows.count((bit<32>) hdr.flow.flow);
            rates.execute_meter((bit<32>) hdr.flow.flow, length);
            last.write((bit<32>) hdr.flow.flow, (bit<12>) length);
            pairs.write(0, { 7, true });
        } else if (!way.apply().hit) {
            shared.apply();
        }
    }
}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t hdr, inout metadata_t m) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
