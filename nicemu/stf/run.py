# SPDX-License-Identifier: Apache-2.0
"""Run a script's commands in order on an engine of its own, then compare what left with what was expected.

Outputs are compared a port at a time, in order, and their number has to be equal. A port that no packet and
no expect names is not looked at, except by no_packet. Time is virtual: it stands still but for wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nicemu.errors import ControlError, counted
from nicemu.p4 import Location
from nicemu.pipeline import (
    HOST_PORT,
    MAX_COUNT,
    Count,
    Disposition,
    Engine,
    Layouts,
    MeterConfig,
    OwnExterns,
    PacketIn,
    Program,
    TableEntry,
    Value,
    Verdict,
    arithmetic,
    ir,
    last_port,
    trace_lines,
    value_text,
)

from .commands import (
    Add,
    CheckCounter,
    Command,
    CounterRead,
    CounterWrite,
    Expect,
    GroupCreate,
    MeterRead,
    MeterWrite,
    MirrorAdd,
    MirrorDelete,
    MirrorRead,
    NodeAssociate,
    NodeCreate,
    NodeUpdate,
    NoPacket,
    Packet,
    RegisterRead,
    RegisterReset,
    RegisterWrite,
    RemoveAll,
    SetDefault,
    Wait,
    Word,
)
from .difference import difference, hex_bytes, meets
from .line_reader import ScriptError, fault
from .replication import Replication
from .report import Failure, Note, Report
from .resolve import call_of, entry_of, table_named, whole_name

WAIT_NS = 1_000_000_000
MAX_METERS = 1 << 16
"""Meters that one command may set."""

_RATE_UNITS = 1e6
"""Rates in scripts are per microsecond."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A frame that left, and the line of the packet that it came of."""

    port: int
    frame: bytes
    cause: Location


def run_script(
    program: Program,
    commands: Sequence[Command],
    trace: bool = False,
    compiled: bool = False,
    externs: Iterable[Callable[..., Any]] = (),
    prepare: Callable[[Engine], object] = lambda engine: None,
) -> Report:
    """Run a script on a program, as machine code if `compiled`.

    `externs` are functions and classes with `@extern`, which do what externs of the program's own do;
    `prepare` does something with the engine first. A command that is refused is a failure, and the last
    command.
    """
    engine = _compiled_engine() if compiled else Engine()
    engine.use_externs(OwnExterns(tuple(externs)))
    engine.load(program)
    prepare(engine)
    run = _Run(engine, trace)
    for command in commands:
        try:
            run.do(command)
        except ScriptError as error:
            run.failures += [Failure(item) for item in error.diagnostics]
            break
        except ControlError as error:
            run.fail(command.location, str(error))
            break
    else:
        run.compare()
    outputs = sum(len(frames) for frames in run.seen.values())
    failures = sorted(run.failures, key=lambda failure: failure.diagnostic.line)
    because = getattr(engine, "interpreted_because", "")
    missing = tuple(engine.missing_externs)
    return Report(tuple(failures), tuple(run.notes), len(run.fates), outputs, because, missing)


def _compiled_engine() -> Engine:
    """Return an engine that compiles quickly: a script has few packets."""
    from nicemu.kernels import CompiledEngine

    return CompiledEngine(optimised=False)


