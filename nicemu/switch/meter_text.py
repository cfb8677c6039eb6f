# SPDX-License-Identifier: Apache-2.0
"""Meters in a file of tables: their rates and bursts, as `nicemu p4 write` has them, and what they marked."""

from __future__ import annotations

from typing import Any

from nicemu.pipeline import UNCOUNTED, Colours, Meter, MeterConfig

from .located import Located

_RATES = ("cir", "cburst", "pir", "pburst")
_EXCESS = "eburst"
_COLOURS = ("green", "yellow", "red")
_COUNTS = ("packets", "bytes")
_MAX_RATE = (1 << 63) - 1
_MAX_COUNT = (1 << 64) - 1


def give_meter(meter: Meter, item: Located) -> None:
    """Configure a meter, with full buckets, and let it go on from what it has marked. Raises: UsageError."""
    given = item.members((), (*_RATES, _EXCESS, *_COLOURS))
    rates = [name for name in (*_RATES, _EXCESS) if name in given]
    of_one_rate = rates == [*_RATES[:2], _EXCESS]
    if rates and not (of_one_rate or set(_RATES) <= set(rates)):
        wanted = f"{', '.join(_RATES)}, or of one rate {', '.join((*_RATES[:2], _EXCESS))}, or nothing"
        raise item.fault(f"has {', '.join(rates)}; {wanted} was expected")
    numbers = [given[name].number(_MAX_RATE) for name in rates]
    if of_one_rate:  # it has no peak of its own
        numbers[2:2] = numbers[:2]
    config = MeterConfig(*numbers) if rates else None
    if config is not None and config.peak_rate < config.committed_rate:
        raise item.fault(f"has a pir of {config.peak_rate}, below its cir, {config.committed_rate}")
    green, yellow, red = (_count(given[name]) if name in given else (0, 0) for name in _COLOURS)
    meter.configure(config, now_ns=0)
    meter.colours = green, yellow, red


def meter_json(config: MeterConfig | None, colours: Colours = UNCOUNTED) -> dict[str, Any]:
    """Return what `give_meter` reads, an empty object if all is green and nothing was marked."""
    found: dict[str, Any] = {}
    if config is not None:
        numbers = config.committed_rate, config.committed_burst, config.peak_rate, config.peak_burst
        found = {name: int(number) for name, number in zip(_RATES, numbers, strict=True)}
        if config.excess_burst:
            found[_EXCESS] = config.excess_burst
    if colours != UNCOUNTED:
        found |= {
            name: dict(zip(_COUNTS, count, strict=True))
            for name, count in zip(_COLOURS, colours, strict=True)
        }
    return found


def _count(item: Located) -> tuple[int, int]:
    given = item.members((), _COUNTS)
    packets, length_bytes = (given[name].number(_MAX_COUNT) if name in given else 0 for name in _COUNTS)
    return packets, length_bytes
