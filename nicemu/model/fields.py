# SPDX-License-Identifier: Apache-2.0
"""The fields of profiles and servers: what each may be, in which unit, and where its value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from nicemu.arguments import check_number, check_whole
from nicemu.errors import UsageError

Value: TypeAlias = float | int | str
_MOST_BYTES, _MOST_COUNT = 1 << 50, 1 << 20
_LEAST = 1e-30
_MOST: Final = {"s": 1e6, "s/byte": 1.0}
_MOST_OTHERWISE: Final = 1e18
"""The least number that is not 0, and the largest, by units: what is modelled with them is finite, and fits
into nanoseconds of 64 bits."""


class Provenance(StrEnum):
    """Where a value comes from."""

    PRINTED = "printed"
    CORRECTED = "corrected"
    FITTED = "fitted"
    MEASURED = "measured"
    ASSUMED = "assumed"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class Field:
    """One value with its unit, provenance and source."""

    name: str
    value: Value
    provenance: Provenance
    source: str

    @property
    def unit(self) -> str:
        """The unit, which ends the name: s, bytes, s/byte, …; "" for counts and choices."""
        return next((unit for ending, unit in _UNITS.items() if self.name.endswith(ending)), "")


_UNITS = {
    "bytes_per_s_per_byte": "bytes/s per byte",
    "_per_byte": "s/byte",
    "bytes_per_s": "bytes/s",
    "flops_per_s": "FLOP/s",
    "_bytes": "bytes",
    "_tokens": "tokens",
    "_s": "s",
}
_WAYS = ("store_and_forward", "pipelined")
STAGES: Final = ("memory", "alu", "serial")
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "transfer.triggered": _WAYS,
    "transfer.cpu": _WAYS,
    "transfer.cpu_shares": ("none", "link", "all"),
    "transfer.completion": ("nic", "remote_memory", "durable"),
    "nvme.reading": ("fixed_and_rate", "latency_alone"),
}
"""The fields that are one of some words."""
_WHOLE: Final = {
    "cpu.copies": (0, 16),
    "nic.trigger_slots": (1, 2048),  # what Cassini has, of which a service may have all
    "node.gpus": (1, _MOST_COUNT),
    "node.nics": (1, _MOST_COUNT),
    "software.chunk_bytes": (0, _MOST_BYTES),
    "transfer.packet_bytes": (1, _MOST_BYTES),
    "nvme.largest_measured_bytes": (1, _MOST_BYTES),
    "model.layers": (1, 4096),
    "model.heads": (1, 4096),
    "model.kv_heads": (1, 4096),
    "model.head_dim": (1, 4096),
    "model.latent_dim": (0, 65536),
    "model.dtype_bytes": (1, 8),
    "model.context_tokens": (1, 1 << 30),
}
"""The fields that are whole numbers, with the least and the largest that each may be."""
_MORE_THAN_ZERO: Final = {
    "nvme.write_bytes_per_s",
    "nvme.read_bytes_per_s",
    "model.parameters",
    "gpu.flops_per_s",
    "gpu.linear_efficiency",
    "gpu.attention_efficiency",
    "copy.pinned_bytes_per_s",
    "copy.pageable_bytes_per_s",
    "offload.nic_bytes_per_s",
    "tier.ssd_read_bytes_per_s",
    "tier.ssd_write_bytes_per_s",
}
"""The numbers by which something is divided."""


def checked(where: str, field: Field) -> Field:
    """Return a field whose value is possible. Raises: UsageError, which begins with `where`."""
    name, value = field.name, field.value
    told = f"{where}: {name}"
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise UsageError(f"{told} is {value!r}; one of {', '.join(CHOICES[name])} was expected")
        return field
    if name == "nic.stages":
        stages = stages_in(value) if isinstance(value, str) else ()
        if not stages or not set(stages) <= set(STAGES) or len(set(stages)) < len(stages):
            raise UsageError(f"{told} is {value!r}; some of {', '.join(STAGES)} were expected")
        return field
    if name in _WHOLE:
        return replace(field, value=check_whole(told, value, *_WHOLE[name]))
    number = check_number(told, value, 0, more_than=name in _MORE_THAN_ZERO)
    most = _MOST.get(field.unit, _MOST_OTHERWISE)
    if number and not _LEAST <= number <= most:
        raise UsageError(f"{told} is {value!r}; {_LEAST:g} to {most:g} was expected, or 0 where nothing is")
    return replace(field, value=number)


def stages_in(text: str) -> tuple[str, ...]:
    """Return the stages that a text lists."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
