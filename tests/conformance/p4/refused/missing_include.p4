// SPDX-License-Identifier: Apache-2.0
// A file that is not there: nothing is said of what it might have declared.
#include <core.p4>
#include <nowhere.p4>
parser P(packet_in packet, out headers_t headers) { state start { transition accept; } }
