# SPDX-License-Identifier: Apache-2.0
"""An engine that does not wait for its kernel: it interprets a program until that is wanted, and ready."""

from __future__ import annotations

import os
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from nicemu.errors import ResourceError
from nicemu.kernels import CompiledEngine, NotCompiled
from nicemu.pipeline import Engine, Program, Verdict

if TYPE_CHECKING:
    from nicemu.kernels import Kernel

FRAMES_INTERPRETED = 64
"""Frames after which a program is compiled: few programs that meet so many meet no more."""
_NICENESS = 10
"""The compiler leaves the processor to whoever has packets."""


class LateEngine(CompiledEngine):
    """A `CompiledEngine` whose kernels are made by threads of their own, while packets are interpreted.

    It begins to make one when a program has treated `frames_interpreted` frames. `hand` brings work to the
    thread that the engine belongs to, which does it between two packets.
    """

    def __init__(
        self,
        hand: Callable[[Callable[[], None]], None],
        drops: Counter[str] | None = None,
        frames_interpreted: int = FRAMES_INTERPRETED,
    ) -> None:
        super().__init__(drops=drops)
        self._hand = hand
        self._frames_interpreted = self._frames_left = frames_interpreted

    def load(self, program: Program) -> None:
        """Run `program` from the next frame on. Raises: ControlError."""
        Engine.load(self, program)
        self._begin()

    def adopt(self, other: Engine) -> None:
        """Run the program of another engine, with everything that its tables and objects hold."""
        Engine.adopt(self, other)
        self._begin()

    def staged(self, program: Program) -> Engine:
        """As an engine's: one that interprets, for a kernel can come later."""
        made = Engine()
        made.use_externs(self._own_externs)
        made.load(program)
        return made

    def process(
        self, frame: bytes | memoryview, ingress_port: int, trace: bool = False, now_ns: int = 0
    ) -> Verdict:
        """Run one frame through the program."""
        if self._frames_left:
            self._frames_left -= 1
            if not self._frames_left and self.program is not None:
                self._compile_it(self.program)
        return super().process(frame, ingress_port, trace, now_ns)

    def _begin(self) -> None:
        """Count the frames of the program that runs from now on."""
        self.give_up()
        self._frames_left = self._frames_interpreted
        self.interpreted_because = f"it has met fewer than {self._frames_interpreted} frames"

    def _compile_it(self, program: Program) -> None:
        self.interpreted_because = "its kernel is being compiled"
        given, name = (program, self.objects), f"kernel of {program.name}"
        try:
            threading.Thread(target=self._make, args=given, name=name, daemon=True).start()
        except RuntimeError as error:  # as many threads as this user may have
            self._frames_left = self._frames_interpreted
            self.interpreted_because = f"its kernel is not being compiled yet: {error}"

    def _make(self, program: Program, objects: object) -> None:
        """Make the kernel of a program, whose objects these are."""
        if not self._runs(objects):
            return
        with suppress(OSError):
            niceness = max(_NICENESS, os.getpriority(os.PRIO_PROCESS, 0))
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
        try:
            from nicemu.kernels import Kernel

            kernel = Kernel(program)
        except (NotCompiled, ResourceError) as reason:
            because = str(reason)
        except Exception as error:
            traceback.print_exc()
            because = f"its kernel could not be made: {error!r}"
        else:
            self._hand(lambda: self._arrive(objects, kernel))
            return
        self._hand(lambda: self._go_without(objects, because))

    def _arrive(self, objects: object, kernel: Kernel) -> None:
        """Run on a kernel, unless another program runs by now.

        One that cannot be used is left to whoever follows it already.
        """
        if not self._runs(objects):
            kernel.close()
            return
        try:
            self.use(kernel)
        except (NotCompiled, ResourceError) as reason:
            self.interpreted_because = str(reason)
        except Exception as error:
            traceback.print_exc()
            self.interpreted_because = f"its kernel could not be used: {error!r}"

    def _go_without(self, objects: object, because: str) -> None:
        if self._runs(objects):
            self.interpreted_because = because

    def _runs(self, objects: object) -> bool:
        """Return whether the program of these objects still runs; by any thread."""
        loaded = self._loaded
        return loaded is not None and loaded.objects is objects
