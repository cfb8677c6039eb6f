# SPDX-License-Identifier: Apache-2.0
"""What a trigger unit can hold and do: profiles of real ones, and one without their limits.

Sources. Cassini: the public headers and drivers of the Slingshot host software (48-bit success, 7-bit errors,
2048 counters with number 0 invalid, 2048 trigger list entries of which the default service has 512 and 8 are
held back), fi_cxi(7) "Triggered Operation". Portals: Portals 4.3 Network Programming Interface,
"Triggered Operations" and "PtlNIInit" (`max_triggered_ops`, 1024 in the reference implementation).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields, replace

from nicemu.errors import UsageError

from .operands import U64_MAX, shown, text, whole, yes_or_no


class FiringOrder(enum.IntEnum):
    """In which order operations fire that one count makes due together."""

    THRESHOLD = 0
    """Ascending threshold, then arming order. Source: fi_trigger(3), FI_TRIGGER_THRESHOLD."""
    ISSUE = 1
    """Arming order. Source: Portals 4.3, "Triggered Operations"."""
    SHUFFLE = 2
    """Any order, seeded: finds programs that lean on an order which their hardware does not promise."""


_RANGES = {"counter_count": (1, 65536), "slot_count": (1, 1 << 24)}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a trigger unit can hold and do.

    `slot_count`: trigger entries of the NIC; `service_slots`: how many of them host processes share (0: all).
    `local_pieces`: of one operation's local memory. `receives_at_zero`: deferred receives need threshold 0.
    `waits_take_slots`: every wait of a host costs an entry, until it fires. `single_cancel`: one operation
    can be cancelled. `domain_flush`: cancelling what waits for one counter cancels all that the process has.
    `set_replaces_both`: setting a counter replaces the error value too, and one count is of one value.
    `wait_counts_errors`: a wait also ends well by errors. `order`, `seed`: see `FiringOrder`.
    `stall_on_error`: errors do not count towards thresholds, so what depends on a failed operation does not
    fire (no hardware is known to do that).
    Raises: UsageError (EINVAL) for a value that is none of its field's.
    """

    counter_count: int = 2048
    slot_count: int = 1 << 20
    max_success: int = U64_MAX
    max_errors: int = U64_MAX
    profile: str = "unlimited"
    service_slots: int = 0
    local_pieces: int = 2
    max_message_bytes: int = 1 << 31
    receives_at_zero: bool = False
    waits_take_slots: bool = False
    single_cancel: bool = True
    domain_flush: bool = False
    set_replaces_both: bool = False
    wait_counts_errors: bool = False
    order: FiringOrder = FiringOrder.THRESHOLD
    seed: int = 1
    stall_on_error: bool = False

    def __post_init__(self) -> None:
        for limit in fields(self):
            value, default = getattr(self, limit.name), limit.default
            if isinstance(default, FiringOrder):
                if not isinstance(value, FiringOrder):
                    raise UsageError(f"{limit.name} is a FiringOrder, not {shown(value)} (EINVAL)")
            elif isinstance(default, bool):
                object.__setattr__(self, limit.name, yes_or_no(value, limit.name))
            elif isinstance(default, int):
                least, most = _RANGES.get(limit.name, (0, U64_MAX))
                object.__setattr__(self, limit.name, whole(value, limit.name, least, most))
            else:
                text(value, limit.name)
        if self.service_slots > self.slot_count:
            raise UsageError(f"service_slots {self.service_slots} is more than slot_count {self.slot_count}")

    @property
    def host_slots(self) -> int:
        """Slots that all host processes have together."""
        return self.service_slots or self.slot_count

    @classmethod
    def named(cls, profile: str, **changes: object) -> Limits:
        """Return a profile, with some of it changed.

        Raises: UsageError for a profile or a limit that is not known, and for a value that makes no sense.
        """
        if not isinstance(profile, str) or profile not in PROFILES:
            raise UsageError(f"no limits profile {shown(profile)}; there are {', '.join(PROFILES)}")
        known = [limit.name for limit in fields(cls)]
        if unknown := [name for name in changes if name not in known]:
            raise UsageError(f"no limit is called {', '.join(unknown)}; there are {', '.join(known)}")
        return replace(PROFILES[profile], **changes)  # type: ignore[arg-type]


PROFILES = {
    "unlimited": Limits(),
    "portals": Limits(
        slot_count=1024,
        profile="portals",
        local_pieces=1,
        single_cancel=False,
        set_replaces_both=True,
        wait_counts_errors=True,
        order=FiringOrder.ISSUE,
    ),
    "cassini": Limits(
        slot_count=2048,
        max_success=(1 << 48) - 1,
        max_errors=127,
        profile="cassini",
        service_slots=504,
        local_pieces=1,
        receives_at_zero=True,
        waits_take_slots=True,
        single_cancel=False,
        domain_flush=True,
    ),
}
"""Profiles by name."""
