# SPDX-License-Identifier: Apache-2.0
"""Capture files that a switch writes."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from nicemu.capture import PcapngWriter, PcapWriter, WholeRecords
from nicemu.errors import UsageError


class Output:
    """One file that is written, as it is, with whole frames alone.

    Raises, opening and writing: UsageError if it cannot be.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.suffix == ".gz":
            raise UsageError(f"{path} would not be gzipped; write {path.with_suffix('')} and gzip it")
        try:
            self._file = WholeRecords(path, has_blocks=path.suffix == ".pcapng")
        except OSError as error:
            raise self._fault(error) from error
        self._interfaces: dict[int | str, int] = {}
        self._pcapng = PcapngWriter(self._file) if path.suffix == ".pcapng" else None
        self._pcap = None if self._pcapng else PcapWriter(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise self._fault(error) from error

    def _fault(self, error: OSError) -> UsageError:
        return UsageError(f"{self._path} cannot be written: {error.strerror}")

    def write(self, to: int | str, time_ns: int, frame: bytes) -> None:
        """Write a frame that leaves to a port."""
        try:
            if self._pcap is not None:
                self._pcap.write(time_ns, frame)
            if self._pcapng is not None:
                self._pcapng.write(self.interface_of(to), time_ns, frame, len(frame), outbound=True)
        except OSError as error:
            raise self._fault(error) from error

    @property
    def takes_records(self) -> bool:
        """Whether the file consists of pcap's records; of pcapng's blocks, if not."""
        return self._pcap is not None

    def interface_of(self, to: int | str) -> int:
        """Return the number that a pcapng file has for a port, where need be after writing what says so."""
        assert self._pcapng is not None
        if to not in self._interfaces:
            name = f"port {to}" if isinstance(to, int) else to
            try:
                self._interfaces[to] = self._pcapng.add_interface(name)
            except OSError as error:
                raise self._fault(error) from error
        return self._interfaces[to]

    def write_packed(self, packed: memoryview) -> None:
        """Write records or blocks that `packing` has made, for whoever reads them meanwhile."""
        try:
            self._file.write(packed)
            self._file.flush()
        except OSError as error:
            raise self._fault(error) from error
