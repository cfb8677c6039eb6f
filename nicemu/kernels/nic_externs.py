# SPDX-License-Identifier: Apache-2.0
"""The SmartNIC architecture's externs in a kernel."""

from __future__ import annotations

from collections.abc import Callable

from nicemu.pipeline import ir

from .externs import Call
from .places import INDEX, Number
from .records import DROPPED, HELD, TO_HOST, TO_PORT
from .shared_externs import SharedExterns


class NicExterns(SharedExterns):
    """Verdicts, counters and events."""

    def calls(self) -> dict[str, Call]:
        """Return what each extern's call makes."""
        return {
            "send_to_port": self._goes(TO_PORT),
            "send_to_host": self._goes(TO_HOST),
            "drop_packet": self._goes(DROPPED),
            "hold_packet": self._goes(HELD),
            "TriggerCounter.add": self._count_up,
            "FirmwareEvent.post": self._post,
            "DeferredWork.arm": self._arm,
            **self.shared_calls(),
        }

    def _goes(self, verdict: int) -> Callable[[str, tuple[ir.Expression, ...]], None]:
        def make(instance: str, arguments: tuple[ir.Expression, ...]) -> None:
            port: Number = INDEX(0)
            if arguments:
                port = self.builder.zext(self.value(arguments[0]), INDEX)
            self.builder.store(INDEX(verdict), self.verdict)
            self.builder.store(port, self.out_port)

        return make

    def _count_up(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        counter, value = (self.value(argument) for argument in arguments)
        self.leave_effect(instance, "add", [(arguments[0].type, counter), (arguments[1].type, value)])

    def _arm(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        values = [(argument.type, self.value(argument)) for argument in arguments]
        self.leave_effect(instance, "arm", values)

    def _post(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        self.leave_effect(instance, "post", [(arguments[0].type, self.value(arguments[0]))])
