// SPDX-License-Identifier: Apache-2.0
// What every P4-16 program may rely on. Source: P4-16 Language Specification 1.2.5, "P4 core library".
#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,               // never signalled
    PacketTooShort,        // extract, lookahead or advance beyond the end of the packet
    NoMatch,               // select without a matching case
    StackOutOfBounds,
    HeaderTooShort,
    ParserTimeout,         // too many states
    ParserInvalidArgument  // advance by a part of a byte
}

match_kind {
    exact,
    ternary,
    lpm
}

extern packet_in {
    // Read a header at the cursor and step over it.
    void extract<T>(out T hdr);
    // The same for a header whose varbit takes `variableFieldSizeInBits` bits; the header is whole bytes long.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    // Read a value at the cursor, which stays.
    T lookahead<T>();
    // Step over `sizeInBits` bits, a multiple of 8.
    void advance(in bit<32> sizeInBits);
    // Bytes of the packet.
    bit<32> length();
}

extern packet_out {
    // Append a valid header, or the valid headers of a union, stack or struct; an invalid one appends nothing.
    void emit<T>(in T hdr);
}

// Reject the packet with `toSignal` unless `check` holds (in parsers).
extern void verify(in bool check, in error toSignal);

// True if `check`, which is known when the program is compiled, is; else the compiler refuses the program.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

@noWarn("unused")
action NoAction() {}

#endif
