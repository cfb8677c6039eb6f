# SPDX-License-Identifier: Apache-2.0
"""What `nicemu switch` says in the end of the packets that came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from .show import print_json

if TYPE_CHECKING:
    from nicemu.switch import Summary


@dataclass(slots=True)
class SummaryTeller:
    """Says what became of the packets: on stderr, beside other output, where that `is_apart`."""

    as_json: bool
    is_apart: bool
    is_interrupted: bool = False
    is_first: bool = False
    """Whether functions were compiled while packets passed."""

    def tell(self, summary: Summary, seconds: float, is_compiled: bool) -> None:
        """Print a summary of packets that took so many seconds."""
        rate = summary.packets / seconds if seconds else 0.0
        out = {
            str(to): count
            for to, count in sorted(summary.out.items(), key=lambda item: str(item[0]).zfill(5))
        }
        if self.as_json:
            self._print_json(summary, out, seconds, rate, is_compiled)
            return
        how = "" if is_compiled else ", interpreted"
        how += ", compiling meanwhile" if self.is_first else ""
        lines = [f"{summary.packets:,} packets in, {summary.bytes:,} bytes; {rate:,.0f} a second{how}"]
        if self.is_interrupted:
            lines.append("  interrupted: there may be more to come in")
        lines += [f"  out {to if to == 'host' else f'port {to}'}: {count:,}" for to, count in out.items()]
        if summary.with_firmware:
            lines.append(f"  left to the firmware: {summary.with_firmware:,}")
        lines += [
            f"  events posted, {name}: {count:,}" for name, count in sorted(summary.asked.events.items())
        ]
        lines += [f"  work armed, {name}: {count:,}" for name, count in sorted(summary.asked.armed.items())]
        lines += [f"  trigger counter {number}: +{value:,}" for number, value in _in_order(summary)]
        if summary.cut:
            lines.append(f"  cut by the capture, and processed as they are there: {summary.cut:,}")
        lines += [f"  dropped, {reason}: {count:,}" for reason, count in sorted(summary.dropped.items())]
        click.echo("\n".join(lines), err=self.is_apart)

    def _print_json(
        self, summary: Summary, out: dict[str, int], seconds: float, rate: float, is_compiled: bool
    ) -> None:
        print_json(
            {
                "packets": summary.packets,
                "bytes": summary.bytes,
                "out": out,
                "with_firmware": summary.with_firmware,
                "events": dict(sorted(summary.asked.events.items())),
                "work_armed": dict(sorted(summary.asked.armed.items())),
                "trigger_counters": {str(number): value for number, value in _in_order(summary)},
                "cut": summary.cut,
                "dropped": dict(sorted(summary.dropped.items())),
                "seconds": round(seconds, 6),
                "packets_per_second": round(rate),
                "engine": "kernel" if is_compiled else "interpreter",
                "interrupted": self.is_interrupted,
            },
            err=self.is_apart,
        )


def _in_order(summary: Summary) -> list[tuple[int | str, int]]:
    """Return what trigger counters got, those with numbers first."""
    got = summary.asked.trigger_counters.items()
    return sorted(got, key=lambda item: (isinstance(item[0], str), item[0]))
