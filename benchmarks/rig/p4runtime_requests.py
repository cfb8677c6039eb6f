# SPDX-License-Identifier: Apache-2.0
"""WriteRequests of table entries as bytes, and a client process that does nothing but send them.

What the requests cost to make is no part of what a server costs, so they are made before, field by field, and
lie in a file. Run as a script with an address and a file it becomes primary of device 1, and for each word on
its standard input sends the requests called so, one after the other, and answers "done".
Source: P4Runtime Specification 1.4, p4runtime.proto.
"""

from __future__ import annotations

import pickle
import queue
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import grpc

INSERT, MODIFY, DELETE = 1, 2, 3
_SERVICE = "/p4.v1.P4Runtime/"
_ELECTION_ID = 1


def request_of(updates: Iterable[bytes]) -> bytes:
    """Return a WriteRequest of updates."""
    head = _number(1, 1) + _bytes(3, _number(2, _ELECTION_ID))
    return head + b"".join([_bytes(4, update) for update in updates])


def update_of(
    kind: int, table: int, keys: Sequence[tuple[int, bytes]], action: int, params: Sequence[tuple[int, bytes]]
) -> bytes:
    """Return an Update of an entry with exact keys: (field id, value); `params` are (parameter id, value)."""
    match = [_bytes(2, _number(1, key) + _bytes(2, _bytes(1, value))) for key, value in keys]
    data = [_bytes(4, _number(2, param) + _bytes(3, value)) for param, value in params]
    call = _bytes(3, _bytes(1, _number(1, action) + b"".join(data)))
    entry = _number(1, table) + b"".join(match) + (b"" if kind == DELETE else call)
    return _number(1, kind) + _bytes(2, _bytes(2, entry))


def canonical(value: int) -> bytes:
    """Return a number as P4Runtime's canonical byte string."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def main() -> None:
    """Send what standard input names."""
    address, file = sys.argv[1:]
    requests: dict[str, list[bytes]] = pickle.loads(Path(file).read_bytes())
    with grpc.insecure_channel(address) as channel:
        waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        stream = channel.stream_stream(_SERVICE + "StreamChannel")(iter(waiting.get, None))
        waiting.put(_bytes(1, _number(1, 1) + _bytes(3, _number(2, _ELECTION_ID))))
        next(stream)
        write = channel.unary_unary(_SERVICE + "Write")
        print("ready", flush=True)
        for line in sys.stdin:
            for request in requests[line.strip()]:
                write(request)
            print("done", flush=True)
        waiting.put(None)


if __name__ == "__main__":
    main()