@dataclass(slots=True, eq=False)
class _Run:
    engine: Engine
    trace: bool
    now_ns: int = 0
    seen: dict[int, list[Seen]] = field(default_factory=dict)
    expected: dict[int, list[Expect]] = field(default_factory=dict)
    fates: list[tuple[Packet, str]] = field(default_factory=list)
    handles: dict[str, tuple[str, TableEntry]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    replication: Replication = field(init=False)
    punted: list[bytes] = field(default_factory=list)
    """What the present packet sent to the controller: this one is behind HOST_PORT."""

    def __post_init__(self) -> None:
        self.replication = Replication(self.engine.objects)
        self.engine.listen(self.hear)

    def hear(self, report: object) -> bool:
        """Take what goes to the controller."""
        if isinstance(report, PacketIn):
            self.punted.append(report.frame)
        return True

    def do(self, command: Command) -> None:
        """Do one command. Raises: ScriptError, ControlError where it cannot be done."""
        _PERFORMERS[type(command)](self, command)

    def fail(self, location: Location, message: str, detail: str = "") -> None:
        self.failures += [Failure(item, detail) for item in fault(location, message).diagnostics]

    # Packets

    def packet(self, command: Packet) -> None:
        assert self.engine.program is not None
        last = last_port(self.engine.program)
        if command.port > last:
            raise fault(command.location, f"port {command.port}; the program has ports 0 to {last}")
        self.expected.setdefault(command.port, [])
        self.punted.clear()
        verdict = self.engine.process(command.frame, command.port, trace=self.trace, now_ns=self.now_ns)
        left = [*_left(verdict), *((HOST_PORT, frame) for frame in self.punted)]
        for port, frame in left:
            self.seen.setdefault(port, []).append(Seen(port, frame, command.location))
        self.fates.append((command, _fate(verdict, left)))
        if self.trace:
            lines = [
                *trace_lines(verdict.trace),
                *(f"out: port {port}, {hex_bytes(frame)}" for port, frame in left),
            ]
            self.notes.append(Note(command.location, "\n".join(lines)))

    def expect(self, command: Expect) -> None:
        self.expected.setdefault(command.port, []).append(command)

    def no_packet(self, command: NoPacket) -> None:
        expected = Counter({port: len(due) for port, due in self.expected.items()})
        for port, frames in sorted(self.seen.items()):
            for extra in frames[expected[port] :]:
                self.fail(
                    command.location,
                    f"a packet has left by port {port} that nothing above expects",
                    f"it came of line {extra.cause.line}: {hex_bytes(extra.frame)}",
                )

    def wait(self, command: Wait) -> None:
        self.now_ns += WAIT_NS

    def compare(self) -> None:
        """Compare what left by the ports that the script names."""
        for port, due in sorted(self.expected.items()):
            seen = self.seen.get(port, [])
            for place, (expect, found) in enumerate(zip(due, seen, strict=False), start=1):
                if not meets(expect, found.frame):
                    self.fail(
                        expect.location,
                        f"packet {place} of port {port}, of line {found.cause.line}, differs",
                        difference(expect, found.frame, self.engine.dissect(found.frame)),
                    )
            for expect in due[len(seen) :]:
                left = f"{counted(len(seen), 'packet')} left by port {port}"
                self.fail(expect.location, f"{left}; {len(due)} should have", self._fates())
            for extra in seen[len(due) :]:
                self.fail(
                    extra.cause,
                    f"a packet has left by port {port} that nothing expects",
                    f"it is {hex_bytes(extra.frame)}",
                )

    def _fates(self) -> str:
        return "\n".join(f"packet of line {packet.location.line}: {fate}" for packet, fate in self.fates[-8:])

    # Tables

    def add(self, command: Add) -> None:
        table = table_named(command.table, self.engine.tables())
        entry = entry_of(command, table)
        self.engine.insert(table.name, entry)
        if command.handle:
            self.handles[command.handle] = (table.name, entry)

    def setdefault(self, command: SetDefault) -> None:
        table = table_named(command.table, self.engine.tables())
        self.engine.set_default(table.name, *call_of(command.action, table.actions))

    def remove_all(self, command: RemoveAll) -> None:
        assert self.engine.p4info is not None
        for info in self.engine.p4info.tables:
            table = self.engine.table(info.name)
            for entry in table.read():
                if not table.is_const(entry):
                    table.delete(entry.matches, entry.priority)
        self.handles.clear()

    # Extern objects

    def check_counter(self, command: CheckCounter) -> None:
        place = command.place
        if isinstance(place, int):
            array = self.engine.objects.counter(self._object(command))
            count, shown = array.counts.get(array.checked(place), Count()), str(place)
        else:
            count, shown = self._hits(command.name, place), place.text
        value = count.packets if command.unit == "packets" else count.bytes
        condition = command.condition
        if condition is not None and not condition.holds(value):
            self.fail(
                command.location,
                f"counter {command.name.text}({shown}) has {counted(value, command.unit[:-1])}; "
                f"{condition.operator} {condition.number} was expected",
            )

    def _hits(self, name: Word, place: Word) -> Count:
        """Return what an entry's table, or its direct counter, has counted for it."""
        known = self.handles.get(place.text)
        if known is None:
            hint = f"there is {', '.join(self.handles)}" if self.handles else "`add … = name` gives one"
            raise fault(place.location, f"no entry is called {place.text}", hint)
        table, entry = known
        counter = self.engine.table(table).spec.counter
        whole_name(name, [table, counter] if counter else [table], "table or direct counter of this entry")
        row = self.engine.row(table, entry.matches, entry.priority)
        return Count(row.hits, row.bytes)

    def counter_read(self, command: CounterRead) -> None:
        array = self.engine.objects.counter(self._object(command))
        count = array.counts.get(array.checked(command.index), Count())
        told = f"{counted(count.packets, 'packet')}, {counted(count.bytes, 'byte')}"
        self._note(command, f"{array.name}[{command.index}]: {told}")

    def counter_write(self, command: CounterWrite) -> None:
        array = self.engine.objects.counter(self._object(command))
        for number in (command.packets, command.bytes):
            if number > MAX_COUNT:
                raise fault(command.location, f"a count of {number:#x}; {MAX_COUNT:#x} is the largest")
        array.counts[array.checked(command.index)] = Count(command.packets, command.bytes)

    def register_read(self, command: RegisterRead) -> None:
        array = self.engine.objects.register(self._object(command))
        if command.index is None:
            places = (f"{place}: {_held(array.values[place])}" for place in sorted(array.values))
            values = ", ".join(places)
            self._note(command, f"{array.name}: {f'{{{values}}}' if values else 'nothing was written'}")
            return
        assert self.engine.program is not None
        zero = Layouts(self.engine.program).zero(array.type)
        value = array.read(array.checked(command.index), zero)
        condition = command.condition
        if condition is None:
            self._note(command, f"{array.name}[{command.index}]: {_held(value)}")
        elif not isinstance(value, int):
            raise fault(command.location, f"register {array.name} holds no numbers; nothing can be compared")
        elif not replace(condition, number=_meant(condition.number, array.type)).holds(value):
            self.fail(
                command.location,
                f"register {array.name}[{command.index}] is {value} ({value:#x}); "
                f"{condition.operator} {condition.number} was expected",
            )

    def register_write(self, command: RegisterWrite) -> None:
        array = self.engine.objects.register(self._object(command))
        if not isinstance(array.type, ir.Bits | ir.Bool):
            raise fault(command.location, f"register {array.name} holds no numbers; none can be written")
        bits = array.type if isinstance(array.type, ir.Bits) else ir.Bits(1)
        value = _meant(command.value, bits)
        if value != arithmetic.wrap(value, bits):
            raise fault(
                command.location, f"{command.value} does not fit register {array.name} of {array.type}"
            )
        array.write(array.checked(command.index), value)

    def register_reset(self, command: RegisterReset) -> None:
        self.engine.objects.register(self._object(command)).values.clear()

    def meter_read(self, command: MeterRead) -> None:
        array = self.engine.objects.meter(self._object(command))
        meter = array.meters.get(array.checked(command.index))
        config = meter.config if meter is not None else None
        told = (
            "no rates"
            if config is None
            else (
                f"{config.committed_rate / _RATE_UNITS:g}:{config.committed_burst} "
                f"{config.peak_rate / _RATE_UNITS:g}:{config.peak_burst}"
            )
        )
        self._note(command, f"{array.name}[{command.index}]: {told}")

    def meter_write(self, command: MeterWrite) -> None:
        array = self.engine.objects.meter(self._object(command))
        (committed, committed_burst), (peak, peak_burst) = command.rates
        if peak < committed:
            raise fault(
                command.location,
                f"the peak rate, {peak:g}, is less than the committed rate, {committed:g}",
                "the committed rate comes first",
            )
        config = MeterConfig(committed * _RATE_UNITS, committed_burst, peak * _RATE_UNITS, peak_burst)
        if command.index is not None:
            array.configure(array.checked(command.index), config, self.now_ns)
            return
        if array.size > MAX_METERS:
            raise fault(
                command.location,
                f"meter {array.name} has {array.size} places; {MAX_METERS} can be set at once",
                "set those that are used, with meter_set_rates",
            )
        for place in range(array.size):
            array.configure(place, config, self.now_ns)

    def _object(self, command: Any) -> str:  # noqa: ANN401 - whatever has the name of an object
        return whole_name(command.name, self.engine.objects.states, "object")

    def _note(self, command: Command, text: str) -> None:
        self.notes.append(Note(command.location, text))

    # Replication

    def replicate(self, command: Any) -> None:  # noqa: ANN401 - any command of `Replication.change`
        self.replication.change(command)

    def mirror_read(self, command: MirrorRead) -> None:
        self._note(command, f"session {command.session}: {self.replication.told(command)}")


_PERFORMERS: dict[type, Callable[[_Run, Any], None]] = {
    Packet: _Run.packet,
    Expect: _Run.expect,
    NoPacket: _Run.no_packet,
    Wait: _Run.wait,
    Add: _Run.add,
    SetDefault: _Run.setdefault,
    RemoveAll: _Run.remove_all,
    CheckCounter: _Run.check_counter,
    CounterRead: _Run.counter_read,
    CounterWrite: _Run.counter_write,
    RegisterRead: _Run.register_read,
    RegisterWrite: _Run.register_write,
    RegisterReset: _Run.register_reset,
    MeterRead: _Run.meter_read,
    MeterWrite: _Run.meter_write,
    MirrorRead: _Run.mirror_read,
    MirrorAdd: _Run.replicate,
    MirrorDelete: _Run.replicate,
    GroupCreate: _Run.replicate,
    NodeCreate: _Run.replicate,
    NodeAssociate: _Run.replicate,
    NodeUpdate: _Run.replicate,
}


def _held(value: Value) -> str:
    """Return what a register holds as people read it."""
    return str(value) if isinstance(value, int) else value_text(value)


def _meant(number: int, kind: ir.Type) -> int:
    """Return what a number of a script is as a value of a type: of int<N> it may be the bits."""
    if isinstance(kind, ir.Bits) and 0 <= number < 1 << kind.width:
        return arithmetic.wrap(number, kind)
    return number


def _left(verdict: Verdict) -> list[tuple[int, bytes]]:
    """Return the frames that left; what goes to the host leaves by HOST_PORT."""
    if verdict.disposition is Disposition.PORT:
        return [(verdict.port, verdict.frame), *verdict.copies]
    if verdict.disposition is Disposition.HOST:
        return [(HOST_PORT, verdict.frame), *verdict.copies]
    return []


def _fate(verdict: Verdict, left: Sequence[tuple[int, bytes]]) -> str:
    if left:
        return f"left by port {', '.join(str(port) for port, _ in left)}"
    reason = f" ({verdict.drop_reason})" if verdict.drop_reason else ""
    return "stays with the firmware" if verdict.disposition is Disposition.FIRMWARE else f"dropped{reason}"
