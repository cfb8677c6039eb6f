# SPDX-License-Identifier: Apache-2.0
"""What the pipeline says of a frame, carried out: counters, firmware events, host, port, drop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicemu.firmware import Event
from nicemu.pipeline import HOST_PORT, CounterAdd, Disposition, EventPosted, Verdict, WorkArmed
from nicemu.wire import MalformedError, UdpFrame, verify_udp_checksum

from .datapath import DOWN_ADD

if TYPE_CHECKING:
    from .device import SmartNic


class PacketPath:
    """The way of a request's frame through one NIC."""

    def __init__(self, device: SmartNic) -> None:
        self._device = device

    def match(self, frame: bytes) -> None:
        """Give a frame to the pipeline and carry its verdict out."""
        device = self._device
        try:
            verify_udp_checksum(UdpFrame.decode(frame))
        except MalformedError as error:
            if error.reason in ("udp.checksum", "ip.checksum"):
                device.drops[error.reason] += 1
                return
        self._carry_out(device.pipeline.process(frame, 0, now_ns=device.now_ns), len(frame), 0)

    def transmit(self, frame: bytes) -> None:
        """Send a frame of the host: what the program says of it, where it has a control for such."""
        if self._device.pipeline.takes_host_frames:
            self.inject(frame)
        else:
            self._device.send_frame(frame)

    def inject(self, frame: bytes) -> None:
        """Give a controller's frame to the pipeline and carry its verdict out."""
        device = self._device
        verdict = device.pipeline.process(frame, HOST_PORT, now_ns=device.now_ns)
        self._carry_out(verdict, len(frame), HOST_PORT)

    def _carry_out(self, verdict: Verdict, length_bytes: int, port: int) -> None:
        device = self._device
        device.trace(
            "pipeline", verdict.disposition.value, {"bytes": length_bytes, "reason": verdict.drop_reason}
        )
        for effect in verdict.effects:
            if isinstance(effect, WorkArmed):
                self._arm(effect)
        for effect in verdict.effects:
            if isinstance(effect, CounterAdd):
                self._count(effect)
        posted = [effect for effect in verdict.effects if isinstance(effect, EventPosted)]
        for position, event in enumerate(posted):
            held = verdict.frame if position == 0 and verdict.disposition is Disposition.FIRMWARE else b""
            self._post(Event(event.name, event.fields, held, port))
        if verdict.disposition is Disposition.HOST:
            device.to_host(verdict.frame, (0,))
        elif verdict.disposition is Disposition.PORT:
            device.send_frame(verdict.frame)
        elif verdict.disposition is Disposition.FIRMWARE and not posted:
            device.drops["pipeline.held_without_event"] += 1
        for port, copy in verdict.copies:
            if port == HOST_PORT:
                device.to_host(copy, (0,))
            else:
                device.send_frame(copy)

    def _arm(self, effect: WorkArmed) -> None:
        reason = self._device.card.arm_prepared(effect.name, effect.counter, effect.threshold)
        if reason:
            self._device.drops[reason] += 1

    def _count(self, effect: CounterAdd) -> None:
        counters = self._device.unit.state.counters
        if effect.counter < len(counters) and counters[effect.counter].allocated:
            self._device.rings.push(DOWN_ADD, effect.counter, effect.value, 0)
        else:
            self._device.drops["pipeline.counter_not_allocated"] += 1

    def _post(self, event: Event) -> None:
        device = self._device
        handler = device.firmware.events.get(event.name)
        if handler is None:
            device.drops["firmware.no_handler"] += 1
            device.card.let_go(event)
        elif len(device.scheduler.tasks) >= device.config.event_queue_depth:
            device.drops["firmware.queue_full"] += 1
            device.card.let_go(event)
        else:
            device.start_task(event.name, handler(device.nic, event), event)
