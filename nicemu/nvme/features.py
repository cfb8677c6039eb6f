# SPDX-License-Identifier: Apache-2.0
"""The features of the controller: what Set Features stores and Get Features returns.

What has no effect in a model (arbitration, power, interrupt coalescing, time limits) is kept and read back.
Source: NVM Express Base Specification 2.0, "Set Features command", "Get Features command", "I/O Controller
Requirements"; NVM Command Set Specification 1.0, "Features".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nicemu.errors import NvmeCommandError, NvmeStatus

from .command import BROADCAST_NSID, AdminStatus, Feature, Sqe
from .identify import WARNING_TEMPERATURE_KELVIN
from .io_command import status_of_nsid
from .log_page import TEMPERATURE_KELVIN
from .namespace import Namespace

SELECT_CURRENT: Final = 0
_CAPABILITIES: Final = 3
_NAMESPACE_SPECIFIC, _CHANGEABLE = 1 << 1, 1 << 2
_NO_BURST_LIMIT: Final = 0b111
_OVER, _UNDER = 0, 1
"""THSEL: a warning at or above a temperature, or at or below it."""
_COMPOSITE, _ALL_SENSORS = 0, 0xF
_DULBE: Final = 1 << 16
_LAST_POWER_STATE: Final = 0
_LAST_WORKLOAD_HINT: Final = 2

_BITS: Final = {
    Feature.ARBITRATION: 0xFFFF_FF07,
    Feature.POWER_MANAGEMENT: 0xFF,
    Feature.TEMPERATURE_THRESHOLD: 0xFFFF,
    Feature.ERROR_RECOVERY: 0xFFFF,
    Feature.VOLATILE_WRITE_CACHE: 1,
    Feature.NUMBER_OF_QUEUES: 0xFFFF_FFFF,
    Feature.INTERRUPT_COALESCING: 0xFFFF,
    Feature.INTERRUPT_VECTOR_CONFIGURATION: 0x1_FFFF,
    Feature.WRITE_ATOMICITY_NORMAL: 1,
    Feature.ASYNC_EVENT_CONFIGURATION: 0xFFFF_FFFF,
}
"""The features that there are, and the bits of dword 11 that are kept."""


class Features:
    """The values of all features, for each namespace, interrupt vector or threshold where there is one each.

    None is saved: the saved value is the default, and a reset returns to it. `queue_pairs` is the default of
    the number of queues, `vector_count` the interrupt vectors.
    """

    def __init__(self, namespaces: Mapping[int, Namespace], queue_pairs: int, vector_count: int) -> None:
        self._namespaces = namespaces
        self._vector_count = vector_count
        self._defaults: dict[Feature, int] = {
            Feature.ARBITRATION: _NO_BURST_LIMIT,
            Feature.VOLATILE_WRITE_CACHE: 1,
            Feature.NUMBER_OF_QUEUES: queue_pairs,
        }
        self._values: dict[tuple[Feature, int], int] = {}

    def reset(self) -> None:
        """Return to the defaults."""
        self._values.clear()

    def set(self, sqe: Sqe) -> Feature:
        """Store what Set Features says; return which feature that was.

        Raises: NvmeCommandError if the feature or the value is not allowed; nothing was changed.
        """
        feature = _known(sqe)
        if sqe.cdw10 >> 31:
            raise NvmeCommandError(AdminStatus.FEATURE_NOT_SAVEABLE, f"{feature.name} cannot be saved")
        places = self._places(feature, sqe, is_set=True)
        self._check(feature, sqe.cdw11)
        for place in places:
            self._values[feature, place] = sqe.cdw11 & _BITS[feature]
        return feature

    def store(self, feature: Feature, value: int) -> None:
        """Store what was granted instead of what was asked for."""
        self._values[feature, 0] = value

    def get(self, sqe: Sqe) -> int:
        """Return what Get Features asks for: a value, or what can be done with the feature.

        Raises: NvmeCommandError if the feature, or what is selected of it, is none.
        """
        feature, select = _known(sqe), sqe.cdw10 >> 8 & 7
        if select > _CAPABILITIES:
            raise _invalid(f"selection {select} of a feature; 0 to {_CAPABILITIES} are there")
        if select == _CAPABILITIES:
            is_of_namespace = feature is Feature.ERROR_RECOVERY
            is_fixed = feature is Feature.VOLATILE_WRITE_CACHE
            return (0 if is_fixed else _CHANGEABLE) | (_NAMESPACE_SPECIFIC if is_of_namespace else 0)
        (place,) = self._places(feature, sqe, is_set=False)
        return self._value(feature, place) if select == SELECT_CURRENT else self._default(feature, place)

    @property
    def is_temperature_out_of_range(self) -> bool:
        """Whether the composite temperature is at or beyond a threshold, which is a critical warning."""
        over, under = (self._value(Feature.TEMPERATURE_THRESHOLD, which) for which in (_OVER, _UNDER))
        return over <= TEMPERATURE_KELVIN or under >= TEMPERATURE_KELVIN

    def is_event_enabled(self, bit: int) -> bool:
        """Whether the host wants an asynchronous event, by its bit of Asynchronous Event Configuration."""
        return bool(self._value(Feature.ASYNC_EVENT_CONFIGURATION, 0) >> bit & 1)

    def _value(self, feature: Feature, place: int) -> int:
        return self._values.get((feature, place), self._default(feature, place))

    def _default(self, feature: Feature, place: int) -> int:
        if feature is Feature.INTERRUPT_VECTOR_CONFIGURATION:
            return place
        if feature is Feature.TEMPERATURE_THRESHOLD:
            return WARNING_TEMPERATURE_KELVIN if place == _OVER else 0
        return self._defaults.get(feature, 0)

    def _places(self, feature: Feature, sqe: Sqe, *, is_set: bool) -> Iterable[int]:
        """Return the namespaces, vectors or thresholds that a command means; 0 where there is one value."""
        if feature is Feature.ERROR_RECOVERY:
            return self._nsids(sqe.nsid, is_set=is_set)
        if is_set and sqe.nsid not in (0, BROADCAST_NSID):
            if sqe.nsid not in self._namespaces:
                raise NvmeCommandError(NvmeStatus.INVALID_NAMESPACE, f"there is no namespace {sqe.nsid:#x}")
            raise NvmeCommandError(
                AdminStatus.FEATURE_NOT_NAMESPACE_SPECIFIC, f"{feature.name} is of the controller; use nsid 0"
            )
        if feature is Feature.TEMPERATURE_THRESHOLD:
            sensor, which = sqe.cdw11 >> 16 & 0xF, sqe.cdw11 >> 20 & 3
            if sensor not in ((_COMPOSITE, _ALL_SENSORS) if is_set else (_COMPOSITE,)) or which > _UNDER:
                raise _invalid(f"temperature sensor {sensor}, threshold {which}; there are 0, and 0 and 1")
            return (which,)
        if feature is Feature.INTERRUPT_VECTOR_CONFIGURATION:
            vector = sqe.cdw11 & 0xFFFF
            if vector >= self._vector_count:
                raise _invalid(f"interrupt vector {vector}; there are {self._vector_count}")
            return (vector,)
        return (0,)

    def _nsids(self, nsid: int, *, is_set: bool) -> Iterable[int]:
        if nsid in self._namespaces:
            return (nsid,)
        if nsid == BROADCAST_NSID and is_set:
            return tuple(self._namespaces)
        status = NvmeStatus.INVALID_NAMESPACE
        if nsid != BROADCAST_NSID:
            status = status_of_nsid(nsid, self._namespaces)
        raise NvmeCommandError(status, f"nsid {nsid:#x} has no error recovery feature")

    def _check(self, feature: Feature, value: int) -> None:
        """Refuse values that are reserved, or stand for what there is not."""
        if feature is Feature.VOLATILE_WRITE_CACHE and not value & 1:
            raise NvmeCommandError(AdminStatus.FEATURE_NOT_CHANGEABLE, "the write cache cannot be disabled")
        if feature is Feature.POWER_MANAGEMENT:
            state, hint = value & 0x1F, value >> 5 & 7
            if state > _LAST_POWER_STATE or hint > _LAST_WORKLOAD_HINT:
                raise _invalid(f"power state {state}, workload hint {hint}; allowed are 0, and 0 to 2")
        if feature is Feature.ERROR_RECOVERY and value & _DULBE:
            raise _invalid("no namespace reports deallocated blocks; clear DULBE")


def _known(sqe: Sqe) -> Feature:
    feature = sqe.cdw10 & 0xFF
    if feature not in _BITS:
        raise _invalid(f"feature {feature:#04x} is not there; {', '.join(one.name for one in _BITS)} are")
    return Feature(feature)


def _invalid(message: str) -> NvmeCommandError:
    return NvmeCommandError(NvmeStatus.INVALID_FIELD, message)
