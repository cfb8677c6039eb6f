# SPDX-License-Identifier: Apache-2.0
"""What operations of a reliable connection mean: plain Python over bytes, without packets, PSNs or retries.

Written from the specification and from nothing of the engine: operations are executed in the order of their
posting, each exactly once; completions come in the same order; after one that failed all are flushed.
Source: InfiniBand Architecture Specification Volume 1, "Reliable Service", "RDMA READ", "ATOMIC Operations",
"Work Request Ordering Rules" (without a fence, a later operation may be seen by an earlier READ).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WORD = 1 << 64


@dataclass(frozen=True)
class Write:
    """RDMA WRITE of near[source:source+length] to far[target:]; with an immediate it takes a receive."""

    source: int
    target: int
    length: int
    imm: int | None = None


@dataclass(frozen=True)
class Send:
    """SEND of near[source:source+length] into the oldest receive."""

    source: int
    length: int
    imm: int | None = None


@dataclass(frozen=True)
class Read:
    """RDMA READ of far[target:target+length] to near[source:]."""

    source: int
    target: int
    length: int


@dataclass(frozen=True)
class FetchAdd:
    """Add to the 64-bit word far[target:target+8]; what it was goes to near[source:]."""

    source: int
    target: int
    add: int


@dataclass(frozen=True)
class CompareSwap:
    """Put `swap` into the 64-bit word far[target:target+8] if it is `compare`; what it was goes to near."""

    source: int
    target: int
    compare: int
    swap: int


Operation = Write | Send | Read | FetchAdd | CompareSwap


@dataclass(frozen=True)
class Receive:
    """Room for one SEND: far[place:place+length]."""

    place: int
    length: int


class NaiveModel:
    """`far[n]` is the far memory after n operations; `result(n)` is what operation n brings home."""

    def __init__(
        self, near: bytes, far: bytes, operations: Sequence[Operation], receives: Sequence[Receive]
    ) -> None:
        self.near = near
        self.operations = operations
        self.far = [far]
        self.taken: list[int | None] = []
        """The receive that each operation takes."""
        free = iter(enumerate(receives))
        for operation in operations:
            memory = bytearray(self.far[-1])
            number = None
            match operation:
                case Write(source, target, length, imm):
                    memory[target : target + length] = near[source : source + length]
                    if imm is not None:
                        number = next(free)[0]
                case Send(source, length):
                    number, receive = next(free)
                    assert length <= receive.length
                    memory[receive.place : receive.place + length] = near[source : source + length]
                case FetchAdd(_, target, add):
                    word = int.from_bytes(memory[target : target + 8], "little")
                    memory[target : target + 8] = ((word + add) % WORD).to_bytes(8, "little")
                case CompareSwap(_, target, compare, swap):
                    if int.from_bytes(memory[target : target + 8], "little") == compare:
                        memory[target : target + 8] = swap.to_bytes(8, "little")
            self.taken.append(number)
            self.far.append(bytes(memory))

    def brought(self, number: int, executed: int, part_bytes: int) -> list[set[bytes]]:
        """Return what operation `number` may have brought home, part by part, if `executed` were executed.

        An atomic brings what it found at its own turn. Each part of a READ is read at its turn or later, and
        what follows the READ may be executed before.
        """
        operation = self.operations[number]
        if isinstance(operation, FetchAdd | CompareSwap):
            return [{self.far[number][operation.target : operation.target + 8]}]
        if not isinstance(operation, Read):
            return []
        found = []
        for start in range(0, operation.length, part_bytes):
            place = operation.target + start
            end = min(place + part_bytes, operation.target + operation.length)
            found.append({self.far[after][place:end] for after in range(number, executed + 1)})
        return found
