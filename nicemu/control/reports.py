# SPDX-License-Identifier: Apache-2.0
"""What a pipeline tells its primaries by itself: packets, digests, and entries that are idle.

The pipeline's thread only puts reports into a queue; the server's takes them out, and looks at the clock.
Source: P4Runtime Specification 1.4, "P4Runtime Stream Messages".
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import (
    DigestConfig,
    DigestReport,
    Engine,
    Layouts,
    PacketIn,
    Program,
    Report,
    TableEntry,
    Varbits,
    p4info_of,
    shaped,
)

from .data_message import fill_data
from .digest_lists import DigestList, DigestLists
from .entry_message import add_matches
from .messages import Message, messages
from .metadata import fill_note
from .packet_message import frame_of_message, packet_in_message
from .refusals import illegal
from .schema import Schema
from .stream import Session
from .target import PipelineTarget
from .texts import Texts

MAX_WAITING_REPORTS = 4_096
"""Reports that wait for the server; with more, further ones are dropped and counted."""
IDLE_POLL_NS = 100_000_000
"""How often entries are looked at whose idle timeout may have passed."""


class Reports:
    """The reports of one target, and the sessions to tell."""

    def __init__(self, target: PipelineTarget, texts: Texts | None = None) -> None:
        self._target = target
        self._texts = texts or Texts()
        self._waiting: queue.Queue[Report | None] = queue.Queue(MAX_WAITING_REPORTS)
        self._lock = threading.RLock()
        self._sessions: list[Session] = []
        self._lists = DigestLists()
        self._configs: dict[str, DigestConfig | None] = {}
        """How digests are sent that were written of, whatever reports say that were on their way then."""
        self._known: tuple[Program, Schema, Layouts] | None = None
        self._lost: Counter[str] = Counter()
        self._next_idle_ns = 0

    def tell(self, sessions: Sequence[Session]) -> None:
        """Tell these sessions from now on."""
        with self._lock:
            self._sessions = list(sessions)
        self._target.listen(self._take if sessions else None)
        self.wake()

    def wait(self, timeout_s: float | None) -> Report | None:
        """Return the next report, or None once `wake` was called or time is up."""
        try:
            return self._waiting.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def wake(self) -> None:
        """Have `wait` return, as there may be something new to look at by the clock."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)

    def _take(self, report: Report) -> bool:
        try:
            self._waiting.put_nowait(report)
        except queue.Full:
            return False
        return True

    # What the server's thread does

    def on_report(self, report: Report, now_ns: int) -> None:
        """Tell the sessions of a report, or keep it until there are more."""
        with self._lock:
            if self._program() is None:
                return
            if isinstance(report, DigestReport):
                config = self._configs.get(report.digest.name, report.config)
                if config is not None:
                    report = replace(report, config=config)
                    self._send_digests(self._lists.post(report, now_ns), now_ns)
            else:
                self._send_packet(report)

    def on_timer(self, now_ns: int) -> None:
        """Send what is due by now, and say what was lost."""
        with self._lock:
            if self._program() is None:
                return
            self._send_digests(self._lists.due(now_ns), now_ns)
            watched = self._watches_idle()
            lost, self._lost = self._lost, Counter()
        if lost:
            self._target.run(lambda engine: engine.drops.update(lost))
        if watched and now_ns >= self._next_idle_ns:
            self._next_idle_ns = now_ns + IDLE_POLL_NS
            idle = self._target.run(_newly_idle)
            with self._lock:
                if idle and self._program() is not None:
                    self._send_idle(idle, now_ns)

    def next_deadline_ns(self, now_ns: int) -> int | None:
        """Return when `on_timer` is to be called next; None if nothing is to come."""
        with self._lock:
            deadline_ns = self._lists.next_deadline_ns()
            if self._lost or self._watches_idle():
                look_ns = now_ns + IDLE_POLL_NS
                deadline_ns = look_ns if deadline_ns is None else min(deadline_ns, look_ns)
            return deadline_ns

    # What clients do

    def frame_of(self, packet: Message) -> bytes:
        """Return the frame that a PacketOut means. Raises: ControlError."""
        with self._lock:
            schema = self._schema()
            if schema.translator is not None:
                packet = schema.translator.packet_out(packet)
            return frame_of_message(packet, schema.packet_headers.get("packet_out"))

    def acknowledge(self, acknowledgement: Message) -> None:
        """Take a DigestListAck; one that comes too late is no error.

        Raises: ControlError(INVALID_ARGUMENT) for a digest that there is not.
        """
        with self._lock:
            schema = self._schema()
            try:
                digest = schema.item("digest", acknowledgement.digest_id)
            except ControlError as error:
                raise illegal(str(error)) from None
            self._lists.acknowledge(digest.name, acknowledgement.list_id)

    def digest_is(self, name: str, config: DigestConfig | None) -> None:
        """Send a digest in this way from now on, what waits too; with None neither that nor what comes."""
        with self._lock:
            if self._program() is None:
                return
            self._configs[name] = config
            if config is None:
                self._lists.stop(name)
            else:
                self._lists.configure(name, config)
        self.wake()

    # Messages

    def _program(self) -> Program | None:
        program = self._target.program
        if program is not None and (self._known is None or self._known[0] is not program):
            self._known = (program, Schema(p4info_of(program), self._texts), Layouts(program))
            self._lists.clear()
            self._configs.clear()
        return program

    def _schema(self) -> Schema:
        if self._program() is None or self._known is None:
            raise ControlError(P4RuntimeCode.FAILED_PRECONDITION, "no program is loaded; load one first")
        return self._known[1]

    def _watches_idle(self) -> bool:
        if not self._sessions or self._program() is None:
            return False
        return any(table.info.idle_timeout for table in self._schema().tables)

    def _send_packet(self, report: PacketIn) -> None:
        self._send(packet_in_message(report.frame, self._schema().packet_headers.get("packet_in")))

    def _send_digests(self, lists: Sequence[DigestList], now_ns: int) -> None:
        assert self._known is not None
        _, schema, layouts = self._known
        for one in lists:
            if one.name in schema.digests:
                self._send(_digest_message(one, now_ns, schema, layouts))

    def show_waiting(self) -> None:
        """Have each value of a translated type be shown that waits in a list of digests."""
        with self._lock:
            if self._program() is None or self._known is None:
                return
            _, schema, layouts = self._known
            for one in self._lists.waiting():
                if schema.translator is not None and one.name in schema.digests:
                    schema.translator.report(_digest_message(one, 0, schema, layouts))

    def _send_idle(self, idle: Sequence[tuple[str, TableEntry]], now_ns: int) -> None:
        schema = self._schema()
        tables = {table.name: table for table in schema.tables}
        response = messages().StreamMessageResponse()
        notification = response.idle_timeout_notification
        notification.timestamp = now_ns
        for name, entry in idle:
            if name in tables:
                table = tables[name]
                item = notification.table_entry.add(table_id=table.id, priority=entry.priority)
                item.idle_timeout_ns = entry.idle_timeout_ns
                fill_note(item, entry.note)
                add_matches(item.match, entry.matches, table.keys)
        self._send(response)

    def _send(self, message: Message) -> None:
        translator = self._schema().translator
        if translator is not None:
            translator.report(message)
        for session in self._sessions:
            if not session.offer(message):
                self._lost["pipeline.controller_too_slow"] += 1


def _digest_message(one: DigestList, now_ns: int, schema: Schema, layouts: Layouts) -> Message:
    info = schema.digests[one.name]
    response = messages().StreamMessageResponse()
    response.digest.digest_id, response.digest.list_id = info.id, one.id
    response.digest.timestamp = now_ns
    for digest in one.digests:
        bits = Varbits(digest.length_bits, digest.number)
        value = shaped(layouts, info.type, bits, digest.shape)
        fill_data(response.digest.data.add(), value, info.type, schema.layouts)
    return response


def _newly_idle(engine: Engine) -> list[tuple[str, TableEntry]]:
    return engine.idle(engine.now_ns)
