# SPDX-License-Identifier: Apache-2.0
"""DCQCN of one queue pair, both points.

Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015.
"""

from __future__ import annotations

from collections import Counter

from nicemu.rdma.dcqcn import Dcqcn

NEARLY = 0.999
_MOST_DECAYS = 10_000


class Congestion:
    """Rate, alpha and timers of what a queue pair sends, and when it last notified its peer."""

    def __init__(self, settings: Dcqcn, is_on: bool, drops: Counter[str]) -> None:
        self._settings = settings
        self._is_on = is_on
        self._drops = drops
        self._line_rate = settings.line_rate_bits_per_s / 8e9
        self._least_rate = settings.least_rate_bits_per_s / 8e9
        self._additive = settings.additive_increase_bits_per_s / 8e9
        self._hyper = settings.hyper_increase_bits_per_s / 8e9
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.limited = False
        self._was_notified = False
        self._cnp_after_ns = 0
        self._paced_until_ns: int | None = None
        self._pace_ns = self._alpha_at_ns = self._increase_at_ns = 0
        self._rate = self._target = self._line_rate
        self._alpha = 1.0
        self._byte_stage = self._time_stage = self._bytes_left = 0

    # The notification point

    def may_notify(self, now_ns: int) -> bool:
        """True if the peer was not notified just now."""
        return now_ns >= self._cnp_after_ns

    def notified(self, now_ns: int) -> None:
        """The peer is notified."""
        self._cnp_after_ns = now_ns + self._settings.cnp_interval_ns

    # The reaction point

    def on_notification(self, now_ns: int) -> None:
        """Lower the rate."""
        settings = self._settings
        if not self._is_on:
            self._drops["congestion.not_asked_for"] += 1
            return
        if self._was_notified:
            self._catch_up(now_ns)
        self._was_notified = True
        if not self.limited:
            self.limited, self._rate, self._pace_ns = True, self._line_rate, now_ns
        self._target = self._rate
        self._rate = max(self._rate * (1.0 - self._alpha / 2.0), self._least_rate)
        self._alpha = (1.0 - settings.g) * self._alpha + settings.g
        self._byte_stage = self._time_stage = 0
        self._bytes_left = settings.byte_counter_bytes
        self._alpha_at_ns = now_ns + settings.alpha_timer_ns
        self._increase_at_ns = now_ns + settings.increase_timer_ns

    def must_wait(self, now_ns: int) -> bool:
        """True if it is not yet time for the next frame."""
        self._catch_up(now_ns)
        if not self.limited or self._pace_ns <= now_ns:
            return False
        self._paced_until_ns = self._pace_ns
        return True

    def count_frame(self, length: int, now_ns: int) -> None:
        """A frame of so many bytes leaves."""
        if not self.limited:
            return
        self._pace_ns = max(self._pace_ns, now_ns) + int(length / self._rate) + 1
        self._bytes_left -= length
        if self._bytes_left <= 0:
            self._bytes_left += self._settings.byte_counter_bytes
            self._byte_stage += 1
            self._raise_rate()

    def time_has_come(self, now_ns: int) -> bool:
        """True if a frame waited until now."""
        if self._paced_until_ns is None or self._paced_until_ns > now_ns:
            return False
        self._paced_until_ns = None
        return True

    def wait_for_nothing(self) -> None:
        """No frame waits any more."""
        self._paced_until_ns = None

    def next_deadline_ns(self) -> int | None:
        """When a frame that waits may leave."""
        return self._paced_until_ns

    def _raise_rate(self) -> None:
        stages = self._settings.fast_recovery_stages
        if max(self._byte_stage, self._time_stage) >= stages:
            least = min(self._byte_stage, self._time_stage)
            self._target += (least - stages) * self._hyper if least > stages else self._additive
            self._target = min(self._target, self._line_rate)
        self._rate = (self._rate + self._target) / 2.0
        if self._rate >= NEARLY * self._line_rate:
            self.limited = False

    def _catch_up(self, now_ns: int) -> None:
        decays = 0
        while self._alpha_at_ns <= now_ns:
            if decays == _MOST_DECAYS:
                self._alpha_at_ns = now_ns + self._settings.alpha_timer_ns
                break
            decays += 1
            self._alpha *= 1.0 - self._settings.g
            self._alpha_at_ns += self._settings.alpha_timer_ns
        while self.limited and self._increase_at_ns <= now_ns:
            self._time_stage += 1
            self._increase_at_ns += self._settings.increase_timer_ns
            self._raise_rate()
