# SPDX-License-Identifier: Apache-2.0
"""The running program and its tables: frames in, verdicts out, and the control plane's way in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from nicemu.errors import ControlError, P4RuntimeCode

from . import ir
from .architecture import HOST_PORT, Architecture, Arrival
from .architectures import ARCHITECTURES, RUN
from .describe import p4info_of
from .dissection import Dissector, FieldPlace
from .interpreter import MAX_FRAME_BYTES, Interpreter
from .matches import Match, width_of
from .names import full_name
from .objects import Objects
from .own_externs import OwnExterns, missing, with_own_externs
from .p4info import ActionInfo, KeyInfo, P4Info
from .smartnic import HOST_TO_NET
from .table_entry import Row, TableEntry
from .tables import Table
from .trace import Dropped
from .tracer import Tracer
from .verdict import DigestPosted, DigestReport, Disposition, PacketIn, Report, Verdict
from .verify import action_widths, verify

PACKET_IN = "packet_in"


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table as it stands: what it is, and how it has been used."""

    name: str
    id: int
    size: int
    keys: tuple[KeyInfo, ...]
    actions: tuple[ActionInfo, ...]
    entry_count: int
    hits: int
    misses: int
    default_action: str
    default_parameters: tuple[int, ...]


@dataclass(slots=True, eq=False)
class _Loaded:
    program: ir.Program
    p4info: P4Info
    tables: dict[str, Table]
    objects: Objects
    interpreter: Interpreter
    tracer: Tracer
    dissector: Dissector
    packet_in_bytes: int
    """Bytes of the header that frames for the controller begin with; 0 if the program has none."""


Result = TypeVar("Result")
Listener: TypeAlias = Callable[[Report], bool]
"""Takes a report at once and returns True, or False if there is no room."""


