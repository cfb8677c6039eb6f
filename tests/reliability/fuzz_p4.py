# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the P4 compiler with programs that are nearly right.

Whatever the text, the compiler returns a program, or raises CompileError with messages that have a place; it
takes no longer than a bound that its size gives, and no more memory. A program that it returns is loaded, has
the same JSON when read again, and treats a few packets without an error.
Run: python -m tests.reliability.fuzz_p4 [--cases 1000000] [--seed 1] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import resource
import signal
import time
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType

from nicemu.control import p4info_text
from nicemu.p4 import Compiled, CompileError, compile_text
from nicemu.p4.compiler import OWN_FAULT
from nicemu.pipeline import Engine, program_of_json
from tests.reliability.broken_programs import BrokenPrograms

LONGEST_S = 5.0
"""CPU time that one case may take; those that are usual take some milliseconds."""
MOST_MEMORY_BYTES = 1 << 30
FRAMES = (b"", bytes(14), bytes(range(256)), b"\xff" * 1500)


class TooSlow(Exception):  # noqa: N818 - raised by the timer, caught beside every other failure
    """A case takes longer than it may."""


class P4Fuzzer:
    """The compiler, and what came of the programs that it was given."""

    def __init__(self, seed: int) -> None:
        self.programs = BrokenPrograms(seed)
        self.cases = 0
        self.outcomes: Counter[str] = Counter()
        self.messages: Counter[str] = Counter()
        self.failures: list[tuple[str, str]] = []
        self.slowest_s = 0.0

    def case(self) -> None:
        """Compile one program; a failure is kept with the text that led to it."""
        text = self.programs.next()
        started = time.process_time()
        previous = signal.signal(signal.SIGVTALRM, _too_slow)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
        try:
            self.outcomes[self._outcome(text)] += 1
        except Exception:
            self.outcomes["failed"] += 1
            self.failures.append((traceback.format_exc(), text))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, previous)
        self.slowest_s = max(self.slowest_s, time.process_time() - started)
        self.cases += 1

    def _outcome(self, text: str) -> str:
        try:
            compiled = compile_text(text)
        except CompileError as error:
            told = error.diagnostics
        else:
            _run(compiled)
            return "compiled"
        assert told, "a program is refused without a message"
        for item in told:
            assert item.message, "a message says nothing"
            assert OWN_FAULT not in item.message, item.message
            assert item.line >= 1, "a message has no place"
            assert item.column >= 1, "a message has no place"
            item.render()
        self.messages[_shape(told[0].message)] += 1
        return "refused"


def _run(compiled: Compiled) -> None:
    """Load a program, and have it treat a few packets."""
    text = compiled.program.to_json()
    assert program_of_json(text) == compiled.program, "the program is another when read again"
    p4info_text(compiled.p4info)
    engine = Engine(seed=1)
    engine.load(compiled.program)
    for frame in FRAMES:
        engine.process(frame, ingress_port=0)


def _shape(message: str) -> str:
    return message.split(":")[0].split("'")[0][:40]


def _too_slow(signal_number: int, frame: FrameType | None) -> None:
    raise TooSlow(f"more than {LONGEST_S} s of CPU time")


def memory_bytes() -> int:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fuzz_p4(seed: int, cases: int) -> P4Fuzzer:
    """Compile so many broken programs."""
    fuzzer = P4Fuzzer(seed)
    while fuzzer.cases < cases:
        fuzzer.case()
    return fuzzer


def main() -> None:
    """Fuzz, and print what came of it as `name value` lines; failures are kept in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    fuzzer, started, kept = P4Fuzzer(options.seed), time.monotonic(), 0
    while fuzzer.cases < options.cases:
        fuzzer.case()
        for report, text in fuzzer.failures[kept:]:
            kept += 1
            print(f"case {fuzzer.cases}: {report.strip().splitlines()[-1]}", flush=True)
            if options.keep is not None:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{options.seed}_{fuzzer.cases}.p4").write_text(text)
                (options.keep / f"{options.seed}_{fuzzer.cases}.txt").write_text(report)
        assert memory_bytes() < MOST_MEMORY_BYTES, "the compiler takes more and more memory"
        if fuzzer.cases % max(1, options.cases // 100) == 0:
            print(f"{fuzzer.cases} cases, {time.monotonic() - started:.0f} s, {kept} failures", flush=True)
    print(f"cases {fuzzer.cases}, {time.monotonic() - started:.0f} s, slowest {fuzzer.slowest_s:.2f} s")
    print(f"memory {memory_bytes() >> 20} MiB")
    for title, table in (("made", fuzzer.programs.made), ("outcome", fuzzer.outcomes)):
        for name, count in sorted(table.items()):
            print(f"{title}: {name} {count}")
    print(f"kinds of messages {len(fuzzer.messages)}")
    raise SystemExit(bool(fuzzer.failures))


if __name__ == "__main__":
    main()
