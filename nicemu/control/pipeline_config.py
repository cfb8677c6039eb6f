# SPDX-License-Identifier: Apache-2.0
"""The forwarding pipeline config of one device: checked, saved, committed, read back.

`p4_device_config` is the program's IR as JSON, or what else `reader` takes, wrapped or not. A saved program
that is not committed yet has an engine of its own, which takes the reads and writes that refer to it;
committing gives what it holds to the target.
Source: P4Runtime Specification 1.4, "SetForwardingPipelineConfig RPC", "GetForwardingPipelineConfig RPC".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Engine, P4Info, Program, p4info_of, program_of_json

from .device_config import program_in
from .entry_shapes import EntryShapes
from .info_message import info_message, p4info_of_message
from .messages import ConfigAction, ConfigPart, Message, messages
from .p4info_difference import difference
from .pipeline_state import begin_idle_times, take_over
from .refusals import illegal
from .replication_entity import PLATFORM_LIMITS
from .schema import Schema
from .target import PipelineTarget
from .texts import Texts

ProgramReader: TypeAlias = Callable[[bytes, P4Info | None], Program]
"""Returns the program in a p4_device_config; the P4Info beside it may say more. Raises: ControlError."""


def ir_reader(text: bytes, p4info: P4Info | None = None) -> Program:
    """Return the program whose IR as JSON a p4_device_config is; it says all that a P4Info does.

    Raises: ControlError, for a P4Info that says something else, too.
    """
    program = program_of_json(text)
    if p4info is not None:
        _refuse_contradiction(difference(p4info, p4info_of(program), in_all=True))
    return program


@dataclass(frozen=True, slots=True)
class _Checked:
    """A program that runs on this NIC, with the config that brought it."""

    program: Program
    config: Message


@dataclass(frozen=True, slots=True)
class _Saved:
    checked: _Checked
    engine: Engine


class PipelineConfig:
    """What one target runs, and what waits to be committed. Callers serialise the calls."""

    def __init__(
        self,
        target: PipelineTarget,
        reader: ProgramReader = ir_reader,
        texts: Texts | None = None,
    ) -> None:
        self._target = target
        self._texts = texts or Texts()
        self._reader = reader
        self._committed: _Checked | None = None
        self._saved: _Saved | None = None
        self._schema: tuple[Program, Schema, EntryShapes] | None = None

    @property
    def target(self) -> PipelineTarget:
        """The pipeline that reads and writes refer to: that of the saved program, else the real one."""
        return self._saved.engine if self._saved else self._target

    def schema(self) -> Schema:
        """Return the tables of the program that reads and writes refer to.

        Raises: ControlError(FAILED_PRECONDITION) if there is none.
        """
        return self._described()[1]

    def shapes(self) -> EntryShapes:
        """Return the shapes of entries that were learnt of that program. Raises: likewise."""
        return self._described()[2]

    def all_states(self) -> Iterator[tuple[PipelineTarget, Schema]]:
        """Yield what holds what was written, the target of a saved program and the real one; their tables."""
        if self._saved is not None:
            yield self._saved.engine, self.schema()
        if (program := self._target.program) is not None:
            yield self._target, Schema(p4info_of(program), self._texts)

    def _described(self) -> tuple[Program, Schema, EntryShapes]:
        program = self.program()
        if self._schema is None or self._schema[0] is not program:
            schema = Schema(p4info_of(program), self._texts)
            self._schema = (program, schema, EntryShapes(schema))
        return self._schema

    def program(self) -> Program:
        """Return the program that reads and writes refer to. Raises: ControlError(FAILED_PRECONDITION)."""
        program = self.target.program
        if program is None:
            raise ControlError(
                P4RuntimeCode.FAILED_PRECONDITION,
                "no program is loaded; SetForwardingPipelineConfig comes first",
            )
        return program

    def set(self, request: Message) -> None:
        """Do what a SetForwardingPipelineConfigRequest asks.

        Raises: ControlError; then the old program goes on, entries and all.
        """
        match request.action:
            case ConfigAction.VERIFY:
                self._check(request)
            case ConfigAction.VERIFY_AND_SAVE:
                checked = self._check(request)
                self._saved = _Saved(checked, self._target.staged(checked.program))
            case ConfigAction.VERIFY_AND_COMMIT:
                checked = self._check(request)
                self._commit(checked, self._target.staged(checked.program))
            case ConfigAction.COMMIT:
                if request.HasField("config"):
                    raise illegal("COMMIT takes no config: it realises the one that VERIFY_AND_SAVE brought")
                if self._saved is None:
                    raise ControlError(
                        P4RuntimeCode.NOT_FOUND, "nothing is saved to commit; VERIFY_AND_SAVE comes first"
                    )
                self._commit(self._saved.checked, self._saved.engine)
            case ConfigAction.RECONCILE_AND_COMMIT:
                checked = self._check(request)
                self._commit(checked, self._target.staged(checked.program), keeps=True)
            case other:
                expected = ", ".join(f"{action.name} ({action})" for action in ConfigAction)
                raise illegal(f"action is {other}; one of {expected} was expected")

    def get(self, response_type: int) -> Message:
        """Return the GetForwardingPipelineConfigResponse; without a program it has no config."""
        if response_type not in list(ConfigPart):
            raise illegal(f"response_type is {response_type}; 0 to {max(ConfigPart)} was expected")
        response = messages().GetForwardingPipelineConfigResponse()
        program = self._target.program
        if program is None:
            return response
        committed = self._committed.config if self._committed and self._committed.program is program else None
        config = response.config
        config.SetInParent()
        if response_type in (ConfigPart.ALL, ConfigPart.P4INFO_AND_COOKIE):
            config.p4info.CopyFrom(committed.p4info if committed else info_message(p4info_of(program)))
        if response_type in (ConfigPart.ALL, ConfigPart.DEVICE_CONFIG_AND_COOKIE):
            config.p4_device_config = committed.p4_device_config if committed else program.to_json().encode()
        if committed and committed.HasField("cookie"):
            config.cookie.CopyFrom(committed.cookie)
        return response

    def _check(self, request: Message) -> _Checked:
        """Return the program of a config; a config without p4info gets the program's own."""
        if not request.HasField("config") or not request.config.p4_device_config:
            raise illegal("the config has no p4_device_config; the program's IR as JSON was expected")
        given = p4info_of_message(request.config.p4info) if request.config.HasField("p4info") else None
        program = self._reader(program_in(request.config.p4_device_config), given)
        own = p4info_of(program)
        config = messages().ForwardingPipelineConfig()
        config.CopyFrom(request.config)
        if given is not None:
            _refuse_contradiction(difference(given, own))
        else:
            config.p4info.CopyFrom(info_message(own))
        _refuse_needs(config.p4info.pkg_info.platform_properties)
        return _Checked(program, config)

    def _commit(self, checked: _Checked, staged: Engine, *, keeps: bool = False) -> None:
        """Have the target run what `staged` runs, with what that holds; or what the target holds, if it
        `keeps` it.
        """

        def change_over(engine: Engine) -> None:
            staged.tick(engine.now_ns)
            if keeps:
                try:
                    take_over(engine, staged)
                except ControlError as error:
                    raise illegal(f"the present state does not fit the new program: {error}") from None
            else:
                begin_idle_times(staged)
            engine.adopt(staged)

        self._target.run(change_over)
        self._committed = checked
        self._saved = None


def _refuse_contradiction(sentence: str | None) -> None:
    if sentence:
        raise illegal(f"p4info does not belong to this program: {sentence}; compile both again")


def _refuse_needs(properties: Message) -> None:
    """Refuse what a program needs and this switch has not.

    Source: P4Runtime Specification 1.4, "PkgInfo Message".
    """
    for field, needed in properties.ListFields():
        limit = PLATFORM_LIMITS.get(field.name, 0)
        if not 0 <= needed <= limit:
            raise illegal(f"p4info needs a {field.name} of {needed}; here it is {limit}")
