# SPDX-License-Identifier: Apache-2.0
"""Memory that host and NIC share."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from nicemu.abi import Connection, EventLog, SharedMemory, Span, shown, text, whole
from nicemu.errors import ResourceError, UsageError


@dataclass(eq=False, slots=True)
class Memory:
    """Memory that the NIC maps: a NumPy array and its bus address.

    Work with `array`, or ask `view` for it where races are to be found: then the access can be seen.
    """

    array: np.ndarray[Any, Any]
    address: int
    shared: SharedMemory
    nic_name: str = ""
    log: EventLog | None = None

    @property
    def length_bytes(self) -> int:
        """Bytes of the array."""
        return int(self.array.nbytes)

    def view(self, mode: str, span: Span | None = None) -> np.ndarray[Any, Any]:
        """Return the array, or the bytes of `span`, and declare that they are read ("r") or written ("w").

        Ask again for every access: what is done later with an array that was asked for before is not seen.
        """
        if mode not in ("r", "w", "rw"):
            raise UsageError(
                f'a view is asked for to read, "r", to write, "w", or both, "rw"; not {shown(mode)}'
            )
        first, length = 0, self.length_bytes
        if span is not None:
            if not isinstance(span, Span):
                raise UsageError(f"a view is of a span, such as nic.register(memory)[0:8], not {shown(span)}")
            first, length = span.address - self.address, span.length_bytes
            if first < 0 or first + length > self.length_bytes:
                raise UsageError("the span does not lie in this memory")
        if self.log is not None:
            self.log.add_here(
                "access", nic=self.nic_name, mode=mode, address=self.address + first, length_bytes=length
            )
        if span is None:
            return self.array
        return self.array.reshape(-1).view(np.uint8)[first : first + length]


def allocate(
    connection: Connection, log: EventLog | None, shape: int | tuple[int, ...], dtype: object, kind: str
) -> Memory:
    """Return zeroed memory that the NIC can reach; see `Nic.allocate`."""
    sides = shape if isinstance(shape, (tuple, list)) else (shape,)
    sides = tuple(whole(side, "each side of a shape", most=1 << 62) for side in sides)
    try:
        element = np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError as error:
        raise UsageError(f"{shown(dtype)} is no dtype: {error} (EINVAL)") from error
    count = prod(sides)
    length_bytes = count * element.itemsize
    if element.hasobject or not length_bytes:
        raise UsageError(
            f"memory holds bytes, at least one; {shown(dtype)} of shape {sides} are none (EINVAL)"
        )
    try:
        shared, address = connection.share(length_bytes, text(kind, "kind"))
    except (OSError, OverflowError) as error:
        raise ResourceError(f"{length_bytes} bytes of memory cannot be had: {error} (ENOMEM)") from error
    array = np.frombuffer(shared.view, element, count=count).reshape(sides)
    return Memory(array, address, shared, connection.nic_name, log)
