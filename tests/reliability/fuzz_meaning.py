# SPDX-License-Identifier: Apache-2.0
"""Compares what random P4 programs do in nicemu with what they mean by the specification.

A program is a random syntax tree. Its text goes through the compiler to the engine; the tree is evaluated by
`tests.reliability.p4_meaning`, which knows nothing of nicemu. Both must send the same packets.
Run: python -m tests.reliability.fuzz_meaning [--cases 10000] [--seed 1] [--keep FOLDER] [--kernels EVERY]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from random import Random

from nicemu.p4 import CompileError, Severity, compile_text
from nicemu.pipeline import Disposition, Engine
from tests.reliability import p4_meaning_tree as tree
from tests.reliability.p4_meaning import output
from tests.reliability.p4_meaning_programs import random_program
from tests.reliability.p4_meaning_values import NotDefined


@dataclass(frozen=True)
class Failure:
    """What differs; `kind` says what stays the same while a program is shrunk."""

    kind: str
    told: str


def failure(
    program: tree.Tree, packets: list[bytes], make: Callable[[], Engine], seen: Counter[str]
) -> Failure | None:
    """Run a program on packets, and say where it is not what it means; `seen` counts."""
    try:
        compiled = compile_text(str(program))
    except CompileError as error:
        first = next(one for one in error.diagnostics if one.severity is Severity.ERROR)
        return Failure(f"refused: {first.message}"[:40], first.render())
    except Exception as error:
        return Failure(f"compiler: {type(error).__name__}", repr(error))
    engine = make()
    try:
        engine.load(compiled.program)
    except Exception as error:
        return Failure(f"load: {type(error).__name__}", str(error))
    for packet in packets:
        try:
            expected = output(program, packet)
        except NotDefined:
            seen["packets not defined"] += 1
            continue
        verdict = engine.process(packet, 1)
        seen["packets compared"] += 1
        if verdict.disposition is not Disposition.PORT:
            return Failure(f"dropped: {verdict.drop_reason}", packet.hex())
        if verdict.frame != expected:
            told = f"packet   {packet.hex()}\nis       {verdict.frame.hex()}\nexpected {expected.hex()}"
            return Failure("differs", told)
    return None


def random_packets(seed: int, count: int = 4) -> list[bytes]:
    random = Random(seed)
    lengths = [random.choice((400, 400, 400, random.randrange(60))) for _ in range(count)]
    values = [bytes(length) for length in lengths[:1]]
    small = (0, 1, 2, 3, 127, 128, 254, 255)
    for length in lengths[1:]:
        some = random.random() < 0.5
        values.append(bytes(random.choice(small) if some else random.randrange(256) for _ in range(length)))
    return values


def blocks(node: object) -> Iterator[list[tree.Statement]]:
    """Every list of statements in a program."""
    if isinstance(node, tree.Block):
        yield node.statements
    if isinstance(node, list | tuple):
        for one in node:
            yield from blocks(one)
    elif is_dataclass(node):
        for each in fields(node):
            yield from blocks(getattr(node, each.name))


def shrunk(program: tree.Tree, fails: Callable[[], bool]) -> None:
    """Drop statements and declarations of the program while it still fails."""
    again = True
    while again:
        again = False
        lists: list[list[object]] = [program.callables, program.blocks]  # type: ignore[list-item]
        for block in (*program.blocks, program.ingress, program.parser):
            lists.append(block.locals)  # type: ignore[arg-type]
        seen: set[int] = set()
        lists += blocks(program)  # type: ignore[arg-type]
        for one in lists:
            if id(one) in seen:
                continue
            seen.add(id(one))
            at = len(one) - 1
            while at >= 0:
                kept = one[at]
                del one[at]
                if fails():
                    again = True
                else:
                    replaced = False
                    for inner in blocks(kept) if not isinstance(kept, tree.Callable_) else ():
                        one[at:at] = inner
                        if fails():
                            again = replaced = True
                            break
                        del one[at : at + len(inner)]
                    if not replaced:
                        one.insert(at, kept)
                at -= 1


class Fuzzer:
    """Programs by their seeds, and what came of them."""

    def __init__(self, kernels_every: int = 0) -> None:
        self.seen: Counter[str] = Counter()
        self.kernels_every = kernels_every

    def case(self, seed: int) -> tuple[tree.Tree, Failure] | None:
        program = random_program(seed)
        packets = random_packets(seed)
        self.seen["programs"] += 1
        makers = [Engine]
        if self.kernels_every and seed % self.kernels_every == 0:
            makers.append(compiled_engine)  # type: ignore[arg-type]
            self.seen["through kernels"] += 1
        for make in makers:
            found = failure(program, packets, make, self.seen)
            if found is not None:
                self.seen[found.kind] += 1
                return program, found
        return None

    def shrink(self, program: tree.Tree, found: Failure, seed: int) -> Failure:
        packets, last = random_packets(seed), found

        def fails() -> bool:
            nonlocal last
            try:
                now = failure(program, packets, Engine, Counter())
            except Exception:
                return False
            if now is None or now.kind != found.kind:
                return False
            last = now
            return True

        shrunk(program, fails)
        return last


def compiled_engine() -> Engine:
    from nicemu.kernels import CompiledEngine

    return CompiledEngine(optimised=False)


def main() -> None:
    """Fuzz, and print what came of it; programs that fail are shrunk and kept in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--kernels", type=int, default=0, help="every k-th program by kernels too")
    parser.add_argument("--most-failures", type=int, default=10)
    options = parser.parse_args()
    fuzzer, started, failures = Fuzzer(options.kernels), time.monotonic(), 0
    for seed in range(options.seed, options.seed + options.cases):
        result = fuzzer.case(seed)
        if result is None:
            continue
        program, found = result
        failures += 1
        print(f"seed {seed}: {found.kind}", flush=True)
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / f"{seed}.whole.p4").write_text(str(program))
            last = fuzzer.shrink(program, found, seed)
            (options.keep / f"{seed}.p4").write_text(str(program))
            (options.keep / f"{seed}.txt").write_text(last.told)
        if failures >= options.most_failures:
            break
    print(f"{time.monotonic() - started:.0f} s")
    for name, count in sorted(fuzzer.seen.items()):
        print(f"{name}: {count}")
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
