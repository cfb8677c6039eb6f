# SPDX-License-Identifier: Apache-2.0
"""Random P4 programs that are legal and that few people would write, for both architectures, from one seed.

`GRAMMAR` says what there is: a word of its keys stands for one of its templates, in which other such words
stand. A program is text; everything in it may be a call with an effect. `may` lets a packet ask for another
round or a copy now and then, so that it does not come for ever.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator

TYPES = """
header a_t { bit<8> k; bit<8> l; bit<16> w; int<8> i; bit<3> p; int<5> q; bit<16> sum; }
header b_t { bit<8> z; bit<4> c; int<4> d; }
header c_t { bit<8> k; bit<8> l; }
header v_t { bit<8> n; varbit<64> v; }
header_union u_t { b_t one; c_t two; }
enum bit<8> e_t { A = 1, B = 2, C = 200 }
struct pair_t { bit<8> x; int<7> n; }
struct wide_t { bit<8> x; int<8> n; }
struct some_t { @match(ternary) bit<8> a; @match(range) int<8> b; }
struct event_t { bit<8> a; int<8> b; bit<16> c; }
struct inner_t { bit<8> x; b_t h; b_t[2] st; pair_t pair; bit<8>[2] arr; }
struct headers_t { a_t a; b_t[3] s; u_t u; v_t v; u_t[2] us; v_t v2; }
struct metadata_t {
    @field_list(0, 1) bit<8> rounds; @field_list(1) inner_t inner; bool flag; @field_list(2) a_t ha;
    @field_list(2) bit<70> wide; @field_list(1) b_t[2] st; e_t e; @field_list(3) pair_t pair;
    @field_list(0) error er;
}
register<bit<8>>(1) asked;
register<bit<8>>(8) seen;
register<pair_t>(3) pairs;
register<int<9>>(4) signed_of;
Checksum16() summed;
counter(8, CounterType.packets_and_bytes) counted;
meter(4, MeterType.packets) paced;
bit<8> up(in bit<8> n) {
    bit<8> old;
    seen.read(old, (bit<32>) (n & 7));
    seen.write((bit<32>) (n & 7), old + 1);
    return n + old;
}
bool may(in bit<8> n) { bit<8> old; asked.read(old, 0); asked.write(0, old + 1); return (old & n) == n >> 1; }
bit<8> bump(inout bit<8> n) { n = n + 1; counted.count((bit<32>) n); return n; }
void two(inout bit<8> n, out bit<8> r) { r = n ^ 5; n = up(n); }
void swap(inout bit<8> a, inout bit<8> b) { bit<8> c = a; a = b; b = c; }
bit<8> opt(in bit<8> a = 5, in bit<8> b = 9) { return b; }
bit<8> same(inout bit<8> x, out bit<8> y, in int<8> i) { y = x + 1; return (bit<8>) i; }
int<8> less(inout int<8> n) { n = n |-| 9; return n; }
T pick<T>(in bool f, in T a, in T b) { if (f) { return a; } return b; }
b_t made(inout bit<8> n) { b_t r; if (bump(n) > 40) { r.setValid(); } r.z = n; return r; }
pair_t both(inout bit<8> n) { pair_t r = { bump(n), 3 }; return r; }
u_t union_of(in bit<8> n) {
    u_t r;
    if (n[0:0] == 1) { r.one.setValid(); r.one.z = up(n); } else { r.two.setValid(); }
    return r;
}
bit<8> peek(packet_in p) { return p.lookahead<bit<8>>(); }
void take(packet_in p, out b_t t, inout bit<8> n) {
    p.extract(t);
    n = n + t.z;
    if (t.z == 9) { p.advance(8); }
}
void put(packet_out b, in b_t t, inout bit<8> n) { n = n + 1; if (n[0:0] == 1) { b.emit(t); } b.emit(t); }
"""
SIMPLE = 3
"""Templates at the beginning of a list that lead no deeper."""
GRAMMAR = {
    # Values, and places: the first ones of each are simple
    "BYTE": """x | y | h.a.k | 8w7 | h.s[PLACE].z | m.inner.x | (BYTE + BYTE) | up(BYTE) | bump(BYTES)
        | (TRUE ? BYTE : BYTE) | (bit<8>) (INT) | (BYTE |+| BYTE) | (BYTE |-| BYTE) | (BYTE ++ BYTE)[11:4]
        | h.a.w[15:8] | m.inner.st[PLACE].z | made(BYTES).z | both(BYTES).x | h.u.one.z | h.us[PLACE].two.k
        | h.u.two.k | (BYTE >> (BYTE & 9)) | (BYTE << BYTE) | m.st[PLACE].z | (bit<8>) m.e
        | (bit<8>) (m.wide >> BYTE) | (BYTE * BYTE) | ((bit<8>) h.a.p) | opt(b = BYTE) | opt(BYTE, BYTE)
        | m.inner.arr[PLACE] | pick(TRUE, BYTE, BYTE) | pick(TRUE, both(BYTES), m.pair).x
        | union_of(BYTE).one.z | (bit<8>) (bit<1>) (TRUE) | h.v.n | deep(h, m, BYTES, BYTES, INT)""",
    "INT": """i | h.a.i | (int<8>) h.a.q | less(INTS) | (INT |+| INT) | (INT |-| INT) | (-INT) | (INT * INT)
        | ((int<8>) BYTE) | (INT >> (BYTE & 9)) | (INT << BYTE) | (TRUE ? INT : INT)
        | (int<8>) m.inner.pair.n | (int<8>) h.s[PLACE].d | (~INT)""",
    "TRUE": """f | h.a.isValid() | m.flag | (BYTE > BYTE) | (INT < INT) | (TRUE && TRUE) | (TRUE || TRUE)
        | (!TRUE) | h.s[PLACE].isValid() | h.u.isValid() | made(BYTES).isValid()
        | (both(BYTES) == m.inner.pair) | (h.a == m.ha) | (h.v == h.v2) | (h.v.v == h.v2.v)
        | (h.s[PLACE] == made(BYTES)) | h.u.two.isValid() | (m.st == m.st) | (h.u == h.us[PLACE])
        | (m.e == e_t.B) | (m.inner.h == h.s[PLACE]) | (m.er == error.NoMatch)""",
    "PLACE": "0 | 1 | (x & 1) | (BYTE ^ y) | ((BYTE ^ x) & 3) | y[1:0] | i | (bump(BYTES) & 3)",
    "BYTES": """x | y | h.a.k | m.inner.x | h.s[PLACE].z | h.a.w[11:4] | m.st[PLACE].z | h.u.one.z
        | h.us[PLACE].two.l | m.wide[68:61] | m.inner.st[PLACE].z | h.a.l | m.inner.arr[PLACE]
        | h.us[PLACE].one.z | h.a.w[15:8]""",
    "INTS": "i | h.a.i",
    "HEADS": "m.inner.h | h.u.one | h.s[PLACE] | m.st[PLACE] | m.inner.st[PLACE] | h.us[PLACE].one",
    "HEAD": """HEADS | made(BYTES) | (b_t) { z = BYTE, c = 3, d = 2 } | (b_t) {#} | (TRUE ? HEAD : HEAD)
        | union_of(BYTE).one | pick(TRUE, HEAD, HEAD)""",
    "BIGS": "h.a | m.ha",
    "SUMS": "h.a.sum | h.s[PLACE].z | h.u.two.k | h.a.w[12:3]",
    "ALGO": "crc32 | crc16 | csum16 | xor16 | identity | random",
    "LIST": "0 | 1 | 2 | 3 | 9",
    "MASK": "3 | 3 | 7",
    "ASSIGN": "= | += | ^= | |+|= | |-|= | <<= | >>= | &= | *=",
    # Statements, which are given apart from each other by line ends
    "DO": """
        BYTES ASSIGN BYTE;
        INTS = INT;
        f = TRUE;
        HEADS = HEAD;
        BIGS = BIGS;
        HEADS.setValid();
        HEADS.setInvalid();
        BIGS.setValid();
        BIGS.setInvalid();
        two(BYTES, BYTES);
        two(r = BYTES, n = BYTES);
        swap(BYTES, BYTES);
        less(INTS);
        m.inner.pair = both(BYTES);
        m.inner.pair = { x = BYTE, ... };
        m.inner = { BYTE, HEAD, m.inner.st, both(BYTES), { BYTE, BYTE } };
        h.u = union_of(BYTE);
        h.u = h.us[PLACE];
        h.us[PLACE] = h.u;
        h.us[PLACE] = (u_t) {#};
        h.us[PLACE] = union_of(BYTE);
        h.a.q = (int<5>) INT;
        h.a.p = h.a.p |-| 3;
        h.a.sum = BYTE ++ BYTE;
        h.a.w[13:2] = (bit<12>) BYTE;
        m.wide = m.wide + ((bit<70>) BYTE << 55);
        m.e = (e_t) BYTE;
        m.er = error.NoMatch;
        { tuple<bit<8>, int<8>> NEW = { BYTE, INT }; y = NEW[0]; i = NEW[1]; }
        h.v2 = h.v;
        h.v2.v = h.v.v;
        h.v = pick(TRUE, h.v, h.v2);
        h.v2.setValid();
        h.v.setInvalid();
        pairs.read(m.inner.pair, (bit<32>) (BYTE & 3));
        pairs.write((bit<32>) (BYTE & 3), both(BYTES));
        seen.read(BYTES, (bit<32>) (BYTE & 15));
        seen.write((bit<32>) (BYTE & 15), BYTE);
        signed_of.write((bit<32>) (BYTE & 3), (int<9>) INT);
        { int<9> NEW; signed_of.read(NEW, (bit<32>) (BYTE & 3)); i = i |+| (int<8>) NEW; }
        counted.count((bit<32>) (BYTE & 7));
        paced.execute_meter((bit<32>) (BYTE & 3), BYTES);
        paced.execute_meter((bit<32>) (BYTE & 3), h.a.w[4:4]);
        random(BYTES, 3, BYTE);
        random(INTS, INT, INT);
        h.a.sum = summed.get({ BYTE, HEAD, h.v, h.us });
        BYTES = (bit<8>) summed.get({ h.s, BYTE });
        hash(BYTES, HashAlgorithm.ALGO, BYTE, { BYTE, HEAD, INT }, BYTE);
        hash(INTS, HashAlgorithm.ALGO, INT, { h.v, h.us, h.a.p }, 64w200);
        hash(m.wide, HashAlgorithm.ALGO, 70w5, { h.u, h.s, m.inner }, 70w1 << 65);""",
    "MOVE": """
        h.s.push_front(1);
        h.s.pop_front(1);
        m.st.push_front(2);
        m.inner.st.pop_front(1);""",
    "IF": """
        if (TRUE) { BODY }
        if (TRUE) { BODY } else { BODY }
        { bit<8> NEW = BYTE; BODY x = x ^ NEW; }""",
    "LOOP": """
        for (bit<8> NEW = 0; NEW < (BYTE & 3); NEW += 1) { BODY STOP }
        for (bit<3> NEW in 2 .. (bit<3>) (BYTE)) { BODY STOP x = x + (bit<8>) NEW; }
        for (int<4> NEW in (int<4>) (INT) .. 2) { BODY STOP }
        for (bit<8> NEW = 0; NEW < 3 && TRUE; NEW += (TRUE ? 8w1 : 2)) { BODY STOP }
        for (bit<8> NEW in m.inner.arr) { BODY STOP x = x ^ NEW; }
        for (bit<2> NEW in 0 .. 2) { switch (BYTE) { 1: 3: { STOP BODY } default: { BODY STOP } } STOP }
        for (bit<2> NEW in 1 .. 3) { for (b_t NEW_ in h.s) { if (TRUE) { STOP } STOP } BODY STOP }
        for (b_t NEW in h.s) { BODY STOP x = x ^ NEW.z; }
        for (bit<8> NEW = 0, bit<8> NEW_ = BYTE; NEW < 4 && TRUE; NEW += 1, NEW_ += x) { BODY STOP }""",
    "STOP": """
        ;
        if (TRUE) { break; }
        if (TRUE) { continue; }
        if (TRUE) { DO break; }""",
    "EXIT": """
        if (TRUE) { exit; }
        if (TRUE) { return; }
        if (TRUE) { DO exit; }""",
    "SWITCH": """
        switch (BYTE) { 3: { BODY } 7: { BODY } default: { BODY } }
        switch (m.e) { e_t.A: { BODY } e_t.C: { BODY } }
        switch (INT) { -3: 0: { BODY } default: { BODY } }
        switch ((BYTE)[1:0]) { 0: 1: { BODY } 2: { BODY } }
        if (TABLE.apply().hit) { BODY }
        if (!TABLE.apply().hit && TRUE) { BODY } else { BODY }
        switch (TABLE.apply().action_run) { NoAction: { BODY } default: { BODY } }
        x = (TABLE.apply().miss ? BYTE : BYTE);
        f = TABLE.apply().hit;
        TABLE.apply();
        INSTANCE;
        INSTANCE;""",
    "ASK": """
        if (may(MASK)) { resubmit_preserving_field_list(LIST); }
        if (may(MASK)) { recirculate_preserving_field_list(LIST); }
        if (may(MASK)) { clone(CloneType.I2E, (bit<32>) (BYTE & 3)); }
        if (may(MASK)) { clone(CloneType.E2E, (bit<32>) (BYTE & 3)); }
        if (may(MASK)) { clone_preserving_field_list(CloneType.I2E, (bit<32>) (BYTE & 3), LIST); }
        if (may(MASK)) { clone_preserving_field_list(CloneType.E2E, (bit<32>) (BYTE & 3), LIST); }
        if (may(MASK)) { truncate((bit<32>) (BYTE & 31)); }
        if (may(MASK)) { assert(TRUE); }
        digest<pair_t>((bit<32>) BYTE, { BYTE, 5 });
        digest<pair_t>(1, both(BYTES));
        digest<headers_t>(1, h);
        digest(3, { { BYTE, HEAD }, m.inner, h.u });
        log_msg("{} {} {}", { BYTE, INT, h.s });""",
    "STANDARD": """
        s.egress_spec = (bit<9>) (BYTE & 7);
        if (may(MASK)) { mark_to_drop(s); }
        if (may(MASK)) { s.mcast_grp = (bit<16>) (BYTE & 3); }
        s.mcast_grp = (may(MASK) ? 16w1 : 0);
        if (may(MASK)) { s.egress_spec = 510; }
        if (s.parser_error == error.PacketTooShort) { DO }
        BYTES = (bit<8>) s.instance_type + (bit<8>) s.egress_rid;
        BYTES = (bit<8>) (s.checksum_error ++ s.egress_port[2:0]);
        for (bit<8> NEW = 0; NEW < 90; NEW += 1) { log_msg("{}", { BYTE }); }""",
    "NIC": """
        send_to_port((bit<16>) BYTE);
        send_to_host();
        if (may(MASK)) { drop_packet(); }
        if (may(MASK)) { hold_packet(); }
        hits.add((bit<32>) BYTE, (bit<64>) BYTE);
        for (bit<8> NEW = 0; NEW < 90; NEW += 1) { hits.add(1, (bit<64>) BYTE); }
        event.post({ BYTE, INT, h.a.w });
        work.arm((bit<32>) BYTE, (bit<64>) (BYTE));
        BYTES = (bit<8>) (nic.ingress_port);""",
    "TAKE": """
        p.extract(h.s.next);
        p.extract(h.s.next);
        p.extract(m.st.next);
        { inner_t NEW; p.extract(NEW.st.next); m.inner = NEW; }
        p.extract(h.u.one);
        p.extract(BIGS);
        p.extract(h.us[PLACE].one);
        p.extract(h.us[PLACE].two);
        p.extract(h.v, (bit<32>) (BYTE & 56));
        p.extract(h.v2, (bit<32>) (BYTE & 127));
        p.advance((bit<32>) (BYTE & 8));
        take(p, HEADS, BYTES);
        BYTES = peek(p);
        BYTES = p.lookahead<bit<8>>();
        HEADS = p.lookahead<b_t>();
        i = p.lookahead<wide_t>().n;
        BYTES = h.s.last.z;
        BYTES = (bit<8>) h.s.lastIndex;
        BYTES = (bit<8>) p.length();
        verify(TRUE || x != 3, error.NoMatch);
        INSTANCE;""",
    "SELECT": """
        transition accept;
        transition select(BYTE & 3) { 0: STATE; 1 &&& 1: STATE; 2 .. 3: STATE; default: accept; }
        transition select(BYTE, INT) { (7, _): STATE; (few, -5 .. 9): STATE; (_, -9): STATE; _: accept; }
        transition select(BYTE) { few: STATE; 0 .. 20: STATE; 3: STATE; default: accept; }
        transition select(TRUE, h.a.p, m.e) { (true, 3, e_t.A): STATE; (_, 1 &&& 5, _): accept; }
        transition select(HEADS.z, INT) { some: STATE; (_, 0 .. 127): STATE; default: accept; }""",
    "EMIT": """
        b.emit(h);
        b.emit(h.a);
        b.emit(h.s);
        b.emit(h.u);
        b.emit(h.us[PLACE]);
        b.emit(HEAD);
        b.emit(m.inner.st);
        b.emit(union_of(BYTE));
        b.emit((TRUE ? h.us[0] : h.us[1]));
        b.emit(pick(TRUE, h.v, h.v2));
        b.emit(given);
        b.emit(given.a);
        put(b, HEAD, BYTES);""",
    "SUM": """
        VERB_checksum(TRUE, { BYTE, h.a.w, HEAD }, h.a.sum, HashAlgorithm.ALGO);
        VERB_checksum_with_payload(TRUE, { h.a.k, h.u, h.v }, h.a.sum, HashAlgorithm.ALGO);
        VERB_checksum(TRUE, { h.s, BYTE }, SUMS, HashAlgorithm.ALGO);""",
    "KEY": "BYTE | (BYTE & 3) | (BYTE & 1) | INT | h.a.w | h.s[PLACE].z | TRUE | m.e | m.wide",
}
VALUES = ("BYTE", "INT", "TRUE", "PLACE", "BYTES", "HEADS", "HEAD")
TEMPLATES = {
    name: [part.strip() for part in (text.strip().split("\n") if ";" in text else re.split(r"\s\|\s", text))]
    for name, text in GRAMMAR.items()
}
WORD = re.compile(rf"\b(?:(?:{'|'.join(GRAMMAR)}|NEW_|NEW|BODY|STATE|TABLE|INSTANCE)\b|VERB(?=_))")
LOCALS = "bit<8> x = 1; bit<8> y = 2; int<8> i = -3; bool f = true;"
STATES = ("start", "first", "second", "last")


class Block:
    """What stands in one block, of `kinds` of statements; `parts` are what it declares for them."""

    def __init__(
        self,
        chance: random.Random,
        names: Iterator[str],
        kinds: Iterable[str],
        *,
        verb: str = "",
        instances: Iterable[str] = (),
        most_depth: int = 2,
    ) -> None:
        self._chance, self._names, self._kinds, self._verb = chance, names, tuple(kinds), verb
        self._instances, self._most_depth = tuple(instances), most_depth
        self._applies = "SWITCH" in self._kinds
        self._calls: list[str] = []
        self.parts: list[str] = []

    def filled(self, template: str, depth: int = 0) -> str:
        """Return a template with something random for each of its words."""
        new = ""

        def one(found: re.Match[str]) -> str:
            nonlocal new
            word = found[0]
            match word:
                case "NEW" | "NEW_":
                    new = new or next(self._names)
                    return word.replace("NEW", new)
                case "BODY":
                    return self.body(depth + 1)
                case "STATE":
                    return self._chance.choice((*STATES[1:], *["accept"] * 6, "reject"))
                case "TABLE":
                    return self._table()
                case "INSTANCE":
                    return self.filled(self._chance.choice(self._instances or ("f = !f",)), depth + 1)
                case "VERB":
                    return self._verb
            choices = TEMPLATES[word]
            if word == "TRUE" and self._applies and self._chance.random() < 0.1:
                choices = ["TABLE.apply().hit", "TABLE.apply().miss"]
            if depth > SIMPLE and word in VALUES:
                choices = choices[: 1 if word == "HEAD" else 2]
            return self.filled(self._chance.choice(choices), depth + 1)

        return WORD.sub(one, template)

    def body(self, depth: int = 0, most: int = 3) -> str:
        """Return statements."""
        count = self._chance.randint(1, max(1, most - depth))
        return " ".join(self._statement(depth) for _ in range(count))

    def _statement(self, depth: int) -> str:
        kind = self._chance.choice(self._kinds)
        if kind in ("IF", "LOOP", "SWITCH"):
            return self.filled(kind, depth) if depth < self._most_depth else self.filled("DO", depth)
        if kind == "CALL":
            return self.filled(self._chance.choice(self._calls) if self._calls else "DO", 2)
        return self.filled(kind, depth)

    def add_action(self) -> None:
        """Declare an action, whose body is random and may call those before it."""
        name = next(self._names)
        kinds = [kind for kind in self._kinds if kind not in ("SWITCH", "EMIT")]
        inner = Block(self._chance, self._names, kinds, verb=self._verb, most_depth=1)
        inner._calls = list(self._calls)
        self.parts.append(
            f"action {name}(in bit<8> n, inout bit<8> b, out bit<8> o, bit<8> d) {{"
            f" x = x + d; {inner.body(0, 2)} b = b ^ n; o = b; {inner.body(1, 1)} }}"
        )
        self._calls.append(f"{name}(BYTE, BYTES, BYTES, BYTE);")

    def _table(self) -> str:
        """Declare a table of random keys and properties; return its name."""
        chance, name, properties = self._chance, next(self._names), []
        keys = [self._key(number) for number in range(chance.randrange(4))]
        calls = chance.sample(self._calls, min(len(self._calls), chance.randint(0, 2)))
        self._applies, applies = False, self._applies  # in arguments and selector keys no table is applied
        refs = [self.filled(call.replace(", BYTE);", ");"), 1) for call in calls]
        if chance.random() < 0.3:
            self.parts.append(f"direct_counter(CounterType.packets_and_bytes) {name}c;")
            properties.append(f"counters = {name}c;")
        if keys and chance.random() < 0.3:
            self.parts.append(f"direct_meter<bit<8>>(MeterType.packets) {name}m;")
            self.parts.append(f"action {name}r() {{ {self.filled(f'{name}m.read(BYTES);', 1)} }}")
            properties.append(f"meters = {name}m;")
            refs.append(f"{name}r;")
        elif keys and chance.random() < 0.4:
            profile = "action_profile(8)"
            if chance.random() < 0.5:
                keys.append(self.filled('BYTE: selector @name("s"); h.a.l: selector @name("t");', 2))
                profile = f"action_selector(HashAlgorithm.{chance.choice(('crc16', 'identity'))}, 16, 16)"
            properties.append(f"implementation = {profile};")
        elif refs and chance.random() < 0.5:
            properties.append(f"default_action = {refs[0][:-2]}, {chance.randrange(9)});")
        self._applies = applies
        key = f"key = {{ {' '.join(keys)} }}" if keys else ""
        actions = f"actions = {{ {' '.join(refs)} NoAction; }}"
        self.parts.append(f"table {name} {{ {key} {actions} {' '.join(properties)} size = 64; }}")
        return name

    def _key(self, number: int) -> str:
        key = self._chance.choice(TEMPLATES["KEY"])
        kinds = ("exact",) if key in ("TRUE", "m.e") else ("exact", "exact", "ternary", "range", "optional")
        kind = self._chance.choice((*kinds, "lpm") if number == 0 and "BYTE" in key else kinds)
        return f'{self.filled(key, 1)}: {kind} @name("k{number}");'


class Programs:
    """Writes the text of a program; half of them have a certain part."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.names = (f"n{number}" for number in itertools.count())

    def _half(self) -> bool:
        return self.chance.random() < 0.5

    def _block(
        self, *kinds: str, verb: str = "", instances: Iterable[str] = (), most_depth: int = 2
    ) -> Block:
        return Block(self.chance, self.names, kinds, verb=verb, instances=instances, most_depth=most_depth)

    def _function(self) -> str:
        block = self._block("DO", "IF", "LOOP", "MOVE", most_depth=1)
        ends = f"for (bit<2> n in 0 .. 2) {{ if (TRUE) {{ return BYTE; }} {block.body(1, 1)} }}"
        text = block.filled(f"{block.body(0, 2)} {ends}")
        head = "bit<8> deep(inout headers_t h, inout metadata_t m, inout bit<8> x, out bit<8> y, in int<8> j)"
        text = f"{head} {{ int<8> i = j; bool f = false; {text} return x; }}"
        return re.sub(r"\bdeep\((?!inout)h, m, ", "same(", text) + "\n"

    def _parser(self, head: str, more: str, instances: Iterable[str], kinds: tuple[str, ...]) -> str:
        block = self._block("TAKE", "TAKE", "DO", "DO", "IF", *kinds, instances=instances, most_depth=1)
        text = f"{head} {{\n  {LOCALS} value_set<bit<8>>(4) few; value_set<some_t>(4) some; {more}\n"
        for state in STATES:
            first = (
                "p.extract(h.a); x = h.a.l;"
                if state == "start" and "(packet_in p, out headers_t" in head
                else ""
            )
            ends = "transition accept;" if state == "last" else block.filled("SELECT", 1)
            text += f"  state {state} {{ {first} {block.body(0, 2)} {ends} }}\n"
        return text + "}\n"

    def _control(
        self,
        head: str,
        *kinds: str,
        verb: str = "",
        inside: str = "",
        around: tuple[str, str] = ("", ""),
        more: str = "",
    ) -> str:
        inside = inside if self._half() else ""
        calls = [f"{name}.apply(h, m, BYTE, BYTES)" for name in ("one", "other")] if inside else []
        block = self._block(*kinds, "DO", "DO", "IF", "LOOP", "MOVE", "CALL", verb=verb, instances=calls)
        for _ in range(self.chance.randint(1, 2)):
            block.add_action()
        body = block.filled(block.body())
        declared = f"{inside} one; {inside} other;" if inside else ""
        lines = "\n  ".join([f"{LOCALS} {more} {declared}", *block.parts])
        return f"{head} {{\n  {lines}\n  apply {{ {around[0]} {body} {around[1]} }}\n}}\n"

    def _beginning(self, architecture: str, place: str, kinds: tuple[str, ...]) -> str:
        """Return what both architectures have."""
        part = "packet_in p, inout headers_t h, inout metadata_t m, in bit<8> n, out bit<8> r"
        whole = f"packet_in p, out headers_t h, inout metadata_t m, inout {place}"
        text = f"#include <core.p4>\n#include <{architecture}.p4>\n{TYPES}{self._function()}"
        calls = ("part.apply(p, h, m, BYTE, BYTES)",) if self._half() else ()
        if calls:
            text += self._parser(f"parser Part({part})", "", (), kinds)
        text += self._parser(f"parser P({whole})", "Part() part;" if calls else "", calls, kinds)
        inside = part.replace("packet_in p, ", "")
        return text + self._control(f"control Inside({inside})", "SWITCH", "EXIT", *kinds)

    def _written(self, text: str) -> str:
        """Return the text of a program, in half of which nothing calls `deep`."""
        return text if self._half() else re.sub(r"\bdeep\((?!inout)h, m, ", "same(", text)

    def v1model(self) -> str:
        """Return a program for v1model."""
        both, whole = "(inout headers_t h, inout metadata_t m)", "inout standard_metadata_t s"
        asks = ("ASK",) if self.chance.random() < 0.5 else ()
        kinds = "SWITCH", "EXIT", "ASK", "ASK", "STANDARD"
        seen = (
            "digest(9, { m.inner, m.st, m.wide, m.ha, m.pair, m.flag, m.er, x, y, i });"
            "digest(7, { s.egress_rid, s.instance_type, s.egress_spec, s.mcast_grp });"
        )
        begins = "s.egress_spec = 3; m.rounds = m.rounds + 1;", ""
        passes = both.replace(")", f", {whole})")
        sums = ("SUM", "SUM", "SWITCH", *asks)
        nothing = "{ apply { } }\n"
        text = self._beginning("v1model", f"{whole[6:]}", asks)
        for name, verb in (("V", "verify"), ("C", "update")):
            does = self._half()
            text += (
                self._control(f"control {name}{both}", *sums, verb=verb)
                if does
                else f"control {name}{both} {nothing}"
            )
        text += self._control(f"control I{passes}", *kinds, inside="Inside()", around=begins)
        text += self._control(f"control E{passes}", *kinds, inside="Inside()", around=("", seen))
        text += self._deparser("(packet_out b, in headers_t given)", "h = given;", "ASK")
        return self._written(text + "V1Switch(P(), V(), I(), E(), C(), D()) main;\n")

    def nic(self) -> str:
        """Return a program for the SmartNIC."""
        place = "nic_metadata_t nic"
        text = self._beginning("nicemu", place, ())
        for name in ("I", "H"):
            objects = f'FirmwareEvent<event_t>("{name}") event; DeferredWork("{name}") work;'
            text += self._control(
                f"control {name}(inout headers_t h, inout metadata_t m, inout {place})",
                *("SWITCH", "EXIT", "NIC", "NIC"),
                inside="Inside()",
                around=("", "event.post({ x, i, h.a.w }); event.post({ m.inner.x, 1, m.wide[69:54] });"),
                more=f"TriggerCounter() hits; {objects}",
            )
        given = f"(packet_out b, in headers_t given, in metadata_t kept, in {place})"
        text += self._deparser(given, "h = given; m = kept;")
        return self._written(text + f"SmartNic(P(), I(), D(){', H()' if self._half() else ''}) main;\n")

    def _deparser(self, parameters: str, copies: str, *kinds: str) -> str:
        if self._half():
            emits = self.chance.choice(("given", "given.a); b.emit(given.v", "given.s); b.emit(given.us[1]"))
            return f"control D{parameters} {{ apply {{ b.emit({emits}); }} }}\n"
        return self._control(
            f"control D{parameters}",
            *("EMIT", "EMIT", "SWITCH", "EXIT", *kinds),
            around=(f"{copies} b.emit(h.a);", "b.emit(given.s); b.emit(given.v);"),
            more="headers_t h; metadata_t m;",
        )