class Engine:
    """One pipeline. Without a program every frame goes to the host.

    `seed` is where the chance of a program starts that asks for some; `drops` is where frames that go nowhere
    are counted, by their reasons. `externs` are functions and classes with `@extern`, which do what externs
    do that a program declares itself. `cpu_port` is what v1model programs call the port of host or
    controller, beside 510: what leaves by it goes there, what comes from there comes in by it.
    """

    def __init__(
        self,
        seed: int = 0,
        drops: Counter[str] | None = None,
        externs: Iterable[Callable[..., Any]] = (),
        *,
        cpu_port: int = HOST_PORT,
    ) -> None:
        self._seed = seed
        self._cpu_port = cpu_port
        self._own_externs = OwnExterns(tuple(externs))
        self._loaded: _Loaded | None = None
        self._listener: Listener | None = None
        self._has_controllers = True
        self.drops: Counter[str] = Counter() if drops is None else drops
        self.now_ns = 0
        """The time of the last frame, or of `tick`."""

    @property
    def program(self) -> ir.Program | None:
        """The running program."""
        return self._loaded.program if self._loaded else None

    @property
    def p4info(self) -> P4Info | None:
        """What the control plane may know of the running program."""
        return self._loaded.p4info if self._loaded else None

    @property
    def cpu_port(self) -> int:
        """The port that packets of host and controller come in by."""
        program = self.program
        return self._cpu_port if program is not None and program.architecture == "v1model" else HOST_PORT

    @property
    def takes_host_frames(self) -> bool:
        """Whether the running program has a control for what the host sends."""
        program = self.program
        return program is not None and any(item.role == HOST_TO_NET for item in program.controls)

    @property
    def missing_externs(self) -> list[str]:
        """The externs of the running program's own that nothing in Python does: calls drop the packet."""
        return missing(self._loaded.program, self._own_externs) if self._loaded else []

    @property
    def objects(self) -> Objects:
        """The extern objects of the running program, clone sessions and multicast groups.

        Raises: ControlError(FAILED_PRECONDITION) without a program.
        """
        return self._running().objects

    def load(self, program: ir.Program) -> None:
        """Run `program` from the next frame on, its tables holding its own entries alone.

        Raises: ControlError(INVALID_ARGUMENT) if the program is at fault; the old one goes on, tables and
        all.
        """
        self._loaded = self._made(program)

    def use_externs(self, externs: OwnExterns) -> None:
        """Have others do from now on what externs of programs' own do; objects of theirs are made anew.

        Raises: ControlError(INVALID_ARGUMENT) if the running program declares them unlike Python; then those
        there are go on.
        """
        loaded = self._loaded
        if loaded is not None and loaded.program.extern_signatures:
            program = loaded.program
            architecture = with_own_externs(ARCHITECTURES[program.architecture], program, externs)
            owners = {item.owner for item in program.extern_signatures}
            declared = (item for item in program.externs if item.extern in owners)
            loaded.objects.states |= _states(declared, architecture)
            given = (program, architecture, loaded.tables, loaded.objects)
            loaded.interpreter, loaded.tracer = Interpreter(*given), Tracer(*given)
        self._own_externs = externs

    def adopt(self, other: Engine) -> None:
        """Run the program of another engine, with everything that its tables and objects hold.

        That engine is not to be used any more.
        """
        self._loaded = other._loaded
        if self._loaded is not None:
            self._loaded.objects.random.seed(self._seed)

    def staged(self, program: ir.Program) -> Engine:
        """Return an engine of its own, of this one's kind, that runs a program and can be adopted.

        What takes long is done here, by any thread, while this engine goes on. Raises: ControlError.
        """
        made = Engine(cpu_port=self._cpu_port)
        made.use_externs(self._own_externs)
        made.load(program)
        return made

    def _made(self, program: ir.Program) -> _Loaded:
        verify(program)
        actions = {action.name: action for action in program.actions}
        architecture = with_own_externs(ARCHITECTURES[program.architecture], program, self._own_externs)
        objects = Objects(program, _states(program.externs, architecture), self._seed)
        tables = {
            table.name: Table(table, *action_widths(table, actions), objects.states.get(table.profile))
            for table in program.tables
        }
        given = (program, architecture, tables, objects)
        controllers = {header.controller: header for header in program.headers}
        packet_in = controllers.get(PACKET_IN)
        width_bits = sum(width_of(part.type) for part in packet_in.fields) if packet_in else 0
        return _Loaded(
            program,
            p4info_of(program, with_hidden=True),
            tables,
            objects,
            Interpreter(*given),
            Tracer(*given),
            Dissector(*given),
            width_bits // 8,
        )

    # The control plane's way in

    def run(self, work: Callable[[Engine], Result]) -> Result:
        """Return what `work` makes of this engine."""
        return work(self)

    def listen(self, listener: Listener | None) -> None:
        """Tell `listener` from now on what goes to the controller; None where there is no controller."""
        self._listener = listener

    def inject(self, frame: bytes) -> None:
        """Take a frame from the controller. Where it goes is not said; its reports are made."""
        self.process(frame, self.cpu_port, now_ns=self.now_ns)

    def send_to_controller(self, frame: bytes) -> None:
        """Tell the listener of a frame that left for the host, where there is none: v1model's CPU port then
        is the controller's, whether or not the program has a header for it. Where it has one, the listener
        was told already.
        """
        if self.program is None or self._packet_in_bytes:
            return
        if self.program.architecture == "v1model":
            self._report(PacketIn(frame))

    def tick(self, now_ns: int) -> None:
        """Say what time it is."""
        self.now_ns = max(self.now_ns, now_ns)

    # Packets

    def process(
        self, frame: bytes | memoryview, ingress_port: int, trace: bool = False, now_ns: int = 0
    ) -> Verdict:
        """Run one frame through the program; with `trace` the verdict says what happened, event by event.

        Never raises because of the bytes of the frame.
        """
        self.tick(now_ns)
        if len(frame) > MAX_FRAME_BYTES:
            self.drops["pipeline.oversized"] += 1
            told = (Dropped("pipeline.oversized"),) if trace else ()
            return Verdict(Disposition.DROP, 0, bytes(frame), "pipeline.oversized", trace=told)
        if self._loaded is None:
            return Verdict(Disposition.HOST, 0, bytes(frame))
        loaded = self._loaded
        interpreter = loaded.tracer if trace else loaded.interpreter
        verdict = RUN[loaded.program.architecture](
            interpreter,
            Arrival(bytes(frame), ingress_port, now_ns, [] if trace else None, self._cpu_port),
        )
        if verdict.disposition is Disposition.DROP:
            self.drops[verdict.drop_reason] += 1
        return self._reported(verdict)

    def _reported(self, verdict: Verdict) -> Verdict:
        """Tell the listener what goes to the controller; return the verdict on what is left."""
        assert self._loaded is not None
        for effect in verdict.effects:
            if isinstance(effect, DigestPosted) and effect.name in self._loaded.objects.digests:
                self._report(DigestReport(effect, self._loaded.objects.digests[effect.name]))
        if not self._packet_in_bytes or not (
            verdict.disposition is Disposition.HOST or any(port == HOST_PORT for port, _ in verdict.copies)
        ):
            return verdict
        leaving = list(verdict.copies)
        if verdict.disposition is Disposition.HOST:
            leaving.insert(0, (HOST_PORT, verdict.frame))
        elif verdict.disposition is Disposition.PORT:
            leaving.insert(0, (verdict.port, verdict.frame))
        for _, frame in (item for item in leaving if item[0] == HOST_PORT):
            self._packet_in(frame)
        left = [item for item in leaving if item[0] != HOST_PORT]
        if not left:
            return replace(verdict, disposition=Disposition.CONTROLLER, copies=())
        (port, frame), *copies = left
        return replace(verdict, disposition=Disposition.PORT, port=port, frame=frame, copies=tuple(copies))

    @property
    def _packet_in_bytes(self) -> int:
        """The least that a controller takes, 0 where the host gets what goes to the CPU port."""
        return self._running().packet_in_bytes if self._has_controllers else 0

    @contextmanager
    def without_controllers(self) -> Iterator[None]:
        """Give the host inside what a controller would get, with its header: there is none, nor can be."""
        before, self._has_controllers = self._has_controllers, False
        try:
            yield
        finally:
            self._has_controllers = before

    def _packet_in(self, frame: bytes) -> None:
        """Tell the listener of a frame for the controller."""
        if len(frame) < self._packet_in_bytes:
            self.drops["pipeline.no_packet_in_header"] += 1
        else:
            self._report(PacketIn(frame))

    def _report(self, report: Report) -> None:
        if self._listener is None:
            self.drops["pipeline.no_controller"] += 1
        elif not self._listener(report):
            self.drops["pipeline.controller_queue_full"] += 1

    # Tables

    def dissect(self, frame: bytes) -> tuple[FieldPlace, ...]:
        """Return the fields of a frame that has left, as far as the program's own parser understands it."""
        return self._running().dissector.dissect(frame)

    def tables(self) -> list[TableStatus]:
        """Return every table of the running program."""
        if self._loaded is None:
            return []
        infos = {action.name: action for action in self._loaded.p4info.actions}
        listed = []
        for described in self._loaded.p4info.tables:
            table = self._loaded.tables[described.name]
            listed.append(
                TableStatus(
                    described.name,
                    described.id,
                    described.size,
                    described.keys,
                    tuple(infos[ref.name] for ref in described.actions),
                    len(table),
                    table.hits,
                    table.misses,
                    table.default.entry.action,
                    table.default.entry.parameters,
                )
            )
        return listed

    def insert(self, table: str, entry: TableEntry) -> None:
        """Add an entry; `table` and the entry's action by full name or unique suffix. Raises:
        ControlError.
        """
        found = self.table(table)
        found.insert(_resolved(found, entry), self.now_ns)

    def modify(self, table: str, entry: TableEntry) -> None:
        """Change the action of an entry. Raises: ControlError."""
        found = self.table(table)
        found.modify(_resolved(found, entry))

    def delete(self, table: str, matches: tuple[Match, ...], priority: int = 0) -> None:
        """Remove an entry. Raises: ControlError."""
        self.table(table).delete(tuple(matches), priority)

    def read(self, table: str) -> list[TableEntry]:
        """Return the entries of a table in the order in which they came. Raises: ControlError(NOT_FOUND)."""
        return self.table(table).read()

    def hits(self, table: str, matches: tuple[Match, ...], priority: int = 0) -> int:
        """Return how many packets an entry has matched. Raises: ControlError(NOT_FOUND)."""
        return self.table(table).row(tuple(matches), priority).hits

    def row(self, table: str, matches: tuple[Match, ...], priority: int = 0) -> Row:
        """Return an entry with its counts and meter. Raises: ControlError(NOT_FOUND)."""
        return self.table(table).row(tuple(matches), priority)

    def idle(self, now_ns: int) -> list[tuple[str, TableEntry]]:
        """Return the entries whose idle timeout has passed, each with its table's name, and again when it has
        passed once more.
        """
        tables = self._loaded.tables.values() if self._loaded else ()
        return [(table.spec.name, entry) for table in tables for entry in table.idle(now_ns)]

    def set_default(self, table: str, action: str, params: Iterable[int] = ()) -> None:
        """Choose the action of a miss. Raises: ControlError."""
        found = self.table(table)
        found.set_default(_action_meant(found, action), tuple(params))

    def table(self, name: str) -> Table:
        """Return a table by its full name or unique suffix. Raises: ControlError(NOT_FOUND)."""
        loaded = self._running()
        if name in loaded.tables:
            return loaded.tables[name]
        return loaded.tables[full_name(name, loaded.tables, f"program {loaded.program.name}: table")]

    def settle(self) -> None:
        """End the taking back of changes; from here on packets may come again."""
        for table in self._running().tables.values():
            table.settle()

    def _running(self) -> _Loaded:
        if self._loaded is None:
            raise ControlError(
                P4RuntimeCode.FAILED_PRECONDITION, "no program is loaded; load one before its tables"
            )
        return self._loaded


def _resolved(table: Table, entry: TableEntry) -> TableEntry:
    action = entry.action
    if entry.choice is None:
        action = _action_meant(table, action)
    return entry._replace(matches=tuple(entry.matches), action=action, parameters=tuple(entry.parameters))


def _action_meant(table: Table, action: str) -> str:
    """Return the whole name of an action of a table; whether it may stand where it does is told later."""
    names = dict.fromkeys((*table.actions, *table.default_actions))
    return full_name(action, names, f"table {table.spec.name}: action")


def _states(instances: Iterable[ir.ExternInstance], architecture: Architecture) -> dict[str, Any]:
    """Return what extern objects start with, by their names."""
    return {item.name: architecture.objects[item.extern].make(item) for item in instances}
