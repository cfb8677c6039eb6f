# SPDX-License-Identifier: Apache-2.0
"""One device of the server: its clients' arbitration, its pipeline config, reads and writes of its entities.

No gRPC in here: messages in, messages out, ControlError for what is refused.
Source: P4Runtime Specification 1.4, "Write RPC", "Read RPC", "P4Entity Messages".
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TypeVar

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.garbage import garbage_waits

from .arbitration import Arbitration, Notice
from .batch import apply_all, apply_each
from .changes import Change, Outcomes
from .digest_entity import digest_config
from .entities import change_of, query_of
from .entry_changes import InsertEntries
from .entry_shapes import Shape
from .messages import DELETE, INSERT, Atomicity, Message
from .pipeline_config import PipelineConfig, ProgramReader, ir_reader
from .refusals import guarded, illegal, refusal
from .reports import Reports
from .schema import Schema
from .stream import Session, arbitration_message, election_id_of, role_of
from .target import PipelineTarget
from .texts import NoNumberLeftError, Texts
from .texts_in_use import show_all

MAX_ATOMIC_UPDATES = 65_536
"""Updates of a batch that is done as a whole or not at all; no frame passes meanwhile."""
MAX_UPDATES = 262_144
"""Updates of any batch."""
MAX_QUERIES = 16_384
"""Entities that one ReadRequest may ask for."""
MAX_TAKEN = 1 << 21
"""Entries and places that one ReadRequest may take from the engine."""
UPDATES_PER_TURN = 1_000
"""Updates of other batches between which frames may pass."""
_LARGE_BATCH = 100
"""Updates that are as many as this would have the garbage collector walk what they make, again and again."""
Understood = TypeVar("Understood")


class Device:
    """One target under P4Runtime. One call at a time reaches the target, from whichever thread."""

    def __init__(
        self,
        device_id: int,
        target: PipelineTarget,
        reader: ProgramReader = ir_reader,
        texts: Texts | None = None,
    ) -> None:
        self.device_id = device_id
        self._target = target
        self._texts = Texts() if texts is None else texts
        self._may_give_back = False
        """Whether something was changed, deleted or sent since unnamed texts were last looked for."""
        self._config = PipelineConfig(target, reader, self._texts)
        self._arbitration = Arbitration(device_id)
        self._lock = threading.RLock()
        self.reports = Reports(target, self._texts)
        """What the pipeline tells the primaries by itself."""

    # Arbitration

    def announce(self, session: Session, update: Message) -> None:
        """Take a MasterArbitrationUpdate and tell all whom it concerns. Raises: ControlError."""
        if update.role.HasField("config"):
            raise ControlError(
                P4RuntimeCode.INVALID_ARGUMENT,
                "role.config is set; here every role has access to the full pipeline, so leave it unset",
            )
        if len(update.role.name) > 100:
            raise ControlError(
                P4RuntimeCode.INVALID_ARGUMENT,
                f"the role's name has {len(update.role.name)} characters; 100 are allowed",
            )
        role = role_of(update.role.name, update.role.id)
        with self._lock:
            if session.closed:
                return
            session.device_id = self.device_id
            notices = self._arbitration.announce(session, role, election_id_of(update))
            session.given_role = update.role.name, update.role.id
            self._tell(notices)

    def leave(self, session: Session) -> None:
        """Forget a session whose stream has ended, if this device knows it, and take nothing more from it."""
        with self._lock:
            session.closed = True
            self._tell(self._arbitration.leave(session))

    def _tell(self, notices: list[Notice]) -> None:
        for notice in notices:
            assert isinstance(notice.session, Session)
            notice.session.send(arbitration_message(self.device_id, notice))
        sessions = [session for session in self._arbitration.primaries() if isinstance(session, Session)]
        self.reports.tell(sessions)

    # Stream

    def packet_out(self, session: Session, packet: Message) -> None:
        """Take a PacketOut. Raises: ControlError, and the packet is dropped."""
        with self._lock:
            self._require_primary(session)
            with self._texts.batch():
                try:
                    frame = self._with_room(lambda: self.reports.frame_of(packet))
                except ControlError:
                    self._texts.refuse(0)
                    raise
                self._may_give_back |= self._texts.brings  # once it is sent, nothing names them
        self._target.inject(frame)

    def acknowledge(self, session: Session, acknowledgement: Message) -> None:
        """Take a DigestListAck. Raises: ControlError."""
        with self._lock:
            self._require_primary(session)
            self.reports.acknowledge(acknowledgement)

    def _require_primary(self, session: Session) -> None:
        if session not in self._arbitration.primaries():
            raise ControlError(
                P4RuntimeCode.PERMISSION_DENIED, f"this stream is not a primary of device {self.device_id}"
            )

    # Pipeline config

    def set_config(self, request: Message) -> None:
        """Answer SetForwardingPipelineConfig. Raises: ControlError, and the old program goes on."""
        with self._lock:
            self._arbitration.require_primary(role_of(request.role, request.role_id), election_id_of(request))
            self._config.set(request)
            self._may_give_back = True
        self.reports.wake()

    def get_config(self, request: Message) -> Message:
        """Answer GetForwardingPipelineConfig. Raises: ControlError."""
        with self._lock:
            return self._config.get(request.response_type)

    # Write

    def write(self, request: Message) -> Outcomes:
        """Apply the updates of a WriteRequest in order, and return what became of them.

        Raises: ControlError for the request as a whole; then no update was tried.
        """
        with self._lock:
            self._arbitration.require_primary(role_of(request.role, request.role_id), election_id_of(request))
            schema, target = self._config.schema(), self._config.target
            if request.atomicity not in list(Atomicity):
                raise illegal(f"atomicity {request.atomicity} found; 0 to {max(Atomicity)} was expected")
            _refuse_more(len(request.updates), MAX_UPDATES, "updates in one WriteRequest")
            if request.atomicity != Atomicity.CONTINUE_ON_ERROR:
                _refuse_more(len(request.updates), MAX_ATOMIC_UPDATES, "updates to be done as a whole")
            with garbage_waits(len(request.updates) >= _LARGE_BATCH):
                outcomes = self._applied(request, target)
            if schema.digests and target is self._target:  # those of a saved program begin with it
                self._tell_of_digests(request, outcomes, schema)
            return outcomes

    def _applied(self, request: Message, target: PipelineTarget) -> Outcomes:
        """Apply the updates; texts that only refused ones brought are unknown as before."""
        outcomes: Outcomes = []
        with self._texts.batch():
            if request.atomicity == Atomicity.CONTINUE_ON_ERROR:
                for some in self._applied_in_turns(request.updates, target):
                    outcomes += some
            else:
                changes = list(self._decoded(request.updates, Shape.changes))
                outcomes = target.run(partial(apply_all, changes=changes))
            for place, error in enumerate(outcomes):
                if error is not None:
                    self._texts.refuse(place)
        self._may_give_back |= any(update.type != INSERT for update in request.updates)
        return outcomes

    def _applied_in_turns(self, updates: Message, target: PipelineTarget) -> Iterator[Outcomes]:
        """Apply updates a turn at a time, each for itself."""
        for start in range(0, len(updates), UPDATES_PER_TURN):
            some = updates[start : start + UPDATES_PER_TURN]
            changes = list(self._decoded(some, _together, start))
            yield target.run(partial(apply_each, changes=changes))

    def _decoded(
        self,
        updates: Message,
        changes_of: Callable[[Shape, list[bytes]], Iterable[Understood]],
        start: int = 0,
    ) -> Iterator[Understood | Change | ControlError]:
        """Yield the change that each update means, or why it means none. `changes_of` are those of a shape.

        The first update has the place `start` in the batch.
        """
        schema, shapes = self._config.schema(), self._config.shapes()
        encoded = [update.SerializeToString() for update in updates]
        place = 0
        while place < len(encoded):
            shape = shapes.shape_of(encoded[place])
            if shape is not None:
                end = shape.end_of_run(encoded, place)
                yield from changes_of(shape, encoded[place:end])
                place = end
                continue
            self._texts.look_at(start + place)
            try:
                change = self._with_room(partial(change_of, updates[place], schema))
                shapes.learn(updates[place], encoded[place], change)
                yield change
            except Exception as error:
                self._texts.refuse(start + place)
                yield refusal(error)
            place += 1

    def _with_room(self, understand: Callable[[], Understood]) -> Understood:
        """Return what a message means; where it needs a number for a text and none is left, look for one."""
        try:
            return understand()
        except NoNumberLeftError:
            if not self._may_give_back:
                raise
        with self._texts.only_what_is_shown():
            for target, tables in self._config.all_states():
                show_all(target, tables)
            self.reports.show_waiting()
        self._may_give_back = False
        return understand()

    def _tell_of_digests(self, request: Message, outcomes: Outcomes, schema: Schema) -> None:
        names = {info.id: name for name, info in schema.digests.items()}
        for update, error in zip(request.updates, outcomes, strict=True):
            if error is None and update.entity.HasField("digest_entry"):
                entry = update.entity.digest_entry
                config = None if update.type == DELETE else digest_config(entry.config)
                self.reports.digest_is(names[entry.digest_id], config)

    # Read

    def read(self, request: Message) -> tuple[Iterator[Message], Outcomes]:
        """Return the entities that a ReadRequest asks for, and what became of each part of it.

        Raises: ControlError for the request as a whole.
        """
        with self._lock:
            schema, target = self._config.schema(), self._config.target
            _refuse_more(len(request.entities), MAX_QUERIES, "entities asked for in one ReadRequest")
            found: list[Iterator[Message]] = []
            taken = 0

            def read_part(wanted: Message) -> None:
                nonlocal taken
                what = "entries asked for in one ReadRequest"
                _refuse_more(taken, MAX_TAKEN, what)  # a part before had too many: take no more
                query = query_of(wanted, schema)
                seen = target.run(query.take)
                taken += query.weigh(seen)
                _refuse_more(taken, MAX_TAKEN, what)
                found.append(query.render(seen))

            outcomes = [guarded(read_part, wanted) for wanted in request.entities]
            return chain.from_iterable(found), outcomes


def _refuse_more(found: int, allowed: int, what: str) -> None:
    if found > allowed:
        raise ControlError(
            P4RuntimeCode.RESOURCE_EXHAUSTED,
            f"{found} {what} found; {allowed} are allowed, so make it several",
        )


def _together(shape: Shape, encoded: list[bytes]) -> Iterable[Change | InsertEntries]:
    """Return what updates of a shape mean: insertions are one change."""
    if shape.update_type == INSERT:
        return [InsertEntries(shape.table, shape.entries(encoded))]
    return shape.changes(encoded)
