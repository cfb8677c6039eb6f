# SPDX-License-Identifier: Apache-2.0
"""What counters hold and how meters are configured, as P4Runtime's messages, and back.

Source: P4Runtime Specification 1.4, "CounterEntry & DirectCounterEntry", "MeterEntry & DirectMeterEntry".
"""

from __future__ import annotations

from nicemu.pipeline import METER_TYPES, UNCOUNTED, Colours, Count, MeterConfig

from .messages import Message
from .refusals import illegal

_MOST = (1 << 63) - 1


def count_of_message(message: Message, what: str) -> Count:
    """Return what a CounterData says. Raises: ControlError(INVALID_ARGUMENT) for numbers below 0."""
    if message.packet_count < 0 or message.byte_count < 0:
        raise illegal(
            f"{what}: {message.packet_count} packets, {message.byte_count} bytes; a count is not negative"
        )
    return Count(message.packet_count, message.byte_count)


def fill_count(message: Message, packets: int, length_bytes: int) -> None:
    """Set a CounterData, whose numbers are int64; a count that is larger is told as the largest."""
    message.packet_count, message.byte_count = min(packets, _MOST), min(length_bytes, _MOST)


def meter_of_message(message: Message, what: str, kind: str) -> MeterConfig:
    """Return what a MeterConfig says for a meter of a `kind`, one of METER_TYPES.

    Raises: ControlError(INVALID_ARGUMENT) for numbers below 0, a committed rate above the peak rate, and what
    meters of this kind do not have: a rate of its own for the peak, or an excess burst.
    """
    numbers = (message.cir, message.cburst, message.pir, message.pburst, message.eburst)
    if min(numbers) < 0:
        raise illegal(f"{what}: rates and bursts are not negative")
    if message.eburst and kind != "single_rate_three_color":
        raise illegal(f"{what}: a meter of type {kind} has no eburst")
    if kind != METER_TYPES[0] and (message.cir, message.cburst) != (message.pir, message.pburst):
        raise illegal(
            f"{what}: a meter of type {kind} has one rate; write the same pir and pburst as cir and cburst"
        )
    if message.pir < message.cir:
        raise illegal(f"{what}: the peak rate {message.pir} is below the committed rate {message.cir}")
    return MeterConfig(*numbers)


def colours_of_message(message: Message, what: str) -> Colours:
    """Return what a MeterCounterData says. Raises: ControlError(INVALID_ARGUMENT) for numbers below 0."""
    green, yellow, red = (
        count_of_message(part, what) for part in (message.green, message.yellow, message.red)
    )
    return (green.packets, green.bytes), (yellow.packets, yellow.bytes), (red.packets, red.bytes)


def reset_of_message(message: Message, what: str) -> Colours:
    """Return what the MeterCounterData of an entry says, which can only be that nothing was marked yet.

    Raises: ControlError(INVALID_ARGUMENT). Source: P4Runtime Specification, "Direct Resources".
    """
    colours = colours_of_message(message, what)
    if colours != UNCOUNTED:
        raise illegal(f"{what}: colours are counted by packets, and set to 0 only")
    return colours


def fill_colours(message: Message, colours: Colours) -> None:
    """Set a MeterCounterData."""
    parts = (message.green, message.yellow, message.red)
    for part, (packets, length_bytes) in zip(parts, colours, strict=True):
        fill_count(part, packets, length_bytes)
        part.SetInParent()


def fill_meter(message: Message, config: MeterConfig) -> None:
    """Set a MeterConfig."""
    message.cir, message.cburst = int(config.committed_rate), config.committed_burst
    message.pir, message.pburst = int(config.peak_rate), config.peak_burst
    message.eburst = config.excess_burst
