/* P4-16 1.2.5, "Abstract methods", "Instantiating objects with abstract methods": what an object defines itself
   runs where it is called; `this` is the object, and it may have objects of its own. */
#include <core.p4>
#include <v1model.p4>
extern Balancer<T> {
    Balancer(bit<8> n);
    abstract bit<4> on_new_flow(in T address);
    abstract void note(inout T x);
    bit<4> plain(in T address);
}
header h_t { bit<8> a; bit<8> b; }
struct H { h_t h; }
struct M { }
const bit<8> OFFSET = 3;
bit<8> twice(in bit<8> x) { return x + x; }
Balancer<bit<8>>(4) outer = {
    bit<4> on_new_flow(in bit<8> address) { return (bit<4>) (address + OFFSET); }
    void note(inout bit<8> x) { x = twice(x) + (bit<8>) this.on_new_flow(x); }
};
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) { state start { b.extract(h.h); transition accept; } }
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    Balancer<bit<8>>(5) bal = {
        register<bit<8>>(2) r;
        bit<4> on_new_flow(in bit<8> address) { bit<8> v; r.read(v, 0); r.write(0, v + 1); if (address > 5) { return 1; } return v[3:0]; }
        void note(inout bit<8> x) { this.on_new_flow(x); x = x + 1; }
    };
    apply { h.h.b = (bit<8>) bal.on_new_flow(h.h.a); bal.note(h.h.a); outer.note(h.h.b); s.egress_spec = 1; }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control C(inout H h, inout M m) { apply { } }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
